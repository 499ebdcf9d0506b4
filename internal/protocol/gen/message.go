package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/schemas"
)

// unit is a struct on its way to Go: a message, or one of its structs.
type unit struct {
	m      *schemas.Message
	s      *schemas.Struct
	cur    schemas.Versions // versions in which it occurs
	goName string
	keep   bool // keeps unknown tagged fields
}

// message writes a message with all its structs.
func (g *gen) message(m *schemas.Message) error {
	g.nonDefault = map[string]bool{}
	units := g.units(m)
	for _, u := range units {
		if by, ok := g.types[g.pkg+u.goName]; ok {
			return fmt.Errorf("type %s is declared by %s already", u.goName, by)
		}
		g.types[g.pkg+u.goName] = m.Name
	}
	// Which structs must know whether they are at their defaults.
	for _, u := range units {
		for _, f := range u.s.Fields {
			if structDefault(f) && g.comparesDefault(u, f) {
				g.needDefault(m, f.Struct)
			}
		}
	}
	for i, u := range units {
		g.typeDecl(u, i == 0)
		g.defaults(u)
		if i == 0 {
			g.rootMethods(u)
		}
		g.encode(u)
		g.decode(u)
		if g.nonDefault[u.goName] {
			g.isDefault(u)
		}
	}
	return nil
}

func (g *gen) needDefault(m *schemas.Message, s *schemas.Struct) {
	g.nonDefault[goStruct(m, s)] = true
	for _, f := range s.Fields {
		if structDefault(f) {
			g.needDefault(m, f.Struct)
		}
	}
}

// structDefault reports whether the default of a field is a structure with defaults of its own.
func structDefault(f *schemas.Field) bool {
	return f.Struct != nil && !f.Array() && (!f.Nullable || f.Default != "null")
}

// comparesDefault reports whether encoding has to know whether the field is at its default.
func (g *gen) comparesDefault(u unit, f *schemas.Field) bool {
	return f.Tag >= 0 || !f.Ignorable && !f.Versions.Covers(u.cur)
}

// units lists the structs of a message, the message itself first.
func (g *gen) units(m *schemas.Message) []unit {
	keep := m.Kind != "request" && m.Kind != "response"
	var us []unit
	var walk func(s *schemas.Struct, cur schemas.Versions)
	walk = func(s *schemas.Struct, cur schemas.Versions) {
		us = append(us, unit{m, s, cur, goStruct(m, s), keep})
		for _, f := range s.Fields {
			if f.Inline {
				walk(f.Struct, cur.And(f.Versions))
			}
		}
	}
	walk(m.Root, m.Versions)
	for _, s := range m.Common {
		walk(s, m.Versions.And(s.Versions))
	}
	return us
}

// goStruct is the Go name of a struct of a message.
func goStruct(m *schemas.Message, s *schemas.Struct) string {
	if strings.HasPrefix(s.Name, m.Name) {
		return s.Name
	}
	return m.Name + s.Name
}

var goTypes = map[string]string{"string": "string", "bytes": "[]byte", "records": "[]byte", "uuid": "uuid.UUID"}

func goType(m *schemas.Message, f *schemas.Field) string {
	t := f.Elem()
	if f.Struct != nil {
		t = goStruct(m, f.Struct)
	} else if x, ok := goTypes[t]; ok {
		t = x
	}
	switch {
	case f.Array():
		return "[]" + t
	case f.Nullable && (f.Struct != nil || f.Type == "string"):
		return "*" + t
	}
	return t
}

// memSize is the size and the alignment in memory of a field or of its elements.
func (g *gen) memSize(u unit, f *schemas.Field, elem bool) (size, align int) {
	switch {
	case !elem && f.Array():
		return 24, 8
	case f.Struct != nil && f.Nullable && !elem:
		return 8, 8
	case f.Elem() == "string" && f.Nullable && !elem:
		return 8, 8
	}
	switch f.Elem() {
	case "bool", "int8":
		return 1, 1
	case "int16", "uint16":
		return 2, 2
	case "int32", "uint32":
		return 4, 4
	case "int64", "float64":
		return 8, 8
	case "uuid":
		return 16, 1
	case "string":
		return 16, 8
	case "bytes", "records":
		return 24, 8
	}
	align = 1
	add := func(s, a int) {
		size = (size+a-1)/a*a + s
		align = max(align, a)
	}
	for _, c := range f.Struct.Fields {
		add(g.memSize(u, c, false))
	}
	if u.keep && !u.m.Flexible.And(u.cur).Empty() {
		add(24, 8)
	}
	return (size + align - 1) / align * align, align
}

