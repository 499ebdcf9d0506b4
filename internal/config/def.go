package config

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Scope says what kind of resource a setting belongs to.
type Scope string

// The scopes of settings.tsv.
const (
	ScopeNode          Scope = "node"
	ScopeTopic         Scope = "topic"
	ScopeGroup         Scope = "group"
	ScopeClientMetrics Scope = "client-metrics"
	ScopeBrokerQuota   Scope = "broker-quota"
)

// Type is the type of a setting's value, in Kafka's words.
type Type string

// The types Kafka declares settings with.
const (
	TypeBoolean  Type = "BOOLEAN"
	TypeClass    Type = "CLASS"
	TypeDouble   Type = "DOUBLE"
	TypeInt      Type = "INT"
	TypeList     Type = "LIST"
	TypeLong     Type = "LONG"
	TypePassword Type = "PASSWORD"
	TypeShort    Type = "SHORT"
	TypeString   Type = "STRING"
)

// Dynamic says how a node setting may change while the node runs (KIP-226).
type Dynamic string

// The ways a setting may change. Settings of other scopes than node are always dynamic.
const (
	ReadOnly    Dynamic = "read-only"
	PerBroker   Dynamic = "per-broker"
	ClusterWide Dynamic = "cluster-wide"
)

// Def declares one setting.
type Def struct {
	Scope      Scope
	Name       string
	Type       Type
	Default    string // canonical text; meaningless if Null or Required
	Null       bool   // the default is null
	Required   bool   // there is no default
	Valid      string // the rule in words, as Kafka's reference page prints it
	Importance string // HIGH, MEDIUM or LOW
	Internal   bool   // left out of DescribeConfigs
	Dynamic    Dynamic
}

// Sensitive reports whether the value must never leave the node in clear.
func (d *Def) Sensitive() bool { return d.Type == TypePassword }

// ValueError says which setting has a value it cannot have, in Kafka's words.
type ValueError struct {
	Name, Value, Problem string
}

func (e *ValueError) Error() string {
	if e.Problem == "" {
		return fmt.Sprintf("Invalid value %s for configuration %s", e.Value, e.Name)
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Name, e.Problem)
}

//go:embed settings.tsv
var settingsText string

//go:embed own.tsv
var ownText string

type table struct {
	byScope map[Scope][]*Def
	byName  map[Scope]map[string]*Def
}

var loadTable = sync.OnceValue(func() table {
	t := table{map[Scope][]*Def{}, map[Scope]map[string]*Def{}}
	for line := range strings.Lines(settingsText + ownText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(strings.TrimRight(line, "\n"), "\t")
		for len(c) < 8 {
			c = append(c, "")
		}
		d := &Def{Scope: Scope(c[0]), Name: c[1], Type: Type(c[2]), Default: c[3], Valid: c[4], Importance: c[5], Internal: c[6] != "", Dynamic: Dynamic(c[7])}
		d.Null, d.Required = c[3] == "null", c[3] == "(required)"
		if d.Type == TypeList {
			d.Default = strings.Join(splitList(strings.Trim(c[3], "[]")), ",")
		}
		d.Default = strings.TrimPrefix(d.Default, "class ")
		t.byScope[d.Scope] = append(t.byScope[d.Scope], d)
		if t.byName[d.Scope] == nil {
			t.byName[d.Scope] = map[string]*Def{}
		}
		t.byName[d.Scope][d.Name] = d
	}
	for _, defs := range t.byScope {
		slices.SortStableFunc(defs, func(a, b *Def) int { return strings.Compare(a.Name, b.Name) })
	}
	return t
})

// Defs lists the settings of a scope, sorted by name. The slice is shared: do not change it.
func Defs(s Scope) []*Def { return loadTable().byScope[s] }

// Lookup finds a setting, or nil.
func Lookup(s Scope, name string) *Def { return loadTable().byName[s][name] }

// Parse checks a value against the type and the rule of the setting and returns it in canonical form:
// numbers without blanks, booleans in lower case, lists joined by single commas. Errors are *ValueError.
func (d *Def) Parse(value string) (string, error) {
	v := strings.TrimSpace(value)
	bad := func(problem string) (string, error) { return "", &ValueError{d.Name, value, problem} }
	switch d.Type {
	case TypeBoolean:
		switch {
		case strings.EqualFold(v, "true"):
			return "true", nil
		case strings.EqualFold(v, "false"):
			return "false", nil
		}
		return bad("Expected value to be either true or false")
	case TypeShort, TypeInt, TypeLong:
		bits := map[Type]int{TypeShort: 16, TypeInt: 32, TypeLong: 64}[d.Type]
		n, err := strconv.ParseInt(v, 10, bits)
		if err != nil {
			return bad("Not a number of type " + string(d.Type))
		}
		if problem := checkNumber(d.Valid, float64(n), func(limit string) int {
			l, err := strconv.ParseInt(limit, 10, 64)
			switch {
			case err != nil:
				return 0
			case n < l:
				return -1
			case n > l:
				return 1
			}
			return 0
		}); problem != "" {
			return "", &ValueError{d.Name, strconv.FormatInt(n, 10), problem}
		}
		return strconv.FormatInt(n, 10), nil
	case TypeDouble:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) {
			return bad("Not a number of type DOUBLE")
		}
		if problem := checkNumber(d.Valid, f, func(limit string) int {
			l, err := strconv.ParseFloat(limit, 64)
			switch {
			case err != nil:
				return 0
			case f < l:
				return -1
			case f > l:
				return 1
			}
			return 0
		}); problem != "" {
			return "", &ValueError{d.Name, javaDouble(f), problem}
		}
		return v, nil
	case TypeList:
		items := unique(splitList(v))
		if options := mustNotBeEmpty(d); options != "" && len(items) == 0 {
			return "", fmt.Errorf("Configuration '%s' must not be empty. Valid values include: %s", d.Name, options) //nolint:staticcheck // Kafka's words
		}
		if problem := checkList(d, items); problem != "" {
			if strings.HasPrefix(problem, "String must be") {
				return "", &ValueError{d.Name, firstBad(d, items), problem}
			}
			return "", &ValueError{d.Name, "[" + strings.Join(items, ", ") + "]", problem}
		}
		return strings.Join(items, ","), nil
	case TypePassword:
		return value, nil
	}
	if problem := checkString(d.Valid, v); problem != "" {
		return bad(problem)
	}
	return v, nil
}

// javaDouble prints whole numbers with a fraction, as Java does.
func javaDouble(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// firstBad is the element that a list's rule does not know.
func firstBad(d *Def, items []string) string {
	options := splitList(strings.Trim(d.Valid, "[]"))
	return items[slices.IndexFunc(items, func(item string) bool { return !slices.Contains(options, item) })]
}

func unique(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

func splitList(v string) []string {
	v = strings.TrimSpace(v)
	if v == "" {
		return nil
	}
	items := strings.Split(v, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
