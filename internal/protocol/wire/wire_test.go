package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUvarint(t *testing.T) {
	for _, tc := range []struct {
		v   int
		hex string
	}{
		{0, "00"}, {1, "01"}, {127, "7f"}, {128, "8001"}, {300, "ac02"}, {16383, "ff7f"}, {16384, "808001"}, {math.MaxInt32, "ffffffff07"},
	} {
		e := NewEncoder(nil)
		e.Uvarint(tc.v)
		if got := hex.EncodeToString(e.b); got != tc.hex {
			t.Errorf("Uvarint(%d) wrote %s, want %s", tc.v, got, tc.hex)
		}
		d := NewDecoder(e.b)
		if got := d.Uvarint(); got != tc.v || d.Err() != nil || d.Remaining() != 0 {
			t.Errorf("read %d, %v, want %d", got, d.Err(), tc.v)
		}
	}
	for _, bad := range []string{"", "80", "ffffffff08", "ffffffffff01", "808080808000"} {
		b, _ := hex.DecodeString(bad)
		d := NewDecoder(b)
		if got := d.Uvarint(); d.Err() == nil || got != 0 {
			t.Errorf("%q was read as %d", bad, got)
		}
	}
}

// Null, empty and too long, in both forms, where null is welcome and where it is not.
func TestLengths(t *testing.T) {
	const null, old, compact = true, false, true
	for _, tc := range []struct {
		name string
		hex  string
		read func(d *Decoder) any
		want any
		err  string
	}{
		{"string", "000161", func(d *Decoder) any { return d.String(old) }, "a", ""},
		{"compact string", "0261", func(d *Decoder) any { return d.String(compact) }, "a", ""},
		{"null string", "ffff", func(d *Decoder) any { return d.String(old) }, "", "null in place of a string at byte 2"},
		{"compact null string", "00", func(d *Decoder) any { return d.String(compact) }, "", "null in place of a string at byte 1"},
		{"short string", "000361", func(d *Decoder) any { return d.String(old) }, "", "input ends too early at byte 2"},
		{"long compact string", "818002" + strings.Repeat("61", 0x8000), func(d *Decoder) any { return d.String(compact) }, "", "string too long at byte 3"},
		{"longest compact string", "808002" + strings.Repeat("61", 0x7fff), func(d *Decoder) any { return len(d.String(compact)) }, 0x7fff, ""},
		{"nullable string", "ffff", func(d *Decoder) any { return d.NullableString(null, old) == nil }, true, ""},
		{"empty nullable string", "01", func(d *Decoder) any { return *d.NullableString(null, compact) }, "", ""},
		{"nullable string in another version", "00", func(d *Decoder) any { return d.NullableString(!null, compact) == nil }, true, "null in place of a string at byte 1"},
		{"bytes", "0000000161", func(d *Decoder) any { return d.Bytes(old) }, []byte("a"), ""},
		{"no bytes", "01", func(d *Decoder) any { return d.Bytes(compact) }, []byte(nil), ""},
		{"null bytes", "00", func(d *Decoder) any { return d.Bytes(compact) }, []byte(nil), "null in place of bytes at byte 1"},
		{"nullable bytes", "00", func(d *Decoder) any { return d.NullableBytes(null, compact) }, []byte(nil), ""},
		{"empty nullable bytes", "01", func(d *Decoder) any { return d.NullableBytes(null, compact) }, []byte{}, ""},
		{"array", "000000020000", func(d *Decoder) any { return d.ArrayLen(1, old) }, 2, ""},
		{"null array", "00", func(d *Decoder) any { return d.ArrayLen(1, compact) }, 0, "null in place of an array at byte 1"},
		{"nullable array", "00", func(d *Decoder) any { return d.NullableArrayLen(1, null, compact) }, -1, ""},
		{"array beyond its input", "0000000300000000", func(d *Decoder) any { return d.ArrayLen(2, old) }, 0, "array longer than its input at byte 4"},
		{"array of a million and one", "000f4241" + strings.Repeat("00", 1_000_001), func(d *Decoder) any { return d.ArrayLen(1, old) }, 0, "more than 1,000,000 elements in an array at byte 4"},
		{"array of a million", "000f4240" + strings.Repeat("00", 1_000_000), func(d *Decoder) any { return d.ArrayLen(1, old) }, 1_000_000, ""},
		{"tags beyond their input", "0300", func(d *Decoder) any { return d.TagCount() }, 0, "tagged fields longer than their input at byte 1"},
		{"10,001 tags", "914e" + strings.Repeat("0000", 10_001), func(d *Decoder) any { return d.TagCount() }, 0, "more than 10,000 tagged fields at byte 2"},
		{"10,000 tags", "904e" + strings.Repeat("0000", 10_000), func(d *Decoder) any { return d.TagCount() }, 10_000, ""},
		{"tag beyond its input", "000500", func(d *Decoder) any { n, _ := d.TagHead(); return n }, -1, "input ends too early at byte 2"},
	} {
		b, err := hex.DecodeString(tc.hex)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(b)
		if diff := cmp.Diff(tc.want, tc.read(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		switch err := d.Err(); {
		case err == nil && tc.err != "":
			t.Errorf("%s: no error, want %q", tc.name, tc.err)
		case err != nil && err.Error() != tc.err:
			t.Errorf("%s: error %q, want %q", tc.name, err, tc.err)
		}
	}
}

// After an error nothing more is read, and the first error stays.
func TestSticky(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 1, 2, 3, 4, 5, 6, 7})
	d.String(true)
	first := d.Err()
	if d.Int8() != 0 || d.Int64() != 0 || d.UUID() != [16]byte{} || d.Remaining() != 0 || !errors.Is(d.Err(), first) {
		t.Errorf("the decoder went on after %v: %v", first, d.Err())
	}
	none := NewDecoder(nil)
	if none.Err() != nil {
		t.Error("an error without reading")
	}
}

