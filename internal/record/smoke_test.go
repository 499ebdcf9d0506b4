package record

import "testing"

func TestSmoke(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		b := NewBuilder(0, c)
		for i := range 2000 {
			b.Append(int64(1000+i), []byte("key"), make([]byte, 100), Header{Key: []byte("h"), Value: nil})
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Validate(batch, ValidateOptions{FromClient: true, Before: 1 << 62, After: 1 << 62}, nil); err != nil {
			t.Fatal(c, err)
		}
		it := batch.Iter(nil)
		var r Record
		n := 0
		for it.Next(&r) {
			n++
		}
		if it.Err() != nil || n != 2000 {
			t.Fatal(c, n, it.Err())
		}
	}
}
