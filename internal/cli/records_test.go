package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// showRecord is a record on one line: null, or the text in quotes.
func showRecord(r *kgo.Record) string {
	show := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	text := show(r.Key) + " " + show(r.Value)
	for _, h := range r.Headers {
		text += " " + h.Key + "=" + show(h.Value)
	}
	return text
}

func TestLineReader(t *testing.T) {
	for _, tc := range []struct{ name, props, in, want string }{
		{"lines", "", "a\nb\r\nc\rd", `null "a";null "b";null "c";null "d"`},
		{"empty lines are records", "", "\n\na\n", `null "";null "";null "a"`},
		{"CR before the end", "", "a\r", `null "a"`},
		{"keys", "parse.key=true", "k\tv\n\tv\nk\t\nk\tv\tw", `"k" "v";"" "v";"k" "";"k" "v\tw"`},
		{"own separator", "parse.key=true key.separator=::", "k::v:w", `"k" "v:w"`},
		{"no separator", "parse.key=true", "k\tv\nkv", `"k" "v";No key separator found on line number 2: 'kv'`},
		{"errors ignored", "parse.key=true ignore.error=true", "kv\nk\tv", `null "kv";"k" "v"`},
		{"headers", "parse.headers=true", "a:1,b:2\tv\n", `null "v" a="1" b="2"`},
		{"headers and key", "parse.headers=true parse.key=true", "a:1\tk\tv", `"k" "v" a="1"`},
		{"header without colon", "parse.headers=true", "a\tv", `No header key separator found in pair 'a' on line number 1`},
		{"null marker", "parse.headers=true parse.key=true null.marker=-", "a:-\t-\t-\n-\tk\tv", `null null a=null;"k" "v"`},
		{"null header key", "parse.headers=true null.marker=-", "-:1\tv", `Header keys should not be equal to the null marker '-' as they can't be null`},
		{"equal separators", "headers.delimiter=,", "", "headers.delimiter and headers.separator may not be equal"},
		{"marker as separator", "null.marker=: ", "", "null.marker and headers.key.separator may not be equal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			r, err := newLineReader("t", keyValues(strings.Fields(tc.props)), strings.NewReader(tc.in))
			for err == nil {
				var rec *kgo.Record
				if rec, err = r.next(); err == nil {
					got = append(got, showRecord(rec))
				}
			}
			if !errors.Is(err, io.EOF) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ";")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A line longer than any buffer is one record.
func TestLineReaderLongLine(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	r, err := newLineReader("t", nil, strings.NewReader(long+"\r\n"+long))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rec, err := r.next()
		if err != nil || string(rec.Value) != long {
			t.Fatalf("%d bytes, %v; want %d", len(rec.Value), err, len(long))
		}
	}
}

func TestRecordFormat(t *testing.T) {
	rec := &kgo.Record{Topic: "t", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1234), Value: []byte("v"),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}}
	for _, tc := range []struct{ props, want string }{
		{"", "v\n"},
		{"print.key=true", "null\tv\n"},
		{"print.key=true null.literal=NIL key.separator=|", "NIL|v\n"},
		{"print.value=false print.key=true", "null\n"},
		{"print.timestamp=true print.partition=true print.offset=true print.epoch=true print.headers=true print.key=TRUE",
			"CreateTime:1234\tPartition:3\tOffset:42\tEpoch:NOT_PRESENT\ta:1,b:null\tnull\tv\n"},
		{"print.headers=true headers.separator=; line.separator=.", "a:1;b:null\tv."},
		{"print.value=false", ""},
		{"value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer", "v\n"},
		{"value.deserializer=org.apache.kafka.common.serialization.LongDeserializer", "Size of data received by LongDeserializer is not 8"},
		{"value.deserializer=com.example.Avro", "no deserializer com.example.Avro; those of org.apache.kafka.common.serialization are known"},
	} {
		var out strings.Builder
		f, err := newRecordFormat(keyValues(strings.Fields(tc.props)))
		if err == nil {
			err = f.write(&out, rec)
		}
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.props, diff)
		}
	}
}

func TestDeserializers(t *testing.T) {
	for _, tc := range []struct {
		class, in, want string
	}{
		{"IntegerDeserializer", "\xff\xff\xff\xfe", "-2"},
		{"LongDeserializer", "\x00\x00\x00\x00\x00\x00\x01\x00", "256"},
		{"ShortDeserializer", "\x80\x00", "-32768"},
		{"FloatDeserializer", "\x3f\x80\x00\x00", "1.0"},
		{"DoubleDeserializer", "\x40\x59\x00\x00\x00\x00\x00\x00", "100.0"},
		{"DoubleDeserializer", "\x41\x63\x12\xd0\x00\x00\x00\x00", "1.0E7"},
		{"BooleanDeserializer", "\x01", "true"},
		{"BytesDeserializer", "a\x00\\", `a\x00\x5C`},
	} {
		got, err := deserializers[tc.class]([]byte(tc.in))
		if err != nil || got != tc.want {
			t.Errorf("%s(%q): %q, %v; want %q", tc.class, tc.in, got, err, tc.want)
		}
	}
}
