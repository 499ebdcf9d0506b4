package main

import (
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/ottla-io/ottla/schemas"
)

// apis writes the table of APIs and the functions that choose a message by key.
func (g *gen) apis(msgs []*schemas.Message) error {
	type pair struct{ req, res *schemas.Message }
	pairs := map[int]*pair{}
	for _, m := range msgs {
		if m.Kind != "request" && m.Kind != "response" {
			continue
		}
		p := pairs[m.ID]
		if p == nil {
			p = &pair{}
			pairs[m.ID] = p
		}
		if m.Kind == "request" {
			p.req = m
		} else {
			p.res = m
		}
	}
	var keys []int
	for k, p := range pairs {
		if p.req == nil || p.res == nil {
			return fmt.Errorf("API %d lacks its request or its response", k)
		}
		if p.req.Versions != p.res.Versions || p.req.Flexible != p.res.Flexible {
			return fmt.Errorf("API %d: request and response differ in versions", k)
		}
		keys = append(keys, k)
	}
	sort.Ints(keys)
	g.p("// API keys.\nconst (")
	for _, k := range keys {
		g.p("\tKey%s int16 = %d", apiName(pairs[k].req), k)
	}
	g.p(")\n")
	g.p("// APIs are all APIs in the order of their keys. Nobody writes to it.")
	g.p("var APIs = [...]API{")
	for _, k := range keys {
		m := pairs[k].req
		var on []string
		for _, l := range m.Listeners {
			on = append(on, "On"+capital(l))
		}
		flex := "NeverFlexible"
		if !m.Flexible.Empty() {
			flex = fmt.Sprint(m.Flexible.Low)
		}
		g.p("\t{Key: %d, Name: %q, Min: %d, Max: %d, FlexibleFrom: %s, On: %s%s%s%s},", k, apiName(m), m.Versions.Low, m.Versions.High, flex, strings.Join(on, "|"),
			flag(m.Unstable, "LatestUnstable"), flag(m.Forward, "Forward"), flag(m.ClusterAction, "ClusterAction"))
	}
	g.p("}\n")
	for _, kind := range []string{"Request", "Response"} {
		g.p("// New%s returns the %s of an API with its defaults; nil if there is no such API.", kind, strings.ToLower(kind))
		g.p("func New%s(key int16) %s {\n\tswitch key {", kind, kind)
		for _, k := range keys {
			g.p("\tcase %d:\n\t\treturn New%s%s()", k, apiName(pairs[k].req), kind)
		}
		g.p("\t}\n\treturn nil\n}\n")
	}
	return nil
}

func flag(b bool, name string) string {
	if b {
		return ", " + name + ": true"
	}
	return ""
}

// recordTable writes the functions that choose a metadata record by key.
func (g *gen) recordTable(msgs []*schemas.Message) {
	var ms []*schemas.Message
	for _, m := range msgs {
		if m.Kind == "record" && m.Package == "metadata" {
			ms = append(ms, m)
		}
	}
	sort.Slice(ms, func(i, j int) bool { return ms[i].ID < ms[j].ID })
	g.p("// Keys of the records.\nconst (")
	for _, m := range ms {
		g.p("\tKey%s int16 = %d", m.Name, m.ID)
	}
	g.p(")\n")
	g.p("// NewRecord returns the record of a key with its defaults; nil if there is no such record.")
	g.p("func NewRecord(key int16) Record {\n\tswitch key {")
	for _, m := range ms {
		g.p("\tcase %d:\n\t\treturn New%s()", m.ID, m.Name)
	}
	g.p("\t}\n\treturn nil\n}\n")
	g.p("// records are the names and highest versions of the records, by key; keys without a record have no name.")
	g.p("var records = [...]struct {\n\tname string\n\tmax  int16\n}{")
	for _, m := range ms {
		g.p("\t%d: {%q, %d},", m.ID, toolName(m.Name), m.Versions.High)
	}
	g.p("}")
}

// registry writes the function that makes any message by its name.
func (g *gen) registry(msgs []*schemas.Message) {
	g.p("// New returns the message of a schema with its defaults; nil if there is no such schema.")
	g.p("func New(name string) protocol.Message {\n\tswitch name {")
	for _, m := range msgs {
		g.p("\tcase %q:\n\t\treturn %s.New%s()", m.Name, m.Package, m.Name)
	}
	g.p("\t}\n\treturn nil\n}")
}

// toolName is a record's name in the output of tools: PARTITION_CHANGE_RECORD.
func toolName(name string) string {
	return strings.ToUpper(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}
