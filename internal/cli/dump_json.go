package cli

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
	"github.com/ottla-io/ottla/schemas"
)

// schemaByName are the schemas of all messages. They are parsed when a tool first prints one as JSON.
var schemaByName = sync.OnceValue(func() map[string]*schemas.Message {
	all, err := schemas.Load()
	if err != nil {
		panic(fmt.Sprintf("embedded schemas: %v", err)) // the generator has read the same ones
	}
	byName := make(map[string]*schemas.Message, len(all))
	for _, m := range all {
		byName[m.Name] = m
	}
	return byName
})

// jsonPrinter writes messages as Kafka's JSON converters do: fields in the order of the schema, camel case, bytes in
// base64, only the fields that the version has, no tagged field at its default.
type jsonPrinter struct {
	version int16
	// replace may print a field in its own way; it returns nil to leave that to the schema.
	replace func(s *schemas.Struct, f *schemas.Field, x reflect.Value) []byte
}

// messageJSON is a message in a version, as JSON.
func messageJSON(msg protocol.Message, version int16) ([]byte, error) {
	return (&jsonPrinter{version: version}).message(nil, msg)
}

func (p *jsonPrinter) message(b []byte, msg protocol.Message) ([]byte, error) {
	v := reflect.ValueOf(msg).Elem()
	schema := schemaByName()[v.Type().Name()]
	if schema == nil {
		return nil, fmt.Errorf("no schema of %s", v.Type().Name())
	}
	return p.object(b, schema.Root, v), nil
}

func (p *jsonPrinter) object(b []byte, s *schemas.Struct, v reflect.Value) []byte {
	def := reflect.New(v.Type())
	def.MethodByName("SetDefaults").Call(nil)
	b = append(b, '{')
	first := true
	for _, f := range s.Fields {
		if !f.Versions.Has(p.version) {
			continue
		}
		goName := strings.ToUpper(f.Name[:1]) + f.Name[1:]
		x := v.FieldByName(goName)
		if f.Tag >= 0 && reflect.DeepEqual(x.Interface(), def.Elem().FieldByName(goName).Interface()) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendJSONString(b, strings.ToLower(f.Name[:1])+f.Name[1:])
		b = append(b, ':')
		if p.replace != nil {
			if own := p.replace(s, f, x); own != nil {
				b = append(b, own...)
				continue
			}
		}
		b = p.field(b, f, x)
	}
	return append(b, '}')
}

func (p *jsonPrinter) field(b []byte, f *schemas.Field, x reflect.Value) []byte {
	switch x.Kind() {
	case reflect.Slice, reflect.Pointer:
		if x.IsNil() && f.Null.Has(p.version) {
			return append(b, "null"...)
		}
	}
	if f.Array() {
		b = append(b, '[')
		for i := range x.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = p.element(b, f, x.Index(i))
		}
		return append(b, ']')
	}
	if x.Kind() == reflect.Pointer {
		x = x.Elem()
	}
	return p.element(b, f, x)
}

func (p *jsonPrinter) element(b []byte, f *schemas.Field, x reflect.Value) []byte {
	if f.Struct != nil {
		return p.object(b, f.Struct, x)
	}
	switch f.Elem() {
	case "bytes", "records":
		return appendJSONString(b, base64.StdEncoding.EncodeToString(x.Bytes()))
	case "uuid":
		return appendJSONString(b, x.Interface().(uuid.UUID).String())
	case "string":
		return appendJSONString(b, x.String())
	case "bool":
		return strconv.AppendBool(b, x.Bool())
	case "float64":
		return append(b, javaFloat(x.Float(), 64)...)
	case "uint16", "uint32":
		return strconv.AppendUint(b, x.Uint(), 10)
	}
	return strconv.AppendInt(b, x.Int(), 10)
}

// appendJSONString escapes what must be escaped and nothing else.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\b':
			b = append(b, '\\', 'b')
		case r == '\f':
			b = append(b, '\\', 'f')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// groupMetadataJSON prints a classic group, with subscriptions and assignments of consumers taken apart.
func groupMetadataJSON(m *protocol.GroupMetadataValue, version int16) ([]byte, error) {
	p := &jsonPrinter{version: version}
	if m.ProtocolType == "consumer" {
		p.replace = func(_ *schemas.Struct, f *schemas.Field, x reflect.Value) []byte {
			switch f.Name {
			case "Subscription", "subscription":
				return embeddedJSON(x.Bytes(), protocol.NewConsumerProtocolSubscription())
			case "Assignment", "assignment":
				return embeddedJSON(x.Bytes(), protocol.NewConsumerProtocolAssignment())
			}
			return nil
		}
	}
	return p.message(nil, m)
}

// embeddedJSON prints a message that lies in a field of bytes behind its version; nil if the bytes are none.
func embeddedJSON(b []byte, msg protocol.Message) []byte {
	if len(b) < 2 {
		return nil
	}
	version := int16(b[0])<<8 | int16(b[1])
	if msg.Decode(wire.NewDecoder(b[2:]), version) != nil {
		return nil
	}
	text, err := messageJSON(msg, version)
	if err != nil {
		return nil
	}
	return text
}

// transactionStates are the names of TransactionLogValue's status.
var transactionStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit",
	"CompleteAbort", "Dead", "PrepareEpochFence"}

// transactionJSON prints a transaction with the name of its state.
func transactionJSON(m *protocol.TransactionLogValue, version int16) ([]byte, error) {
	p := &jsonPrinter{version: version}
	p.replace = func(_ *schemas.Struct, f *schemas.Field, x reflect.Value) []byte {
		if f.Name != "TransactionStatus" || x.Int() < 0 || int(x.Int()) >= len(transactionStates) {
			return nil
		}
		return appendJSONString(nil, transactionStates[x.Int()])
	}
	return p.message(nil, m)
}
