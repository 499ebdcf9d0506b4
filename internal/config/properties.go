package config

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/magiconair/properties"
)

// Entry is one key of a properties file, with the line it starts on (from 1).
type Entry struct {
	Key, Value string
	File       string
	Line       int
}

// Where says where the entry stands, for messages.
func (e Entry) Where() string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// Load is the configuration of a file's text and of entries that win over it. Errors: as New, and what cannot be read.
func Load(file string, text []byte, more ...Entry) (*Node, error) {
	entries, problems := ParseProperties(file, text)
	return check(append(entries, more...), problems)
}

// ParseProperties reads a file as java.util.Properties does: ISO 8859-1 with \u escapes, '#' and '!' comments,
// '=', ':' or blanks between key and value, '\' at the end of a line continues it. Entries come in file order,
// duplicates included: the last one wins. Each problem names its line.
func ParseProperties(file string, data []byte) ([]Entry, []error) {
	var entries []Entry
	var problems []error
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	for _, l := range logicalLines(data) {
		if rest, ok := withoutKey(l.text); ok { // which the loader refuses
			entries = append(entries, Entry{Value: rest, File: file, Line: l.number})
			continue
		}
		p, err := loader.LoadBytes(append(l.text, '\n'))
		if err != nil {
			problems = append(problems, &problem{at: Entry{File: file, Line: l.number}, err: parseError(err)})
			continue
		}
		for _, k := range p.Keys() {
			v, _ := p.Get(k)
			entries = append(entries, Entry{Key: k, Value: v, File: file, Line: l.number})
		}
	}
	return entries, problems
}

// withoutKey is the value of a line that begins with its separator: Java takes that for an empty key, as it does a last line that is
// nothing but a backslash.
func withoutKey(line []byte) (value string, ok bool) {
	line = bytes.TrimLeft(line, " \t\f")
	switch {
	case len(line) == 0:
		return "", true
	case line[0] != '=' && line[0] != ':':
		return "", false
	}
	return string(bytes.TrimLeft(line[1:], " \t\f")), true
}

// parseError says what the loader, which was given this line alone, found wrong with it.
func parseError(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "properties: "), "Line 1: ")
	if text == "invalid unicode literal" {
		text = `Malformed \uxxxx encoding.` // Kafka's words
	}
	return errors.New(text)
}

type logicalLine struct {
	text   []byte
	number int
}

// logicalLines cuts data into lines, each joined with its continuations (the loader knows those of values only), so that each can be
// parsed and named by itself.
func logicalLines(data []byte) []logicalLine {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	var out []logicalLine
	continued := false
	for i, line := range bytes.Split(data, []byte("\n")) {
		blank := bytes.TrimLeft(line, " \t\f")
		comment := len(blank) > 0 && (blank[0] == '#' || blank[0] == '!')
		if continued {
			last := &out[len(out)-1]
			last.text = append(last.text, blank...)
		} else if len(blank) == 0 || comment {
			continue
		} else {
			out = append(out, logicalLine{bytes.Clone(line), i + 1})
		}
		last := &out[len(out)-1]
		if continued = endsInBackslash(line); continued {
			last.text = last.text[:len(last.text)-1]
		} else if len(bytes.TrimLeft(last.text, " \t\f")) == 0 {
			out = out[:len(out)-1] // nothing but continuations
		}
	}
	return out
}

func endsInBackslash(line []byte) bool {
	n := len(line) - len(bytes.TrimRight(line, `\`))
	return n%2 == 1
}

// notSettings are variables that Kafka's container image uses for the JVM and its logs, not for the server.
var notSettings = map[string]bool{
	"KAFKA_VERSION": true, "KAFKA_HEAP_OPTS": true, "KAFKA_LOG4J_OPTS": true, "KAFKA_OPTS": true, "KAFKA_JMX_OPTS": true,
	"KAFKA_JVM_PERFORMANCE_OPTS": true, "KAFKA_GC_LOG_OPTS": true, "KAFKA_LOG4J_ROOT_LOGLEVEL": true,
	"KAFKA_LOG4J_LOGGERS": true, "KAFKA_TOOLS_LOG4J_LOGLEVEL": true, "KAFKA_JMX_HOSTNAME": true,
}

// FromEnvironment turns KAFKA_* variables ("NAME=value") into entries, sorted by key, as Kafka's container image does:
// the prefix goes, letters become small, ___ becomes -, __ becomes _, _ becomes a dot.
func FromEnvironment(environ []string) []Entry {
	var entries []Entry
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || notSettings[name] {
			continue
		}
		key := strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(strings.ToLower(rest))
		entries = append(entries, Entry{Key: key, Value: value, File: "environment variable " + name})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Key < entries[j].Key })
	return entries
}
