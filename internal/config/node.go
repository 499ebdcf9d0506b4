package config

import (
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Roles a node can play (process.roles).
const (
	RoleBroker     = "broker"
	RoleController = "controller"
)

// Node is the checked configuration of one process: every node setting with a value or its default.
// It is immutable.
type Node struct {
	values    map[string]string // canonical text; absent means null
	originals map[string]Entry  // what was given, the last of duplicates

	NodeID                int32
	Roles                 []string
	LogDirs               []string
	MetadataLogDir        string
	Listeners             []Listener
	AdvertisedListeners   []Listener
	ControllerListeners   []string // names
	InterBrokerListener   string   // name
	QuorumVoters          []Voter
	QuorumBootstrapServer []HostPort
	// Unknown are given keys that Kafka 4.4.0 does not know, sorted. They are ignored.
	Unknown []Entry
}

// New checks entries (later ones win) and returns the node's configuration. The error joins every problem found, each
// with the place it stands at, in the order of the lines; nothing is half accepted. Where there is one, keys that nobody
// knows are named as well: they may be what was meant.
func New(entries []Entry) (*Node, error) { return check(entries, nil) }

// check is New with problems that were found before.
func check(entries []Entry, problems []error) (*Node, error) {
	n := &Node{values: map[string]string{}, originals: map[string]Entry{}}
	for _, e := range entries {
		n.originals[e.Key] = e
	}
	for _, d := range Defs(ScopeNode) {
		e, given := n.originals[d.Name]
		switch {
		case given:
			v, err := d.Parse(e.Value)
			if err != nil {
				problems = append(problems, &problem{d.Name, e, err})
				continue
			}
			n.values[d.Name] = v
		case d.Required:
			problems = append(problems, n.problem(d.Name, "Missing required configuration %q which has no default value.", d.Name))
		case !d.Null:
			n.values[d.Name] = d.Default
		}
	}
	n.findUnknown()
	if problems = n.derive(problems); len(problems) == 0 {
		return n, nil
	}
	for _, e := range n.Unknown {
		problems = append(problems, n.problem(e.Key, "Kafka 4.4 knows no setting %q", e.Key))
	}
	slices.SortStableFunc(problems, byPlace)
	return nil, errors.Join(problems...)
}

func (n *Node) findUnknown() {
	for key, e := range n.originals {
		if Lookup(ScopeNode, key) == nil && !strings.HasPrefix(key, "listener.name.") && Lookup(ScopeBrokerQuota, key) == nil {
			n.Unknown = append(n.Unknown, e)
		}
	}
	sort.Slice(n.Unknown, func(i, j int) bool { return n.Unknown[i].Key < n.Unknown[j].Key })
}

// HasRole reports whether process.roles contains the role.
func (n *Node) HasRole(role string) bool { return slices.Contains(n.Roles, role) }

// Lookup returns the canonical text of a node setting; false if it is null.
func (n *Node) Lookup(key string) (string, bool) {
	v, ok := n.values[key]
	return v, ok
}

// Given returns what was written for a key, if anything was.
func (n *Node) Given(key string) (Entry, bool) {
	e, ok := n.originals[key]
	return e, ok
}

// Originals lists what was given, sorted by key.
func (n *Node) Originals() []Entry {
	out := make([]Entry, 0, len(n.originals))
	for _, e := range n.originals {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// String returns a setting's text, empty if null. The key must exist.
func (n *Node) String(key string) string { mustExist(key); return n.values[key] }

// Int returns a whole number; 0 if null.
func (n *Node) Int(key string) int { return int(n.Long(key)) }

// Long returns a whole number; 0 if null.
func (n *Node) Long(key string) int64 {
	mustExist(key)
	v, _ := strconv.ParseInt(n.values[key], 10, 64)
	return v
}

// Bool returns a truth value.
func (n *Node) Bool(key string) bool { mustExist(key); return n.values[key] == "true" }

// Double returns a floating-point number.
func (n *Node) Double(key string) float64 {
	mustExist(key)
	v, _ := strconv.ParseFloat(n.values[key], 64)
	return v
}

// List returns the elements of a list setting, nil if empty or null.
func (n *Node) List(key string) []string { mustExist(key); return splitList(n.values[key]) }

func mustExist(key string) {
	if Lookup(ScopeNode, key) == nil {
		panic("config: no node setting is called " + key)
	}
}
