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

func TestFromRandom(t *testing.T) {
	if _, ok := FromRandom([16]byte{0xf8}); ok {
		t.Error("an id whose text starts with a dash was accepted")
	}
	u, ok := FromRandom([16]byte{6: 0xff, 8: 0xff})
	if !ok || u[6] != 0x4f || u[8] != 0xbf {
		t.Errorf("FromRandom = %x, %v: version and variant bits are wrong", u[:], ok)
	}
	if !DirLost.Reserved() || u.Reserved() {
		t.Error("Reserved is wrong")
	}
}
