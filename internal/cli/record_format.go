package cli

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordFormat prints records as Kafka's DefaultMessageFormatter does.
type recordFormat struct {
	timestamp, partition, offset, delivery, epoch, headers, key, value bool
	keySeparator, lineSeparator, headersSeparator, nullLiteral         string
	keyText, valueText, headerText                                     deserializer
}

// deserializer turns bytes into the text of what they mean.
type deserializer func(b []byte) (string, error)

// newRecordFormat reads the formatter's properties.
func newRecordFormat(props map[string]string) (*recordFormat, error) {
	f := &recordFormat{value: true, keySeparator: "\t", lineSeparator: "\n", headersSeparator: ",", nullLiteral: "null"}
	for key, field := range map[string]*bool{"print.timestamp": &f.timestamp, "print.key": &f.key, "print.offset": &f.offset,
		"print.delivery": &f.delivery, "print.epoch": &f.epoch, "print.partition": &f.partition,
		"print.headers": &f.headers, "print.value": &f.value} {
		if v, ok := props[key]; ok {
			*field = strings.EqualFold(strings.TrimSpace(v), "true")
		}
	}
	for key, field := range map[string]*string{"key.separator": &f.keySeparator, "line.separator": &f.lineSeparator,
		"headers.separator": &f.headersSeparator, "null.literal": &f.nullLiteral} {
		if v, ok := props[key]; ok {
			*field = v
		}
	}
	for key, field := range map[string]*deserializer{"key.deserializer": &f.keyText, "value.deserializer": &f.valueText,
		"headers.deserializer": &f.headerText} {
		if class, ok := props[key]; ok {
			d := deserializers[strings.TrimPrefix(class, "org.apache.kafka.common.serialization.")]
			if d == nil {
				return nil, fmt.Errorf("no deserializer %s; those of org.apache.kafka.common.serialization are known", class)
			}
			*field = d
		}
	}
	return f, nil
}

// write prints one record.
func (f *recordFormat) write(w io.Writer, r *kgo.Record) error {
	var b strings.Builder
	// Each column is followed by a separator: of columns if another one comes, else of lines.
	columns := []struct {
		on    bool
		print func() error
	}{
		{f.timestamp, func() error { b.WriteString(timestampText(r)); return nil }},
		{f.partition, func() error { fmt.Fprintf(&b, "Partition:%d", r.Partition); return nil }},
		{f.offset, func() error { fmt.Fprintf(&b, "Offset:%d", r.Offset); return nil }},
		{f.delivery, func() error { b.WriteString("Delivery:NOT_PRESENT"); return nil }},
		{f.epoch, func() error { b.WriteString("Epoch:NOT_PRESENT"); return nil }},
		{f.headers, func() error { return f.writeHeaders(&b, r) }},
		{f.key, func() error { return f.field(&b, f.keyText, r.Key) }},
		{f.value, func() error { return f.field(&b, f.valueText, r.Value) }},
	}
	last := -1
	for i, c := range columns {
		if c.on {
			last = i
		}
	}
	for i, c := range columns {
		if !c.on {
			continue
		}
		if err := c.print(); err != nil {
			return err
		}
		if i == last {
			b.WriteString(f.lineSeparator)
		} else {
			b.WriteString(f.keySeparator)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *recordFormat) writeHeaders(b *strings.Builder, r *kgo.Record) error {
	if len(r.Headers) == 0 {
		b.WriteString("NO_HEADERS")
	}
	for i, h := range r.Headers {
		if i > 0 {
			b.WriteString(f.headersSeparator)
		}
		b.WriteString(h.Key + ":")
		if err := f.field(b, f.headerText, h.Value); err != nil {
			return err
		}
	}
	return nil
}

// field writes bytes as they are, or as a deserializer sees them. As in Kafka null becomes the null literal first.
func (f *recordFormat) field(b *strings.Builder, d deserializer, value []byte) error {
	if value == nil {
		value = []byte(f.nullLiteral)
	}
	if d == nil {
		b.Write(value)
		return nil
	}
	text, err := d(value)
	b.WriteString(text)
	return err
}

func timestampText(r *kgo.Record) string {
	switch r.Attrs.TimestampType() {
	case 0:
		return "CreateTime:" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
	case 1:
		return "LogAppendTime:" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
	}
	return "NO_TIMESTAMP"
}

// sized is a deserializer of values of a fixed size.
func sized(name string, size int, text func(b []byte) string) deserializer {
	return func(b []byte) (string, error) {
		if len(b) != size {
			return "", fmt.Errorf("Size of data received by %s is not %d", name, size) //nolint:staticcheck // Kafka's words
		}
		return text(b), nil
	}
}

// deserializers by the name of their class in org.apache.kafka.common.serialization.
var deserializers = map[string]deserializer{
	"StringDeserializer": func(b []byte) (string, error) { return string(b), nil },
	"IntegerDeserializer": sized("IntegerDeserializer", 4, func(b []byte) string {
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(b))))
	}),
	"LongDeserializer": sized("LongDeserializer", 8, func(b []byte) string {
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10)
	}),
	"ShortDeserializer": sized("ShortDeserializer", 2, func(b []byte) string {
		return strconv.Itoa(int(int16(binary.BigEndian.Uint16(b))))
	}),
	"FloatDeserializer": sized("FloatDeserializer", 4, func(b []byte) string {
		return javaFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32)
	}),
	"DoubleDeserializer": sized("DoubleDeserializer", 8, func(b []byte) string {
		return javaFloat(math.Float64frombits(binary.BigEndian.Uint64(b)), 64)
	}),
	"BooleanDeserializer": func(b []byte) (string, error) {
		if len(b) != 1 {
			return "", fmt.Errorf("Size of data received by BooleanDeserializer is not 1") //nolint:staticcheck // Kafka's words
		}
		switch b[0] {
		case 0:
			return "false", nil
		case 1:
			return "true", nil
		}
		return "", fmt.Errorf("Unexpected byte received by BooleanDeserializer: %d", b[0]) //nolint:staticcheck // Kafka's words
	},
	"UUIDDeserializer": func(b []byte) (string, error) { return string(b), nil },
	"BytesDeserializer": func(b []byte) (string, error) {
		var out strings.Builder
		for _, c := range b {
			if c >= ' ' && c <= '~' && c != '\\' {
				out.WriteByte(c)
			} else {
				out.WriteString(`\x` + strings.ToUpper(hex.EncodeToString([]byte{c})))
			}
		}
		return out.String(), nil
	},
}

// javaFloat is the text of a float as Java writes it: 1.0, 1.0E10.
func javaFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e7) {
		text := strconv.FormatFloat(v, 'E', -1, bits)
		mantissa, exponent, _ := strings.Cut(text, "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent)
		return mantissa + "E" + strconv.Itoa(n)
	}
	text := strconv.FormatFloat(v, 'f', -1, bits)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
