package protocoltest

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/schemas"
)

// fuzz decodes any bytes as any message of some kinds. What can be read can be written, and read back: the
// second writing equals the first.
func fuzz(f *testing.F, kinds ...string) {
	r := rand.New(rand.NewPCG(7, 8))
	var ms []*schemas.Message
	for _, m := range load(f) {
		for _, k := range kinds {
			if m.Kind == k {
				ms = append(ms, m)
			}
		}
	}
	for i, m := range ms {
		v := Version(r, m)
		b, err := Random(r, m, v, true).Encode(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(i), uint8(v-m.Versions.Low), b)
		if len(b) > 4 {
			b = bytes.Clone(b)
			b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
			f.Add(uint16(i), uint8(0), b)
		}
	}
	f.Fuzz(func(t *testing.T, which uint16, version uint8, b []byte) {
		m := ms[int(which)%len(ms)]
		v := m.Versions.Low + int16(version)%(m.Versions.High-m.Versions.Low+1)
		msg := New(m.Name)
		if err := msg.Decode(wire.NewDecoder(b), v); err != nil {
			return
		}
		first, err := msg.Encode(nil, v)
		if err != nil {
			return // unknown tagged fields out of order
		}
		again := New(m.Name)
		d := wire.NewDecoder(first)
		if err := again.Decode(d, v); err != nil || d.Remaining() > 0 {
			t.Fatalf("%s version %d: what was written from %x cannot be read: %v", m.Name, v, b, err)
		}
		second, err := again.Encode(nil, v)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s version %d: written again: %x, %v, want %x", m.Name, v, second, err, first)
		}
	})
}

func FuzzHeader(f *testing.F)            { fuzz(f, "header") }
func FuzzRequest(f *testing.F)           { fuzz(f, "request") }
func FuzzResponse(f *testing.F)          { fuzz(f, "response") }
func FuzzCoordinatorRecord(f *testing.F) { fuzz(f, "key", "value") }
func FuzzData(f *testing.F)              { fuzz(f, "data") }

func FuzzMetadataRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, m := range load(f) {
		if m.Kind != "record" || m.Package != "metadata" {
			continue
		}
		v := Version(r, m)
		b, err := metadata.AppendRecord(nil, Random(r, m, v, true).(metadata.Record), v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, v, err := metadata.ParseRecord(b)
		if err != nil {
			return
		}
		first, err := metadata.AppendRecord(nil, rec, v)
		if err != nil {
			return // unknown tagged fields out of order
		}
		again, v2, err := metadata.ParseRecord(first)
		if err != nil || v2 != v || again.RecordKey() != rec.RecordKey() {
			t.Fatalf("what was written from %x cannot be read: %v", b, err)
		}
	})
}

// A count that lies costs no more memory than a small multiple of the input, wherever in a message it stands.
func TestHostileCounts(t *testing.T) {
	const size = 1 << 20
	r := rand.New(rand.NewPCG(11, 12))
	for _, m := range load(t) {
		if m.Kind != "request" {
			continue
		}
		v := m.Versions.High
		good, err := Random(r, m, v, false).Encode(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at <= len(good); at += max(1, len(good)/6) {
			// From here on: either a compact count above or below the limit, then zeros; or counts of one everywhere.
			for _, fill := range [][]byte{{0xff, 0xff, 0x3f}, {0xa1, 0xf7, 0x36}, {}} {
				b := append(bytes.Clone(good[:at]), fill...)
				rest := byte(0)
				if len(fill) == 0 {
					rest = 2
				}
				b = append(b, bytes.Repeat([]byte{rest}, size-len(b))...)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				msg := New(m.Name)
				err := msg.Decode(wire.NewDecoder(b), v)
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; err != nil && got > 8*size {
					t.Errorf("%s version %d cut at %d, then %x: %d bytes allocated for %d bytes of input: %v", m.Name, v, at, fill, got, size, err)
				}
			}
		}
	}
}
