package config

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// used.txt are the node settings that the code looks at, one per line; a test keeps it so.
//
//go:embed used.txt
var usedText string

var loadUsed = sync.OnceValue(func() []string { return strings.Fields(usedText) })

// Unused are the settings that were given, that Kafka 4.4.0 knows and Ottla does not use, sorted.
func (n *Node) Unused() []string {
	var out []string
	for _, e := range n.Originals() {
		if Lookup(ScopeNode, e.Key) == nil {
			continue
		}
		if _, found := slices.BinarySearch(loadUsed(), e.Key); !found {
			out = append(out, e.Key)
		}
	}
	return out
}
