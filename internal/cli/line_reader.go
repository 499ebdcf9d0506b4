package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineReader turns lines of text into records: headers, key and value where its properties ask for them.
type lineReader struct {
	topic                                       string
	parseKey, parseHeaders, ignoreError         bool
	keySeparator                                string
	headersDelimiter, headersSep, headersKeySep string
	headersPattern                              *regexp.Regexp // of headersSep, which Kafka takes for a regular expression
	nullMarker                                  *string
	in                                          *bufio.Reader
	prompt                                      io.Writer // nil without a terminal
	line                                        int
	skipLF                                      bool
}

// newLineReader reads the properties of Kafka's LineMessageReader.
func newLineReader(topic string, props map[string]string, in io.Reader) (*lineReader, error) {
	r := &lineReader{topic: topic, keySeparator: "\t", headersDelimiter: "\t", headersSep: ",", headersKeySep: ":",
		in: bufio.NewReaderSize(in, 1<<16)}
	isTrue := func(key string) bool { return strings.EqualFold(strings.TrimSpace(props[key]), "true") }
	r.parseKey, r.parseHeaders, r.ignoreError = isTrue("parse.key"), isTrue("parse.headers"), isTrue("ignore.error")
	for key, field := range map[string]*string{"key.separator": &r.keySeparator, "headers.delimiter": &r.headersDelimiter,
		"headers.separator": &r.headersSep, "headers.key.separator": &r.headersKeySep} {
		if v, ok := props[key]; ok {
			*field = v
		}
	}
	var err error
	if r.headersPattern, err = regexp.Compile(r.headersSep); err != nil {
		return nil, fmt.Errorf("headers.separator: %w", err)
	}
	marker, hasMarker := props["null.marker"]
	if hasMarker {
		r.nullMarker = &marker
	}
	for _, pair := range []struct {
		a, b  string
		equal bool
	}{
		{"headers.delimiter", "headers.separator", r.headersDelimiter == r.headersSep},
		{"headers.delimiter", "headers.key.separator", r.headersDelimiter == r.headersKeySep},
		{"headers.separator", "headers.key.separator", r.headersSep == r.headersKeySep},
		{"null.marker", "key.separator", hasMarker && r.keySeparator == marker},
		{"null.marker", "headers.separator", hasMarker && r.headersSep == marker},
		{"null.marker", "headers.delimiter", hasMarker && r.headersDelimiter == marker},
		{"null.marker", "headers.key.separator", hasMarker && r.headersKeySep == marker},
	} {
		if pair.equal {
			return nil, fmt.Errorf("%s and %s may not be equal", pair.a, pair.b)
		}
	}
	return r, nil
}

// next returns the record of the next line; io.EOF after the last one.
func (r *lineReader) next() (*kgo.Record, error) {
	r.line++
	if r.prompt != nil {
		fmt.Fprint(r.prompt, ">")
	}
	line, err := r.readLine()
	if err != nil {
		return nil, err
	}
	rec := &kgo.Record{Topic: r.topic}
	rest := line
	headers, hasHeaders := "", false
	if r.parseHeaders {
		if headers, rest, hasHeaders, err = r.cut(line, rest, r.headersDelimiter, "headers delimiter"); err != nil {
			return nil, err
		}
	}
	if r.parseKey {
		key, after, ok, err := r.cut(line, rest, r.keySeparator, "key separator")
		if err != nil {
			return nil, err
		}
		rest = after
		if ok {
			rec.Key = r.bytes(key)
		}
	}
	rec.Value = r.bytes(rest)
	if hasHeaders && !r.isNull(headers) {
		if rec.Headers, err = r.splitHeaders(headers); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// cut splits rest at a separator. Without one it is an error, unless errors are ignored.
func (r *lineReader) cut(line, rest, sep, name string) (before, after string, ok bool, err error) {
	before, after, ok = strings.Cut(rest, sep)
	if ok {
		return before, after, true, nil
	}
	if r.ignoreError {
		return "", rest, false, nil
	}
	return "", "", false, fmt.Errorf("No %s found on line number %d: '%s'", name, r.line, line) //nolint:staticcheck // Kafka's words
}

func (r *lineReader) isNull(s string) bool { return r.nullMarker != nil && s == *r.nullMarker }

// bytes is a field's value: null where it equals the null marker.
func (r *lineReader) bytes(s string) []byte {
	if r.isNull(s) {
		return nil
	}
	return []byte(s)
}

func (r *lineReader) splitHeaders(text string) ([]kgo.RecordHeader, error) {
	pairs := r.headersPattern.Split(text, -1)
	for len(pairs) > 1 && pairs[len(pairs)-1] == "" {
		pairs = pairs[:len(pairs)-1] // trailing empty pieces do not count
	}
	var headers []kgo.RecordHeader
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, r.headersKeySep)
		switch {
		case !ok && r.ignoreError:
			headers = append(headers, kgo.RecordHeader{Key: pair})
			continue
		case !ok:
			return nil, fmt.Errorf("No header key separator found in pair '%s' on line number %d", pair, r.line) //nolint:staticcheck // Kafka's words
		case r.isNull(key):
			return nil, fmt.Errorf("Header keys should not be equal to the null marker '%s' as they can't be null", *r.nullMarker) //nolint:staticcheck // Kafka's words
		}
		headers = append(headers, kgo.RecordHeader{Key: key, Value: r.bytes(value)})
	}
	return headers, nil
}

// readLine reads up to a line end, which is LF, CR or CR LF. A last line needs none.
func (r *lineReader) readLine() (string, error) {
	var line []byte
	for {
		chunk, err := r.in.ReadSlice('\n')
		if r.skipLF {
			r.skipLF = false
			if len(chunk) > 0 && chunk[0] == '\n' {
				continue
			}
		}
		if i := indexCR(chunk); i >= 0 {
			line = append(line, chunk[:i]...)
			r.unread(chunk[i+1:], err)
			return string(line), nil
		}
		if err == nil {
			return string(append(line, chunk[:len(chunk)-1]...)), nil
		}
		line = append(line, chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		default:
			return "", err
		}
	}
}

func indexCR(b []byte) int {
	for i, c := range b {
		if c == '\r' {
			return i
		}
	}
	return -1
}

// unread puts back what was read behind a CR; a LF right behind it belongs to the same line end.
func (r *lineReader) unread(rest []byte, readErr error) {
	if len(rest) == 1 && rest[0] == '\n' {
		return
	}
	if len(rest) == 0 {
		r.skipLF = readErr == nil || errors.Is(readErr, bufio.ErrBufferFull)
		return
	}
	behind := append([]byte(nil), rest...)
	r.in = bufio.NewReaderSize(io.MultiReader(strings.NewReader(string(behind)), r.in), 1<<16)
}
