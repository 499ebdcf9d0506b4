package protocoltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/schemas"
)

// kmsgMessage is what kmsg's requests and responses share.
type kmsgMessage interface {
	SetVersion(int16)
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

func newKmsg(m *schemas.Message) kmsgMessage {
	if m.Kind == "request" {
		return kmsg.RequestForKey(int16(m.ID))
	}
	return kmsg.ResponseForKey(int16(m.ID))
}

// kmsg, written independently of ours, reads what we write and writes the same; we read what it writes and write
// the same; neither takes a field of the other for an unknown tagged one.
func TestKmsg(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pairs := 0
	for _, m := range load(t) {
		if m.Kind != "request" && m.Kind != "response" {
			continue
		}
		for v := m.Versions.Low; v <= m.Versions.High; v++ {
			if m.Unstable && v == m.Versions.High || m.Name == "InitProducerIdResponse" && v == m.Versions.High {
				continue // kmsg knows released versions only
			}
			pairs++
			for range 8 {
				if err := oursToKmsg(r, m, v); err != nil {
					t.Errorf("%s version %d, ours to kmsg: %v", m.Name, v, err)
				}
				if err := kmsgToOurs(r, m, v); err != nil {
					t.Errorf("%s version %d, kmsg to ours: %v", m.Name, v, err)
				}
			}
		}
	}
	if pairs != 616 {
		t.Errorf("%d messages and versions, want 616", pairs)
	}
}

func oursToKmsg(r *rand.Rand, m *schemas.Message, v int16) error {
	b, err := Random(r, m, v, false).Encode(nil, v)
	if err != nil {
		return err
	}
	k := newKmsg(m)
	k.SetVersion(v)
	if err := k.ReadFrom(b); err != nil {
		return err
	}
	if tags := unknownTags(reflect.ValueOf(k)); tags > 0 {
		return fmt.Errorf("%d unknown tagged fields", tags)
	}
	if got := k.AppendTo(nil); !bytes.Equal(got, b) {
		return fmt.Errorf("kmsg wrote\n%x, want\n%x", got, b)
	}
	return nil
}

func kmsgToOurs(r *rand.Rand, m *schemas.Message, v int16) error {
	k := newKmsg(m)
	k.SetVersion(v)
	fillKmsg(r, reflect.ValueOf(k).Elem(), absentTags(m, v))
	k.SetVersion(v)
	want := k.AppendTo(nil)
	ours := New(m.Name)
	d := wire.NewDecoder(want)
	if err := ours.Decode(d, v); err != nil {
		return fmt.Errorf("%w in %x", err, want)
	}
	if d.Remaining() > 0 {
		return fmt.Errorf("%d bytes left over", d.Remaining())
	}
	got, err := ours.Encode(nil, v)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("we wrote\n%x, want\n%x", got, want)
	}
	return nil
}

func unknownTags(v reflect.Value) int {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unknownTags(v.Elem())
		}
	case reflect.Slice:
		n := 0
		for i := range v.Len() {
			n += unknownTags(v.Index(i))
		}
		return n
	case reflect.Struct:
		if tags, ok := v.Interface().(kmsg.Tags); ok {
			return tags.Len()
		}
		n := 0
		for i := range v.NumField() {
			n += unknownTags(v.Field(i))
		}
		return n
	}
	return 0
}

// absentTags are the names, in lower case, of the tagged fields that a version lacks: kmsg writes them whenever
// they are set, which Kafka refuses to read.
func absentTags(m *schemas.Message, version int16) map[string]bool {
	names := map[string]bool{}
	var walk func(s *schemas.Struct)
	walk = func(s *schemas.Struct) {
		for _, f := range s.Fields {
			if f.Tag >= 0 && !f.Versions.Has(version) {
				names[strings.ToLower(f.Name)] = true
				if f.Name == "NodeEndpoints" {
					names["brokers"] = true // as kmsg calls it
				}
			}
			if f.Inline {
				walk(f.Struct)
			}
		}
	}
	walk(m.Root)
	for _, s := range m.Common {
		walk(s)
	}
	return names
}

func fillKmsg(r *rand.Rand, v reflect.Value, skip map[string]bool) {
	g := filler{r: r}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillKmsg(r, v.Elem(), skip)
	case reflect.Slice:
		n := 1 + r.IntN(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillKmsg(r, v.Index(i), skip)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillKmsg(r, v.Index(i), skip)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		v.Addr().MethodByName("Default").Call(nil)
		for i := range v.NumField() {
			if !skip[strings.ToLower(v.Type().Field(i).Name)] {
				fillKmsg(r, v.Field(i), skip)
			}
		}
	case reflect.String:
		v.SetString(g.string())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(g.number(v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(g.number(v.Type().Bits())) & (1<<v.Type().Bits() - 1))
	case reflect.Float64:
		v.SetFloat(float64(r.IntN(1000)) / 8)
	default:
		panic("field of " + v.Kind().String())
	}
}

// APIs has the keys and the released versions that kmsg knows.
func TestAPIsKmsg(t *testing.T) {
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		k := kmsg.RequestForKey(a.Key)
		if k == nil || k.MaxVersion() != a.MaxStable() {
			t.Errorf("%s: kmsg has %v", a.Name, k)
			continue
		}
		for v := a.Min; v <= a.MaxStable(); v++ {
			k.SetVersion(v)
			if k.IsFlexible() != (protocol.RequestHeaderVersion(a.Key, v) == 2) {
				t.Errorf("%s version %d: kmsg says flexible %v", a.Name, v, k.IsFlexible())
			}
			res := k.ResponseKind()
			res.SetVersion(v)
			if want := res.IsFlexible() && a.Key != protocol.KeyApiVersions; want != (protocol.ResponseHeaderVersion(a.Key, v) == 1) {
				t.Errorf("%s version %d: kmsg says response header %v", a.Name, v, want)
			}
		}
	}
	for key := int16(-2); key < 100; key++ {
		if a := protocol.Lookup(key); (a == nil) != (protocol.NewRequest(key) == nil) || a != nil && (a.Key != key || protocol.NewResponse(key).APIKey() != key) {
			t.Errorf("Lookup(%d) = %v", key, a)
		}
	}
}
