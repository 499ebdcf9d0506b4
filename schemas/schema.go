package schemas

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"math"
	"sort"
	"strconv"
	"strings"
)

//go:embed *.txt
var files embed.FS

// Versions is a closed range of versions. Empty when Low > High.
type Versions struct{ Low, High int16 }

// None holds no version.
var None = Versions{0, -1}

// Has reports whether v is in the range.
func (r Versions) Has(v int16) bool { return r.Low <= v && v <= r.High }

// Empty reports whether no version is in the range.
func (r Versions) Empty() bool { return r.Low > r.High }

// Covers reports whether every version of o is in r.
func (r Versions) Covers(o Versions) bool { return o.Empty() || r.Low <= o.Low && o.High <= r.High }

// And is the range that both share.
func (r Versions) And(o Versions) Versions {
	a := Versions{max(r.Low, o.Low), min(r.High, o.High)}
	if a.Empty() {
		return None
	}
	return a
}

// String is the notation of the schema files: 3, 3-9, 3+ or none.
func (r Versions) String() string {
	switch {
	case r.Empty():
		return "none"
	case r.High == math.MaxInt16:
		return fmt.Sprintf("%d+", r.Low)
	case r.Low == r.High:
		return strconv.Itoa(int(r.Low))
	}
	return fmt.Sprintf("%d-%d", r.Low, r.High)
}

// ParseVersions reads 3, 3-9, 3+ or none.
func ParseVersions(s string) (Versions, error) {
	if s == "none" {
		return None, nil
	}
	low, high := s, s
	open := strings.HasSuffix(s, "+")
	if open {
		low = s[:len(s)-1]
	} else if a, b, ok := strings.Cut(s, "-"); ok {
		low, high = a, b
	}
	l, err := strconv.ParseInt(low, 10, 16)
	if err != nil {
		return None, fmt.Errorf("versions %q: %w", s, err)
	}
	if open {
		return Versions{int16(l), math.MaxInt16}, nil
	}
	h, err := strconv.ParseInt(high, 10, 16)
	if err != nil {
		return None, fmt.Errorf("versions %q: %w", s, err)
	}
	return Versions{int16(l), int16(h)}, nil
}

// Message is one schema.
type Message struct {
	Kind          string // header, request, response, record, key, value, data
	Name          string
	ID            int // API key or record key; -1 without one
	Versions      Versions
	Flexible      Versions
	Listeners     []string
	Unstable      bool // the highest version is not released
	Forward       bool // a broker forwards the request to the controller
	ClusterAction bool // asks for the operation ClusterAction
	Doc           []string
	Root          *Struct
	Common        []*Struct // shared structs, as declared
	Package       string    // Go package of the generated code
	File          string    // without .txt
}

// Struct is a group of fields.
type Struct struct {
	Name     string
	Versions Versions
	Common   bool
	Fields   []*Field
}

// Field is one line of a schema.
type Field struct {
	Name       string
	Type       string // as written, with [] for arrays
	Versions   Versions
	Null       Versions
	Tag        int // -1 without one
	Tagged     Versions
	Default    string
	HasDefault bool
	Flexible   *Versions // overrides the message's
	Entity     string
	Ignorable  bool
	MapKey     bool
	ZeroCopy   bool
	Doc        []string
	Struct     *Struct // of the type, or of the elements
	Inline     bool    // the struct is declared by this field
	Nullable   bool    // may be null in a version that the message has
}

// Array reports whether the field is an array.
func (f *Field) Array() bool { return strings.HasPrefix(f.Type, "[]") }

// Elem is the type without [].
func (f *Field) Elem() string { return strings.TrimPrefix(f.Type, "[]") }

var primitives = map[string]bool{
	"bool": true, "int8": true, "int16": true, "uint16": true, "int32": true, "uint32": true, "int64": true,
	"float64": true, "string": true, "bytes": true, "records": true, "uuid": true,
}

// Load reads every schema of this folder, in the order of file names.
func Load() ([]*Message, error) { return LoadFS(files) }

// LoadFS reads every *.txt of a folder.
func LoadFS(fsys fs.FS) ([]*Message, error) {
	names, err := fs.Glob(fsys, "*.txt")
	if err != nil {
		return nil, fmt.Errorf("list schemas: %w", err)
	}
	sort.Strings(names)
	var all []*Message
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		ms, err := Parse(strings.TrimSuffix(name, ".txt"), string(b))
		if err != nil {
			return nil, err
		}
		all = append(all, ms...)
	}
	return all, nil
}

// Parse reads the text of one schema file.
func Parse(file, text string) ([]*Message, error) {
	p := &parser{file: file}
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		p.line++
		if err := p.parseLine(sc.Text()); err != nil {
			return nil, fmt.Errorf("%s.txt:%d: %w", file, p.line, err)
		}
	}
	for _, m := range p.msgs {
		if err := m.resolve(); err != nil {
			return nil, fmt.Errorf("%s.txt: message %s: %w", file, m.Name, err)
		}
	}
	return p.msgs, nil
}

type parser struct {
	file string
	line int
	pkg  string
	doc  []string
	msgs []*Message
	// open holds the structs that the next line may belong to, by indent.
	open []*Struct
	last *Field
}