// wireSize is the smallest number of bytes a field can have in any of the versions.
func wireSize(m *schemas.Message, f *schemas.Field, cur schemas.Versions, elem bool) int {
	flexSome := !m.Flexible.And(cur).Empty() && (f.Flexible == nil || elem)
	if !elem && f.Array() {
		if flexSome {
			return 1
		}
		return 4
	}
	switch f.Elem() {
	case "bool", "int8":
		return 1
	case "int16", "uint16":
		return 2
	case "int32", "uint32":
		return 4
	case "int64", "float64":
		return 8
	case "uuid":
		return 16
	case "string":
		if flexSome {
			return 1
		}
		return 2
	case "bytes", "records":
		if flexSome {
			return 1
		}
		return 4
	}
	if !elem && f.Nullable {
		return 1
	}
	return structWireSize(m, f.Struct, cur)
}

func structWireSize(m *schemas.Message, s *schemas.Struct, cur schemas.Versions) int {
	least := math.MaxInt
	for v := cur.Low; v <= cur.High; v++ {
		one := schemas.Versions{Low: v, High: v}
		n := 0
		if m.Flexible.Has(v) {
			n++
		}
		for _, f := range s.Fields {
			if f.Versions.Has(v) && f.Tag < 0 {
				n += wireSize(m, f, one, false)
			}
		}
		least = min(least, n)
	}
	if least < 1 || least == math.MaxInt {
		panic(fmt.Sprintf("message %s: struct %s may take no bytes", m.Name, s.Name))
	}
	return least
}

// cond is the Go condition for version being in r, given that it is in cur; "true" and "false" where known.
func cond(r, cur schemas.Versions) string {
	a := r.And(cur)
	switch {
	case a.Empty():
		return "false"
	case a == cur:
		return "true"
	case a.Low == a.High:
		return fmt.Sprintf("version == %d", a.Low)
	case a.High == cur.High:
		return fmt.Sprintf("version >= %d", a.Low)
	case a.Low == cur.Low:
		return fmt.Sprintf("version <= %d", a.High)
	}
	return fmt.Sprintf("version >= %d && version <= %d", a.Low, a.High)
}

// flex is the expression for "in the compact form" of a field. The variable flex is declared where needed.
func (u unit) flex(f *schemas.Field) string {
	if f.Flexible != nil {
		return "false"
	}
	c := cond(u.m.Flexible, u.cur.And(f.Versions))
	if c == "true" || c == "false" {
		return c
	}
	return "flex"
}

// null is the expression for "may be null".
func (u unit) null(f *schemas.Field) string { return cond(f.Null, u.cur.And(f.Versions)) }

func docLines(g *gen, doc []string, indent string) {
	for _, l := range doc {
		g.p("%s// %s", indent, l)
	}
}

func (g *gen) typeDecl(u unit, root bool) {
	m := u.m
	if root {
		docLines(g, m.Doc, "")
		switch m.Kind {
		case "request", "response":
			g.p("//\n// API key %d, versions %s%s.", m.ID, m.Versions, flexText(m))
		case "record", "key", "value":
			g.p("//\n// Record key %d, versions %s%s.", m.ID, m.Versions, flexText(m))
		default:
			g.p("//\n// Versions %s%s.", m.Versions, flexText(m))
		}
	} else {
		g.p("// %s is a part of %s.", u.goName, m.Name)
	}
	g.p("type %s struct {", u.goName)
	for _, f := range u.s.Fields {
		docLines(g, f.Doc, "\t")
		var notes []string
		if !f.Versions.Covers(u.cur) {
			notes = append(notes, "v"+f.Versions.String())
		}
		if f.Tag >= 0 {
			notes = append(notes, fmt.Sprintf("tag %d", f.Tag))
		}
		if f.Nullable {
			n := "null"
			if !f.Null.Covers(u.cur.And(f.Versions)) {
				n += " v" + f.Null.String()
			}
			notes = append(notes, n)
		}
		if f.HasDefault && f.Default != "0" && f.Default != "false" && f.Default != "null" && f.Default != "" {
			notes = append(notes, "default "+f.Default)
		}
		if f.Ignorable && !f.Versions.Covers(u.cur) {
			notes = append(notes, "ignorable")
		}
		c := ""
		if len(notes) > 0 {
			c = " // " + strings.Join(notes, ", ")
		}
		g.p("\t%s %s%s", capital(f.Name), goType(m, f), c)
	}
	if u.keep && !m.Flexible.And(u.cur).Empty() {
		g.p("\n\t// UnknownTags are the tagged fields that this version of the schema does not know, in rising order.")
		g.p("\tUnknownTags []wire.Tag")
	}
	g.p("}\n")
}

