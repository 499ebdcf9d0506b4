package controller

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// showLog prints the batches that were appended since the last time.
func (w *traceWorld) showLog() {
	for ; w.printed < len(w.quorum.log); w.printed++ {
		b := w.quorum.log[w.printed]
		for i, v := range b.Records {
			if _, noOp := v.Record.(*metadata.NoOpRecord); noOp && !w.has("noop") {
				continue
			}
			fmt.Fprintf(&w.out, "%d %s\n", b.BaseOffset+int64(i), w.recordText(v))
		}
	}
}

// recordText shows a record: its type, and the fields that are not as by default.
func (w *traceWorld) recordText(v metadata.Versioned) string {
	name := strings.TrimSuffix(reflect.TypeOf(v.Record).Elem().Name(), "Record")
	return fmt.Sprintf("%s v%d%s", name, v.Version, w.fieldsText(reflect.ValueOf(v.Record).Elem(), reflect.ValueOf(defaults(v.Record)).Elem()))
}

func defaults(r metadata.Record) metadata.Record { return metadata.NewRecord(r.RecordKey()) }

func (w *traceWorld) fieldsText(v, def reflect.Value) string {
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "UnknownTags" || reflect.DeepEqual(v.Field(i).Interface(), def.Field(i).Interface()) {
			continue
		}
		if f.Name == "EndPoints" || f.Name == "Features" {
			continue // the same everywhere
		}
		fmt.Fprintf(&b, " %s=%s", lowerFirst(f.Name), w.valueText(f.Name, v.Field(i)))
	}
	return b.String()
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (w *traceWorld) valueText(name string, v reflect.Value) string {
	if id, ok := v.Interface().(uuid.UUID); ok {
		switch name {
		case "TopicId":
			return w.topicName(id)
		case "IncarnationId":
			return strings.TrimRight(strings.TrimPrefix(string(id[:15]), "inc:"), "\x00")
		case "Id": // of an ACL
			return id.String()
		}
		return dirName(id)
	}
	if b, ok := v.Interface().([]byte); ok {
		return fmt.Sprintf("%x", b)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return w.valueText(name, v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return "null"
		}
		var parts []string
		for i := range v.Len() {
			parts = append(parts, w.valueText(name, v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		return "{" + strings.TrimSpace(w.fieldsText(v, reflect.Zero(v.Type()))) + "}"
	case reflect.String:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// topicName tells a topic's id by the name it has or had.
func (w *traceWorld) topicName(id uuid.UUID) string {
	for _, b := range w.quorum.log {
		for _, v := range b.Records {
			if r, ok := v.Record.(*metadata.TopicRecord); ok && r.TopicId == id {
				return "<" + r.Name + ">"
			}
		}
	}
	return "<unknown>"
}
