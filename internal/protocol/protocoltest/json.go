package protocoltest

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
	"github.com/ottla-io/ottla/schemas"
)

// JSON returns a message as Kafka's JSON converters read it: camel case, bytes in base64, only the fields that
// the version has, no tagged field at its default, no unknown ones.
func JSON(m *schemas.Message, msg protocol.Message, version int16) ([]byte, error) {
	return json.Marshal(object(m.Root, reflect.ValueOf(msg).Elem(), version))
}

func object(s *schemas.Struct, v reflect.Value, version int16) map[string]any {
	out := map[string]any{}
	def := reflect.New(v.Type())
	def.MethodByName("SetDefaults").Call(nil)
	for _, f := range s.Fields {
		if !f.Versions.Has(version) {
			continue
		}
		x := v.FieldByName(goName(f))
		if f.Tag >= 0 && reflect.DeepEqual(x.Interface(), def.Elem().FieldByName(goName(f)).Interface()) {
			continue
		}
		out[strings.ToLower(f.Name[:1])+f.Name[1:]] = jsonValue(f, x, version)
	}
	return out
}

func jsonValue(f *schemas.Field, x reflect.Value, version int16) any {
	if f.Null.Has(version) && x.Kind() != reflect.String && x.Kind() != reflect.Struct && x.IsNil() {
		return nil
	}
	if f.Array() {
		a := make([]any, x.Len())
		for i := range a {
			a[i] = jsonElement(f, x.Index(i), version)
		}
		return a
	}
	if x.Kind() == reflect.Pointer {
		x = x.Elem()
	}
	return jsonElement(f, x, version)
}

func jsonElement(f *schemas.Field, x reflect.Value, version int16) any {
	switch f.Elem() {
	case "bytes", "records":
		return base64.StdEncoding.EncodeToString(x.Bytes())
	case "uuid":
		return x.Interface().(uuid.UUID).String()
	}
	if f.Struct != nil {
		return object(f.Struct, x, version)
	}
	if f.Elem() == "float64" {
		// Jackson takes 1 for an integer.
		text := strconv.FormatFloat(x.Float(), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return json.RawMessage(text)
	}
	return x.Interface()
}
