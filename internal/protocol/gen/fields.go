package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/ottla-io/ottla/schemas"
)

// methods are the primitives of wire by type.
var methods = map[string]string{
	"bool": "Bool", "int8": "Int8", "int16": "Int16", "uint16": "Uint16", "int32": "Int32", "uint32": "Uint32",
	"int64": "Int64", "float64": "Float64", "uuid": "UUID",
}

// declareFlex writes the variable flex if a field needs it.
func (g *gen) declareFlex(u unit) {
	for _, f := range u.s.Fields {
		e := f.Elem()
		if f.Tag < 0 && u.flex(f) == "flex" && (f.Array() || e == "string" || e == "bytes" || e == "records") {
			g.p("\tflex := %s", cond(u.m.Flexible, u.cur))
			return
		}
	}
}

// when wraps body in a condition on the version.
func (g *gen) when(c string, body func(), otherwise func()) {
	switch c {
	case "true":
		body()
	case "false":
		if otherwise != nil {
			otherwise()
		}
	default:
		g.p("\tif %s {", c)
		body()
		if otherwise != nil {
			g.p("\t} else {")
			otherwise()
		}
		g.p("\t}")
	}
}

func tagged(s *schemas.Struct) []*schemas.Field {
	var fs []*schemas.Field
	for _, f := range s.Fields {
		if f.Tag >= 0 {
			fs = append(fs, f)
		}
	}
	sort.Slice(fs, func(i, j int) bool { return fs[i].Tag < fs[j].Tag })
	return fs
}

func (g *gen) encode(u unit) {
	g.p("func (m *%s) encode(e *wire.Encoder, version int16) {", u.goName)
	g.declareFlex(u)
	for _, f := range u.s.Fields {
		var lost func()
		if !f.Ignorable && !f.Versions.Covers(u.cur) {
			lost = func() { g.p("\tif %s {\n\t\te.Lost(%q)\n\t}", g.differs(u.m, f), capital(f.Name)) }
		}
		c := cond(f.Versions, u.cur)
		if f.Tag >= 0 {
			if lost != nil {
				// The field itself follows with the tagged ones.
				g.when(negate(c), lost, nil)
			}
			continue
		}
		g.when(c, func() { g.encodeField(u, f) }, lost)
	}
	fx := cond(u.m.Flexible, u.cur)
	var unknown func()
	if u.keep && fx != "false" && fx != "true" {
		unknown = func() { g.p("\tif len(m.UnknownTags) != 0 {\n\t\te.Lost(\"UnknownTags\")\n\t}") }
	}
	g.when(fx, func() {
		tags := tagged(u.s)
		if len(tags) == 0 && !u.keep {
			g.p("\te.NoTags()")
			return
		}
		g.p("\tt := e.BeginTags()")
		for _, f := range tags {
			c := cond(f.Versions, u.cur.And(u.m.Flexible))
			d := g.differs(u.m, f)
			if c != "true" {
				if strings.Contains(d, "||") {
					d = "(" + d + ")"
				}
				d = c + " && " + d
			}
			g.p("\tif %s {", d)
			if u.fixed(f) {
				g.p("\te.FixedTag(&t, %d, %d)", f.Tag, wireSize(u.m, f, u.cur, false))
				g.encodeField(u, f)
			} else {
				g.p("\ts := e.BeginTag(&t, %d)", f.Tag)
				g.encodeField(u, f)
				g.p("\te.EndTag(s)")
			}
			g.p("\t}")
		}
		if u.keep {
			g.p("\te.EndTags(&t, m.UnknownTags)")
		} else {
			g.p("\te.EndTags(&t, nil)")
		}
	}, unknown)
	g.p("}\n")
}

// fixed reports whether a tagged field's size is known and fits one byte.
func (u unit) fixed(f *schemas.Field) bool { return !f.Array() && methods[f.Type] != "" }

func negate(c string) string {
	switch c {
	case "true":
		return "false"
	case "false":
		return "true"
	}
	return "!(" + c + ")"
}

// encodeField writes a field's value in the versions that have it.
func (g *gen) encodeField(u unit, f *schemas.Field) {
	x, flex, null := "m."+capital(f.Name), u.flex(f), u.null(f)
	if f.Tag >= 0 {
		flex = "true"
	}
	if f.Array() {
		if !f.Nullable {
			g.p("\te.ArrayLen(len(%s), %s)", x, flex)
		} else {
			g.p("\te.NullableArrayLen(%q, len(%s), %s == nil, %s, %s)", capital(f.Name), x, x, null, flex)
		}
		if f.Struct != nil {
			g.p("\tfor i := range %s {\n\t\t%s[i].encode(e, version)\n\t}", x, x)
			return
		}
		switch t := f.Elem(); t {
		case "string", "bytes":
			g.p("\tfor i := range %s {\n\t\te.%s(%s[i], %s)\n\t}", x, capital(t), x, flex)
		default:
			g.p("\tfor i := range %s {\n\t\te.%s(%s[i])\n\t}", x, methods[t], x)
		}
		return
	}
	switch {
	case f.Struct != nil && f.Nullable:
		mark := "Int8"
		none := "-1"
		if f.Tag >= 0 {
			mark, none = "Uvarint", "0"
		}
		g.when(null, func() {
			g.p("\tif %s == nil {\n\te.%s(%s)\n} else {\n\te.%s(1)\n\t%s.encode(e, version)\n}", x, mark, none, mark, x)
		}, func() {
			g.p("\tif %s == nil {\n\te.Null(%q)\n} else {\n\t%s.encode(e, version)\n}", x, capital(f.Name), x)
		})
	case f.Struct != nil:
		g.p("\t%s.encode(e, version)", x)
	case f.Type == "string" && !f.Nullable:
		g.p("\te.String(%s, %s)", x, flex)
	case f.Type == "string":
		g.p("\te.NullableString(%q, %s, %s, %s)", capital(f.Name), x, null, flex)
	case f.Type == "bytes" && !f.Nullable:
		g.p("\te.Bytes(%s, %s)", x, flex)
	case f.Type == "bytes":
		g.p("\te.NullableBytes(%q, %s, %s, %s)", capital(f.Name), x, null, flex)
	case f.Type == "records":
		g.p("\te.Records(%s, %s, %s)", x, null, flex)
	default:
		g.p("\te.%s(%s)", methods[f.Type], x)
	}
}