func flexText(m *schemas.Message) string {
	f := m.Flexible.And(m.Versions)
	switch {
	case f.Empty():
		return ", never flexible"
	case f == m.Versions:
		return ", flexible"
	}
	return fmt.Sprintf(", flexible from %d on", f.Low)
}

// zero reports whether the field's default is Go's zero value.
func zeroDefault(f *schemas.Field) bool {
	switch {
	case f.Struct != nil && !f.Array():
		return f.Nullable && f.Default == "null"
	case f.Array(), f.Type == "bytes":
		return !f.Nullable || f.Default == "null"
	case f.Type == "records":
		return true
	case f.Type == "string":
		if !f.Nullable {
			return f.Default == ""
		}
		return f.Default == "null"
	case f.Type == "uuid":
		return true
	case f.Type == "bool":
		return f.Default != "true"
	}
	n, _ := strconv.ParseFloat(f.Default, 64)
	return !f.HasDefault || f.Default != "" && n == 0 && !strings.HasPrefix(f.Default, "0x")
}

// defaultExpr is the Go expression of a default that is not the zero value.
func defaultExpr(m *schemas.Message, f *schemas.Field) string {
	switch {
	case f.Array():
		return goType(m, f) + "{}"
	case f.Type == "bytes":
		return "[]byte{}"
	case f.Type == "string" && f.Nullable:
		if f.Default != "" {
			panic("default of a nullable string: " + f.Name)
		}
		return "&wire.Empty"
	case f.Type == "string":
		return strconv.Quote(f.Default)
	case f.Struct != nil:
		panic("default of a nullable struct: " + f.Name)
	}
	return f.Default
}

// hasDefaults reports whether a struct's defaults differ from its zero value.
func hasDefaults(s *schemas.Struct) bool {
	for _, f := range s.Fields {
		if f.Struct != nil && !f.Array() {
			if !f.Nullable && hasDefaults(f.Struct) || f.Nullable && f.Default != "null" {
				return true
			}
		} else if !zeroDefault(f) {
			return true
		}
	}
	return false
}

func (g *gen) defaults(u unit) {
	name := u.goName
	if u.s == u.m.Root {
		g.p("// New%s returns a message with the defaults of its schema.", name)
		g.p("func New%s() *%s {\n\tm := new(%s)\n\tm.SetDefaults()\n\treturn m\n}\n", name, name, name)
	} else {
		g.p("// New%s returns a struct with the defaults of its schema.", name)
		g.p("func New%s() (m %s) {\n\tm.SetDefaults()\n\treturn m\n}\n", name, name)
	}
	g.p("// SetDefaults sets every field to the default of its schema.")
	g.p("func (m *%s) SetDefaults() {", name)
	g.p("\t*m = %s{}", name)
	for _, f := range u.s.Fields {
		if f.Struct != nil && !f.Array() {
			switch {
			case !f.Nullable && hasDefaults(f.Struct):
				g.p("\tm.%s.SetDefaults()", capital(f.Name))
			case f.Nullable && f.Default != "null":
				g.p("\tm.%s = new(%s)\n\tm.%s.SetDefaults()", capital(f.Name), goStruct(u.m, f.Struct), capital(f.Name))
			}
		} else if !zeroDefault(f) {
			g.p("\tm.%s = %s", capital(f.Name), defaultExpr(u.m, f))
		}
	}
	g.p("}\n")
}

