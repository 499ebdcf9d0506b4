package config

import (
	"errors"
	"fmt"
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
// with the place it stands at; nothing is half accepted.
func New(entries []Entry) (*Node, error) {
	n := &Node{values: map[string]string{}, originals: map[string]Entry{}}
	for _, e := range entries {
		n.originals[e.Key] = e
	}
	var problems []error
	for _, d := range Defs(ScopeNode) {
		e, given := n.originals[d.Name]
		switch {
		case given:
			v, err := d.Parse(e.Value)
			if err != nil {
				problems = append(problems, at(e, err))
				continue
			}
			n.values[d.Name] = v
		case d.Required:
			problems = append(problems, fmt.Errorf("Missing required configuration %q which has no default value.", d.Name)) //nolint:staticcheck // Kafka's words
		case !d.Null:
			n.values[d.Name] = d.Default
		}
	}
	n.findUnknown()
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if problems = n.derive(); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return n, nil
}

func at(e Entry, err error) error {
	if e.File == "" {
		return err
	}
	return fmt.Errorf("%s: %w", e.Where(), err)
}

// problem names a key's place, if it was given.
func (n *Node) problem(key, format string, args ...any) error {
	return at(n.originals[key], fmt.Errorf(format, args...))
}

func (n *Node) findUnknown() {
	for key, e := range n.originals {
		if Lookup(ScopeNode, key) == nil && !strings.HasPrefix(key, "listener.name.") && Lookup(ScopeBrokerQuota, key) == nil {
			n.Unknown = append(n.Unknown, e)
		}
	}
	sort.Slice(n.Unknown, func(i, j int) bool { return n.Unknown[i].Key < n.Unknown[j].Key })
}

func (n *Node) derive() []error {
	var problems []error
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	n.NodeID = int32(n.Int("node.id"))
	n.Roles = n.List("process.roles")
	if id := n.Int("broker.id"); id >= 0 && id != int(n.NodeID) {
		add(n.problem("broker.id", "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` instead."))
	}
	for _, key := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if v, ok := n.Lookup(key); ok && v == "0" {
			add(n.problem(key, "%s must be unlimited (-1) or, greater than or equal to 1", key))
		}
	}
	n.LogDirs = n.List("log.dirs")
	if len(n.LogDirs) == 0 {
		n.LogDirs = n.List("log.dir")
	}
	if n.MetadataLogDir = n.String("metadata.log.dir"); n.MetadataLogDir == "" {
		n.MetadataLogDir = n.LogDirs[0]
	}
	n.ControllerListeners = n.List("controller.listener.names")
	for _, err := range n.deriveListeners() {
		add(err)
	}
	voters, err := ParseVoters(n.List("controller.quorum.voters"))
	if err != nil {
		add(n.problem("controller.quorum.voters", "%w", err))
	}
	n.QuorumVoters = voters
	for _, s := range n.List("controller.quorum.bootstrap.servers") {
		hp, err := ParseHostPort(s)
		if err != nil {
			add(n.problem("controller.quorum.bootstrap.servers", "Failed to parse host name from %s for the configuration controller.quorum.bootstrap.servers. Each entry should be in the form \"{host}:{port}\"", s))
		}
		n.QuorumBootstrapServer = append(n.QuorumBootstrapServer, hp)
	}
	if len(voters) == 0 && len(n.QuorumBootstrapServer) == 0 && err == nil {
		add(errors.New("If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers.")) //nolint:staticcheck // Kafka's words
	}
	isVoter := slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == n.NodeID })
	switch {
	case len(voters) > 0 && n.HasRole(RoleController) && !isVoter:
		add(n.problem("node.id", "If process.roles contains the 'controller' role, the node id %d must be included in the set of voters controller.quorum.voters=%s", n.NodeID, n.String("controller.quorum.voters")))
	case len(voters) > 0 && !n.HasRole(RoleController) && isVoter:
		add(n.problem("node.id", "If process.roles contains just the 'broker' role, the node id %d must not be included in the set of voters controller.quorum.voters=%s", n.NodeID, n.String("controller.quorum.voters")))
	}
	return problems
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
