package protocoltest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
	"github.com/ottla-io/ottla/schemas"
)

// Random returns a message of a schema with random values in every field that the version has, nulls and empty
// values among them. Structures that are stored get unknown tagged fields now and then if tags is set.
func Random(r *rand.Rand, m *schemas.Message, version int16, tags bool) protocol.Message {
	msg := New(m.Name)
	if msg == nil {
		panic("no message " + m.Name)
	}
	f := filler{r, m, version, tags}
	f.fill(m.Root, reflect.ValueOf(msg).Elem())
	return msg
}

// Version returns one of the versions of a message at random.
func Version(r *rand.Rand, m *schemas.Message) int16 {
	return m.Versions.Low + int16(r.IntN(int(m.Versions.High-m.Versions.Low)+1))
}

type filler struct {
	r       *rand.Rand
	m       *schemas.Message
	version int16
	tags    bool
}

func goName(f *schemas.Field) string { return strings.ToUpper(f.Name[:1]) + f.Name[1:] }

func (g *filler) fill(s *schemas.Struct, v reflect.Value) {
	v.Addr().MethodByName("SetDefaults").Call(nil)
	for _, f := range s.Fields {
		if !f.Versions.Has(g.version) || g.r.IntN(12) == 0 {
			continue // stays at its default
		}
		x := v.FieldByName(goName(f))
		if f.Null.Has(g.version) && g.r.IntN(5) == 0 {
			x.SetZero()
			continue
		}
		g.value(f, x)
	}
	if u := v.FieldByName("UnknownTags"); g.tags && u.IsValid() && g.m.Flexible.Has(g.version) && g.r.IntN(4) == 0 {
		u.Set(reflect.ValueOf([]wire.Tag{{Number: 40 + g.r.IntN(3), Value: g.bytes()}, {Number: 300, Value: g.bytes()}}))
	}
}

func (g *filler) value(f *schemas.Field, x reflect.Value) {
	if f.Array() {
		n := g.r.IntN(4)
		if n == 0 && !f.Nullable {
			x.SetZero() // the one form of an empty array that is never null
			return
		}
		if g.r.IntN(50) == 0 && f.Struct == nil {
			n = 200 // counts of two bytes
		}
		x.Set(reflect.MakeSlice(x.Type(), n, n))
		for i := range n {
			g.element(f, x.Index(i))
		}
		return
	}
	if x.Kind() == reflect.Pointer {
		p := reflect.New(x.Type().Elem())
		g.element(f, p.Elem())
		x.Set(p)
		return
	}
	g.element(f, x)
}

func (g *filler) element(f *schemas.Field, x reflect.Value) {
	switch f.Elem() {
	case "bool":
		x.SetBool(g.r.IntN(2) == 0)
	case "int8", "int16", "int32", "int64":
		x.SetInt(g.number(x.Type().Bits()))
	case "uint16", "uint32":
		x.SetUint(uint64(g.number(x.Type().Bits())) & (1<<x.Type().Bits() - 1))
	case "float64":
		x.SetFloat(float64(g.number(52)) / 64)
	case "string":
		x.SetString(g.string())
	case "bytes", "records":
		b := g.bytes()
		if len(b) == 0 && !f.Nullable {
			b = nil
		}
		x.SetBytes(b)
	case "uuid":
		var u uuid.UUID
		for i := range u {
			u[i] = byte(g.r.Uint32())
		}
		x.Set(reflect.ValueOf(u))
	default:
		g.fill(f.Struct, x)
	}
}

// number is often small, sometimes any number of so many bits, sometimes at an edge.
func (g *filler) number(bits int) int64 {
	switch g.r.IntN(6) {
	case 0:
		return int64(g.r.IntN(10)) - 2
	case 1:
		return -1 << (bits - 1)
	case 2:
		return 1<<(bits-1) - 1
	}
	return int64(g.r.Uint64()) >> (64 - bits)
}

func (g *filler) string() string {
	switch g.r.IntN(20) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("long-", 60)
	case 2:
		return "überall"
	}
	return fmt.Sprintf("s%x", g.r.Uint32())
}

func (g *filler) bytes() []byte {
	n := g.r.IntN(12)
	if g.r.IntN(20) == 0 {
		n = 300
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.r.Uint32())
	}
	return b
}
