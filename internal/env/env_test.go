package env

import "testing"

func TestBuffersAreAQuarterTooLargeAtMost(t *testing.T) {
	last := -1
	for n := 0; n <= largest; n += 1 + n/100 {
		class, size := classOf(n)
		if size < n || n > smallest && size > n+n/4+1 {
			t.Fatalf("%d bytes get a buffer of %d", n, size)
		}
		if class < last || class > last+1 {
			t.Fatalf("%d bytes are in class %d after class %d", n, class, last)
		}
		last = class
	}
	if class, size := classOf(largest); class != len(pools)-1 || size != largest {
		t.Errorf("the largest buffer has %d bytes and is in class %d of %d", size, class, len(pools))
	}
}

func TestOwnership(t *testing.T) {
	Poison.Store(true)
	defer Poison.Store(false)
	b := NewBuffer(100)
	b.Retain()
	b.Release()
	clear(b.B)
	kept := b.B
	b.B = b.B[10:20] // an owner may
	b.Release()
	if kept[99] != 0xdb {
		t.Error("a released buffer is readable")
	}
	mustPanic(t, "released twice", b.Release)
	mustPanic(t, "retained after its release", b.Retain)
}

func mustPanic(t *testing.T, what string, fn func()) {
	defer func() {
		if recover() == nil {
			t.Errorf("no panic: %s", what)
		}
	}()
	fn()
}