// A tagged field of 128 bytes and more, and more than 127 tagged fields, move what was written after their length.
func TestLongTags(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 200, 16383, 16384} {
		var unknown []Tag
		for n := range 200 {
			unknown = append(unknown, Tag{7 + n, []byte{byte(n)}})
		}
		value := bytes.Repeat([]byte("x"), size)
		e := NewEncoder([]byte("head"))
		tags := e.BeginTags()
		e.FixedTag(&tags, 3, 4)
		e.Int32(77)
		s := e.BeginTag(&tags, 5)
		e.b = append(e.b, value...)
		e.EndTag(s)
		e.EndTags(&tags, unknown)
		if _, err := e.Result("test", 0); err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(e.b)
		d.Skip(len("head"))
		want := append([]Tag{{3, []byte{0, 0, 0, 77}}, {5, value}}, unknown...)
		if diff := cmp.Diff(want, d.KeepTags()); diff != "" || d.Err() != nil || d.Remaining() > 0 {
			t.Errorf("size %d: %v, %d left (-want +got):\n%s", size, d.Err(), d.Remaining(), diff)
		}
	}
	e := NewEncoder(nil)
	tags := e.BeginTags()
	e.EndTags(&tags, []Tag{{2, nil}, {2, nil}})
	if _, err := e.Result("test", 0); err == nil {
		t.Error("a tag was written twice")
	}
}

// What is not UTF-8 becomes what Java makes of it (compared at length in test/interop/codec).
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"t\u00f6pic":         "t\u00f6pic",
		"a\x80b":             "a\ufffdb",
		"\xe2\x82":           "\ufffd",
		"\xe0\x80x":          "\ufffd\ufffdx",
		"\xed\xa0\x80x":      "\ufffdx",
		"\xf0\x9f\x98":       "\ufffd",
		"\xf4\x90\x80\x80":   "\ufffd\ufffd\ufffd\ufffd",
		"\xff\xfe \ufffd ok": "\ufffd\ufffd \ufffd ok",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}

// A message about an error quotes what a client sent, which may leave no room for the rest of it. Nothing else is cut.
func TestErrorMessagesAreCut(t *testing.T) {
	long := strings.Repeat("x", MaxStringLen-1) + "\u00f6 is no name"
	for _, flex := range []bool{false, true} {
		e := NewEncoder(nil)
		e.NullableString("ErrorMessage", &long, true, flex)
		b, err := e.Result("test", 0)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(b)
		if got := d.NullableString(true, flex); got == nil || *got != long[:MaxStringLen-1] || d.Remaining() > 0 {
			t.Errorf("flexible %t: %d bytes, %v", flex, len(b), d.Err())
		}
		e = NewEncoder(nil)
		e.NullableString("Name", &long, true, flex)
		if _, err := e.Result("test", 0); err == nil {
			t.Error("a name was cut, or was written too long")
		}
	}
}
