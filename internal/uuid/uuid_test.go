package uuid

import "testing"

func TestText(t *testing.T) {
	for _, tc := range []struct {
		id   UUID
		text string
	}{
		{Zero, "AAAAAAAAAAAAAAAAAAAAAA"},
		{Metadata, "AAAAAAAAAAAAAAAAAAAAAQ"},
		{UUID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "_____________________w"},
	} {
		if got := tc.id.String(); got != tc.text {
			t.Errorf("String of %x = %q, want %q", tc.id[:], got, tc.text)
		}
		for _, text := range []string{tc.text, tc.text + "=="} {
			if got, err := Parse(text); err != nil || got != tc.id {
				t.Errorf("Parse(%q) = %x, %v, want %x", text, got[:], err, tc.id[:])
			}
		}
	}
	for _, text := range []string{"", "AAAA", "AAAAAAAAAAAAAAAAAAAAA+", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAA"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestDraw(t *testing.T) {
	draws := [][16]byte{{0xf8}, {6: 0xff, 8: 0xff}} // the text of the first one starts with a dash
	n := 0
	u := Draw(func(b []byte) { copy(b, draws[n][:]); n++ })
	if n != 2 || u != (UUID{6: 0x4f, 8: 0xbf}) {
		t.Errorf("Draw = %x after %d draws, want the second one with the bits of version and variant", u[:], n)
	}
	if !DirLost.Reserved() || u.Reserved() {
		t.Error("Reserved is wrong")
	}
}