func (g *gen) decode(u unit) {
	g.p("func (m *%s) decode(d *wire.Decoder, version int16) {", u.goName)
	g.p("\tm.SetDefaults()")
	g.declareFlex(u)
	for _, f := range u.s.Fields {
		if f.Tag >= 0 {
			continue
		}
		g.when(cond(f.Versions, u.cur), func() { g.decodeField(u, f) }, nil)
	}
	g.when(cond(u.m.Flexible, u.cur), func() {
		var tags []*schemas.Field
		for _, f := range tagged(u.s) {
			if !f.Versions.And(u.cur).Empty() {
				tags = append(tags, f)
			}
		}
		if len(tags) == 0 {
			if u.keep {
				g.p("\tm.UnknownTags = d.KeepTags()")
			} else {
				g.p("\td.SkipTags()")
			}
			return
		}
		g.p("\tfor n := d.TagCount(); n > 0 && !d.Failed(); n-- {")
		g.p("\tswitch tag, size := d.TagHead(); tag {")
		g.p("\tcase -1:")
		for _, f := range tags {
			g.p("\tcase %d:", f.Tag)
			g.when(cond(f.Versions, u.cur.And(u.m.Flexible)), func() { g.decodeField(u, f) }, func() { g.p("\td.BadTag()") })
		}
		if u.keep {
			g.p("\tdefault:\n\tm.UnknownTags = d.KeepTag(m.UnknownTags, tag, size)")
		} else {
			g.p("\tdefault:\n\td.Skip(size)")
		}
		g.p("\t}\n\t}")
	}, nil)
	g.p("}\n")
}

// decodeField reads a field's value in the versions that have it.
func (g *gen) decodeField(u unit, f *schemas.Field) {
	x, flex, null := "m."+capital(f.Name), u.flex(f), u.null(f)
	if f.Tag >= 0 {
		flex = "true"
	}
	if f.Array() {
		cur := u.cur.And(f.Versions)
		size := wireSize(u.m, f, cur, true)
		if !f.Nullable {
			g.p("\tif n := d.ArrayLen(%d, %s); n > 0 {", size, flex)
		} else {
			// An array that is there is never nil, not even an empty one.
			g.p("\tif n := d.NullableArrayLen(%d, %s, %s); n < 0 {\n\t%s = nil\n} else {", size, null, flex, x)
		}
		mem, _ := g.memSize(u, f, true)
		g.p("\ta := make(%s, 0, d.Cap(n, %d))", goType(u.m, f), mem)
		if f.Struct != nil {
			g.p("\tfor i := 0; i < n && !d.Failed(); i++ {\n\ta = append(a, %s{})\n\ta[i].decode(d, version)\n}", goStruct(u.m, f.Struct))
		} else {
			g.p("\tfor i := 0; i < n && !d.Failed(); i++ {\n\ta = append(a, %s)\n}", readPrimitive(f.Elem(), flex))
		}
		g.p("\t%s = a\n}", x)
		return
	}
	switch {
	case f.Struct != nil && f.Nullable:
		mark := "d.Int8() < 0"
		if f.Tag >= 0 {
			mark = "d.Uvarint() <= 0"
		}
		there := fmt.Sprintf("\t%s = new(%s)\n\t%s.decode(d, version)", x, goStruct(u.m, f.Struct), x)
		g.when(null, func() { g.p("\tif %s {\n\t%s = nil\n} else {\n%s\n}", mark, x, there) }, func() { g.p("%s", there) })
	case f.Struct != nil:
		g.p("\t%s.decode(d, version)", x)
	case f.Type == "string" && f.Nullable:
		g.p("\t%s = d.NullableString(%s, %s)", x, null, flex)
	case (f.Type == "bytes" || f.Type == "records") && f.Nullable:
		g.p("\t%s = d.NullableBytes(%s, %s)", x, null, flex)
	default:
		g.p("\t%s = %s", x, readPrimitive(f.Type, flex))
	}
}

func readPrimitive(t, flex string) string {
	switch t {
	case "string":
		return "d.String(" + flex + ")"
	case "bytes", "records":
		return "d.Bytes(" + flex + ")"
	}
	return "d." + methods[t] + "()"
}
