package config

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// Synonym is a node setting from which a topic setting takes its value when the topic has none of its own.
type Synonym struct {
	NodeKey    string
	Multiplier int64 // from the node key's unit to the topic key's
}

//go:embed synonyms.tsv
var synonymsText string

var loadSynonyms = sync.OnceValue(func() map[string][]Synonym {
	m := map[string][]Synonym{}
	for line := range strings.Lines(synonymsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(strings.TrimRight(line, "\n"), "\t")
		factor, _ := strconv.ParseInt(c[2], 10, 64)
		m[c[0]] = append(m[c[0]], Synonym{c[1], factor})
	}
	return m
})

// TopicSynonyms lists the node settings behind a topic setting, strongest first.
func TopicSynonyms(topicKey string) []Synonym { return loadSynonyms()[topicKey] }

// Layers are the dynamic settings of one node: its own, those of the whole cluster, and the file's.
// Strongest first: broker, cluster, file, default (KIP-226).
type Layers struct {
	Node    *Node
	Broker  map[string]string
	Cluster map[string]string
}

// Lookup returns a node setting's text over all layers and whether it is not null.
func (l Layers) Lookup(key string) (string, bool) {
	if v, ok := l.Broker[key]; ok {
		return v, true
	}
	if v, ok := l.Cluster[key]; ok {
		return v, true
	}
	return l.Node.Lookup(key)
}

// Given reports whether any layer but the default sets the key.
func (l Layers) given(key string) bool {
	_, broker := l.Broker[key]
	_, cluster := l.Cluster[key]
	_, file := l.Node.originals[key]
	return broker || cluster || file
}

// Topic is the effective configuration of one topic: its own settings over the node's.
type Topic struct {
	Layers Layers
	Own    map[string]string
}

// Lookup returns the effective text of a topic setting and whether it is not null.
func (t Topic) Lookup(key string) (string, bool) {
	if v, ok := t.Own[key]; ok {
		return v, true
	}
	synonyms := TopicSynonyms(key)
	for _, s := range synonyms { // a stronger key that is given wins over a weaker one's default
		if t.Layers.given(s.NodeKey) {
			if v, ok := t.Layers.Lookup(s.NodeKey); ok {
				return multiply(v, s.Multiplier), true
			}
		}
	}
	for _, s := range synonyms {
		if v, ok := t.Layers.Node.Lookup(s.NodeKey); ok {
			return multiply(v, s.Multiplier), true
		}
	}
	d := Lookup(ScopeTopic, key)
	if d == nil {
		panic("config: no topic setting is called " + key)
	}
	return d.Default, !d.Null
}

func multiply(v string, factor int64) string {
	if factor == 1 {
		return v
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return v
	}
	if n < 0 { // -1 hours is no limit, not minus an hour
		return "-1"
	}
	return strconv.FormatInt(n*factor, 10)
}

// String returns the text of a topic setting.
func (t Topic) String(key string) string { v, _ := t.Lookup(key); return v }

// Long returns a whole number.
func (t Topic) Long(key string) int64 {
	v, _ := t.Lookup(key)
	n, _ := strconv.ParseInt(v, 10, 64)
	return n
}

// Int returns a whole number.
func (t Topic) Int(key string) int { return int(t.Long(key)) }

// Bool returns a truth value.
func (t Topic) Bool(key string) bool { return t.String(key) == "true" }

// Double returns a floating-point number.
func (t Topic) Double(key string) float64 {
	v, _ := t.Lookup(key)
	f, _ := strconv.ParseFloat(v, 64)
	return f
}

// List returns the elements of a list setting.
func (t Topic) List(key string) []string { return splitList(t.String(key)) }