func (p *parser) parseLine(line string) error {
	text := strings.TrimSpace(line)
	if text == "" {
		p.doc = nil
		return nil
	}
	if c, ok := strings.CutPrefix(text, "//"); ok {
		p.doc = append(p.doc, strings.TrimSpace(c))
		return nil
	}
	doc := p.doc
	p.doc = nil
	words := strings.Fields(text)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if indent%2 != 0 {
		return fmt.Errorf("odd indent")
	}
	level := indent / 2
	switch {
	case level == 0 && words[0] == "package" && len(words) == 2:
		p.pkg = words[1]
		return nil
	case level == 0:
		return p.message(words, doc)
	case len(p.msgs) == 0:
		return fmt.Errorf("field before any message")
	case level == 1 && words[0] == "struct" && len(words) == 3:
		v, err := ParseVersions(words[2])
		if err != nil {
			return err
		}
		m := p.msgs[len(p.msgs)-1]
		s := &Struct{Name: words[1], Versions: v, Common: true}
		m.Common = append(m.Common, s)
		p.open = []*Struct{m.Root, s}
		p.last = nil
		return nil
	}
	f, err := parseField(words)
	if err != nil {
		return err
	}
	f.Doc = doc
	switch {
	case level > len(p.open):
		if level != len(p.open)+1 || p.last == nil || primitives[p.last.Elem()] {
			return fmt.Errorf("field %s: indent too deep", f.Name)
		}
		s := &Struct{Name: p.last.Elem(), Versions: p.last.Versions}
		p.last.Struct, p.last.Inline = s, true
		p.open = append(p.open, s)
	default:
		p.open = p.open[:level]
	}
	s := p.open[level-1]
	s.Fields = append(s.Fields, f)
	p.last = f
	return nil
}

func (p *parser) message(words []string, doc []string) error {
	if len(words) < 2 {
		return fmt.Errorf("message without a name")
	}
	m := &Message{Kind: words[0], Name: words[1], ID: -1, Doc: doc, Package: p.pkg, File: p.file, Versions: None, Flexible: None}
	switch m.Kind {
	case "header", "request", "response", "record", "key", "value", "data":
	default:
		return fmt.Errorf("unknown kind %q", m.Kind)
	}
	for _, w := range words[2:] {
		k, v, _ := strings.Cut(w, "=")
		var err error
		switch k {
		case "id":
			m.ID, err = strconv.Atoi(v)
		case "versions":
			m.Versions, err = ParseVersions(v)
		case "flexible":
			m.Flexible, err = ParseVersions(v)
		case "listeners":
			m.Listeners = strings.Split(v, ",")
		case "forward":
			m.Forward = v == "true"
		case "clusteraction":
			m.ClusterAction = v == "true"
		case "unstable":
			m.Unstable = v == "latest"
		default:
			err = fmt.Errorf("unknown attribute %q", w)
		}
		if err != nil {
			return err
		}
	}
	m.Root = &Struct{Name: m.Name, Versions: m.Versions}
	p.msgs = append(p.msgs, m)
	p.open = []*Struct{m.Root}
	p.last = nil
	return nil
}

func parseField(words []string) (*Field, error) {
	if len(words) < 3 {
		return nil, fmt.Errorf("a field needs a name, a type and versions")
	}
	f := &Field{Name: words[0], Type: words[1], Tag: -1, Null: None, Tagged: None}
	var err error
	if f.Versions, err = ParseVersions(words[2]); err != nil {
		return nil, err
	}
	for _, w := range words[3:] {
		k, v, _ := strings.Cut(w, "=")
		var err error
		switch k {
		case "null":
			f.Null, err = ParseVersions(v)
		case "default":
			f.HasDefault = true
			f.Default = v
			if strings.HasPrefix(v, `"`) {
				f.Default, err = strconv.Unquote(v)
			}
		case "tag":
			n, r, _ := strings.Cut(v, "@")
			if f.Tag, err = strconv.Atoi(n); err == nil {
				f.Tagged, err = ParseVersions(r)
			}
		case "flexible":
			var r Versions
			r, err = ParseVersions(v)
			f.Flexible = &r
		case "entity":
			f.Entity = v
		case "ignorable":
			f.Ignorable = true
		case "mapkey":
			f.MapKey = true
		case "zerocopy":
			f.ZeroCopy = true
		default:
			err = fmt.Errorf("unknown attribute %q", w)
		}
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return f, nil
}

// resolve connects the fields of struct types with their structs.
func (m *Message) resolve() error {
	byName := map[string]*Struct{}
	for _, s := range m.Common {
		byName[s.Name] = s
	}
	var walk func(s *Struct) error
	walk = func(s *Struct) error {
		for _, f := range s.Fields {
			f.Nullable = !f.Null.And(f.Versions).And(m.Versions).Empty()
			if primitives[f.Elem()] {
				continue
			}
			if f.Struct == nil {
				if f.Struct = byName[f.Elem()]; f.Struct == nil {
					return fmt.Errorf("field %s: no struct %s", f.Name, f.Elem())
				}
				continue
			}
			if err := walk(f.Struct); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range append([]*Struct{m.Root}, m.Common...) {
		if err := walk(s); err != nil {
			return err
		}
	}
	return nil
}

// Primitive reports whether a type is none of the structs.
func Primitive(t string) bool { return primitives[t] }
