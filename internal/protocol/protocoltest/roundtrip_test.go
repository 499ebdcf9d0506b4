package protocoltest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/schemas"
)

func load(tb testing.TB) []*schemas.Message {
	tb.Helper()
	ms, err := schemas.Load()
	if err != nil {
		tb.Fatal(err)
	}
	if len(ms) != 279 {
		tb.Fatalf("%d schemas, want Kafka 4.4.0's 279", len(ms))
	}
	return ms
}

// Every message in every version decodes to what was encoded, and takes the bytes it was encoded into, no more.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range load(t) {
		for v := m.Versions.Low; v <= m.Versions.High; v++ {
			for range 20 {
				want := Random(r, m, v, true)
				b, err := want.Encode([]byte("before"), v)
				if err != nil {
					t.Errorf("%v", err)
					break
				}
				d := wire.NewDecoder(append(b, "after"...))
				d.Skip(len("before"))
				got := New(m.Name)
				if err := got.Decode(d, v); err != nil {
					t.Errorf("%v", err)
					break
				}
				if string(d.Rest()) != "after" {
					t.Errorf("%s version %d: %d bytes left over, want 5", m.Name, v, d.Remaining())
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s version %d: decoded differs (-encoded +decoded):\n%s", m.Name, v, diff)
					break
				}
				again, err := got.Encode([]byte("before"), v)
				if err != nil || !bytes.Equal(again, b) {
					t.Errorf("%s version %d: encoded again: %x, %v, want %x", m.Name, v, again, err, b)
					break
				}
			}
		}
	}
}

// A message cut anywhere is an error, never a panic and never a shorter message.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range load(t) {
		for v := m.Versions.Low; v <= m.Versions.High; v++ {
			b, err := Random(r, m, v, true).Encode(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			step := max(1, len(b)/50)
			for n := 0; n < len(b); n += step {
				if err := New(m.Name).Decode(wire.NewDecoder(b[:n]), v); err == nil {
					t.Errorf("%s version %d: decoded from %d of %d bytes", m.Name, v, n, len(b))
				}
			}
		}
	}
}

// Versions that do not exist are errors both ways.
func TestUnknownVersion(t *testing.T) {
	for _, m := range load(t) {
		for _, v := range []int16{m.Versions.Low - 1, m.Versions.High + 1} {
			if _, err := New(m.Name).Encode(nil, v); err == nil {
				t.Errorf("%s version %d was encoded", m.Name, v)
			}
			if err := New(m.Name).Decode(wire.NewDecoder(make([]byte, 100)), v); err == nil {
				t.Errorf("%s version %d was decoded", m.Name, v)
			}
		}
	}
}