// differs is the Go condition for a field not being at its default.
func (g *gen) differs(m *schemas.Message, f *schemas.Field) string {
	x := "m." + capital(f.Name)
	switch {
	case f.Struct != nil && !f.Array():
		if f.Nullable {
			if f.Default != "null" {
				return fmt.Sprintf("%s == nil || !%s.isDefault()", x, x)
			}
			return x + " != nil"
		}
		return "!" + x + ".isDefault()"
	case f.Array(), f.Type == "bytes":
		if !f.Nullable {
			return "len(" + x + ") != 0"
		}
		if f.Default == "null" {
			return x + " != nil"
		}
		return x + " == nil || len(" + x + ") != 0"
	case f.Type == "records":
		return x + " != nil"
	case f.Type == "string" && f.Nullable:
		if f.Default == "null" {
			return x + " != nil"
		}
		return x + ` == nil || *` + x + ` != ""`
	case f.Type == "string":
		return x + " != " + strconv.Quote(f.Default)
	case f.Type == "uuid":
		return x + " != uuid.Zero"
	case f.Type == "bool":
		if f.Default == "true" {
			return "!" + x
		}
		return x
	case f.HasDefault:
		return x + " != " + f.Default
	}
	return x + " != 0"
}

func (g *gen) isDefault(u unit) {
	g.p("func (m *%s) isDefault() bool {", u.goName)
	var cs []string
	for _, f := range u.s.Fields {
		c := g.differs(u.m, f)
		if strings.Contains(c, "||") {
			c = "(" + c + ")"
		}
		cs = append(cs, c)
	}
	if u.keep && !u.m.Flexible.And(u.cur).Empty() {
		cs = append(cs, "len(m.UnknownTags) != 0")
	}
	g.p("\treturn !(%s)", strings.Join(cs, " || "))
	g.p("}\n")
}

func (g *gen) rootMethods(u unit) {
	m, name := u.m, u.goName
	switch m.Kind {
	case "request", "response":
		g.p("// APIKey returns Key%s.", apiName(m))
		g.p("func (*%s) APIKey() int16 { return %d }\n", name, m.ID)
	case "record", "key", "value":
		g.p("// RecordKey returns %d.", m.ID)
		g.p("func (*%s) RecordKey() int16 { return %d }\n", name, m.ID)
	}
	if m.Kind == "response" {
		for _, f := range m.Root.Fields {
			if f.Name == "ThrottleTimeMs" {
				g.p("// SetThrottle sets ThrottleTimeMs.")
				g.p("func (m *%s) SetThrottle(ms int32) { m.ThrottleTimeMs = ms }\n", name)
			}
		}
	}
	bad := fmt.Sprintf("version < %d || version > %d", m.Versions.Low, m.Versions.High)
	g.p("// Encode appends the message to b.")
	g.p("func (m *%s) Encode(b []byte, version int16) ([]byte, error) {", name)
	g.p("\te := wire.NewEncoder(b)")
	g.p("\tif %s {\n\t\te.BadVersion()\n\t} else {\n\t\tm.encode(&e, version)\n\t}", bad)
	g.p("\treturn e.Result(%q, version)\n}\n", name)
	if m.Kind == "response" && hasRecords(m.Root) {
		g.p("// EncodeSplit appends the message to b without those records that stay elsewhere, in a file for example, and")
		g.p("// returns the places where they belong. external is asked once for each records field, in the order of")
		g.p("// encoding: it returns their length in bytes, or -1 to have the field's own bytes encoded. The places are")
		g.p("// appended to splits, which may be nil.")
		g.p("func (m *%s) EncodeSplit(b []byte, splits []wire.Split, version int16, external func(i int) int) ([]byte, []wire.Split, error) {", name)
		g.p("\te := wire.NewSplitEncoder(b, splits, external)")
		g.p("\tif %s {\n\t\te.BadVersion()\n\t} else {\n\t\tm.encode(&e, version)\n\t}", bad)
		g.p("\tb, err := e.Result(%q, version)\n\treturn b, e.Splits(), err\n}\n", name)
	}
	g.p("// Decode reads the message; what d has left afterwards is the caller's. Fields of bytes alias d's input.")
	g.p("func (m *%s) Decode(d *wire.Decoder, version int16) error {", name)
	g.p("\tif %s {\n\t\treturn wire.DecodeError(%q, version, wire.ErrUnsupportedVersion)\n\t}", bad, name)
	g.p("\tm.decode(d, version)")
	g.p("\tif d.Failed() {\n\t\treturn wire.DecodeError(%q, version, d.Err())\n\t}\n\treturn nil\n}\n", name)
}

func hasRecords(s *schemas.Struct) bool {
	for _, f := range s.Fields {
		if f.Type == "records" || f.Struct != nil && hasRecords(f.Struct) {
			return true
		}
	}
	return false
}

func apiName(m *schemas.Message) string {
	return strings.TrimSuffix(strings.TrimSuffix(m.Name, "Request"), "Response")
}
