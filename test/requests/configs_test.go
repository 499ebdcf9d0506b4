package requests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
)

// The operations of IncrementalAlterConfigs.
const (
	set = iota
	remove
	appendTo
	subtract
)

// The types of resources.
const (
	ofTopic  = 2
	ofBroker = 4
)

type change struct {
	key   string
	op    int8
	value *string
}

func (n *node) alter(kind int8, name string, changes ...change) *protocol.IncrementalAlterConfigsResponseAlterConfigsResourceResponse {
	n.t.Helper()
	r := protocol.NewIncrementalAlterConfigsRequest()
	res := protocol.IncrementalAlterConfigsRequestAlterConfigsResource{ResourceType: kind, ResourceName: name}
	for _, c := range changes {
		res.Configs = append(res.Configs, protocol.IncrementalAlterConfigsRequestAlterableConfig{Name: c.key, ConfigOperation: c.op, Value: c.value})
	}
	r.Resources = append(r.Resources, res)
	return &ask[*protocol.IncrementalAlterConfigsResponse](n.dial(), 1, r).Responses[0]
}

// setting describes one setting: value (or null) and where it comes from, then all places it could come from.
func (n *node) setting(kind int8, name, key string) string {
	n.t.Helper()
	r := protocol.NewDescribeConfigsRequest()
	r.IncludeSynonyms = true
	r.Resources = []protocol.DescribeConfigsRequestDescribeConfigsResource{{ResourceType: kind, ResourceName: name, ConfigurationKeys: []string{key}}}
	res := ask[*protocol.DescribeConfigsResponse](n.dial(), 4, r).Results[0]
	if res.ErrorCode != 0 {
		n.t.Fatalf("describe %s of %s: error %d", key, name, res.ErrorCode)
	}
	if len(res.Configs) == 0 {
		return "none"
	}
	c := res.Configs[0]
	out := []string{fmt.Sprintf("%s/%d", orNull(c.Value), c.ConfigSource)}
	for _, s := range c.Synonyms {
		out = append(out, fmt.Sprintf("%s=%s/%d", s.Name, orNull(s.Value), s.Source))
	}
	return strings.Join(out, " ")
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func TestAlterConfigs(t *testing.T) {
	n := start(t)
	n.create("t", 1)
	const listed = "delete/5 log.cleanup.policy=delete/5"
	is(t, "at first", n.setting(ofTopic, "t", "cleanup.policy"), listed)
	for _, c := range []struct {
		name     string
		kind     int8
		resource string
		changes  []change
		error    int16
		mentions string
	}{
		{"append to a number", ofTopic, "t", []change{{"retention.ms", appendTo, text("5")}}, 40, "retention.ms"},
		{"subtract from a number", ofTopic, "t", []change{{"retention.ms", subtract, text("5")}}, 40, "retention.ms"},
		{"a key twice", ofTopic, "t", []change{{"retention.ms", set, text("5")}, {"retention.ms", set, text("6")}}, 42, ""},
		{"out of range", ofTopic, "t", []change{{"min.insync.replicas", set, text("0")}}, 40, "min.insync.replicas"},
		{"one good, one bad", ofTopic, "t", []change{{"retention.ms", set, text("5")}, {"segment.bytes", set, text("x")}}, 40, "segment.bytes"},
		{"one bad, one good", ofTopic, "t", []change{{"segment.bytes", set, text("x")}, {"retention.ms", set, text("5")}}, 40, "segment.bytes"},
		{"delete an unknown one", ofTopic, "t", []change{{"no.such.thing", remove, nil}}, 0, ""},
		{"set an unknown one", ofTopic, "t", []change{{"no.such.thing", set, text("5")}}, 40, "no.such.thing"},
		{"null", ofTopic, "t", []change{{"retention.ms", set, nil}}, 42, ""},
		{"another broker", ofBroker, "99", []change{{"num.io.threads", set, text("5")}}, 42, ""},
		{"no broker", ofBroker, "abc", []change{{"num.io.threads", set, text("5")}}, 42, ""},
		{"what is fixed", ofBroker, "1", []change{{"log.dirs", set, text("/x")}}, 42, ""},
		{"no topic", ofTopic, "nowhere", []change{{"retention.ms", set, text("5")}}, 3, ""},
	} {
		r := n.alter(c.kind, c.resource, c.changes...)
		is(t, c.name, r.ErrorCode, c.error)
		if c.mentions != "" && (r.ErrorMessage == nil || !strings.Contains(*r.ErrorMessage, c.mentions)) {
			t.Errorf("%s: message %q does not mention %s", c.name, orNull(r.ErrorMessage), c.mentions)
		}
	}
	is(t, "nothing of that was taken", n.setting(ofTopic, "t", "retention.ms"), "604800000/5")

	// Lists.
	for _, c := range []struct {
		name string
		changes
		want string
	}{
		{"append what is there", changes{{"cleanup.policy", appendTo, text("delete")}}, "delete"},
		{"subtract what is not there", changes{{"cleanup.policy", subtract, text("compact")}}, "delete"},
		{"append another", changes{{"cleanup.policy", appendTo, text("compact")}}, "delete,compact"},
		{"append it again", changes{{"cleanup.policy", appendTo, text("compact")}}, "delete,compact"},
		{"subtract one", changes{{"cleanup.policy", subtract, text("delete")}}, "compact"},
		{"subtract the last", changes{{"cleanup.policy", subtract, text("compact")}}, ""},
	} {
		is(t, c.name+": error", n.alter(ofTopic, "t", c.changes...).ErrorCode, 0)
		n.eventually(c.name, func() bool {
			v, _, _ := strings.Cut(n.setting(ofTopic, "t", "cleanup.policy"), "/")
			return v == c.want
		})
	}
	is(t, "delete it", n.alter(ofTopic, "t", change{"cleanup.policy", remove, nil}).ErrorCode, 0)
	n.eventually("as at first", func() bool { return n.setting(ofTopic, "t", "cleanup.policy") == listed })
}

type changes []change

// Where a setting comes from, nearest first; and what nobody may read.
func TestDescribeConfigs(t *testing.T) {
	n := start(t, "log.retention.hours=24")
	n.create("t", 1)
	is(t, "broker", n.alter(ofBroker, "1", change{"log.retention.ms", set, text("3000")}).ErrorCode, 0)
	is(t, "all brokers", n.alter(ofBroker, "", change{"log.retention.ms", set, text("4000")}).ErrorCode, 0)
	is(t, "topic", n.alter(ofTopic, "t", change{"retention.ms", set, text("2000")}).ErrorCode, 0)
	want := "2000/1 retention.ms=2000/1 log.retention.ms=3000/2 log.retention.ms=4000/3 log.retention.hours=24/4 log.retention.hours=168/5"
	got := ""
	n.eventually("the topic's settings", func() bool {
		got = n.setting(ofTopic, "t", "retention.ms")
		return strings.HasPrefix(got, "2000") && strings.Contains(got, "4000")
	})
	is(t, "synonyms", got, want)
	is(t, "a password", n.alter(ofBroker, "1", change{"listener.name.plaintext.ssl.key.password", set, text("secret")}).ErrorCode, 0)
	n.eventually("a secret", func() bool {
		v := n.setting(ofBroker, "1", "listener.name.plaintext.ssl.key.password")
		return strings.HasPrefix(v, "null/2") && !strings.Contains(v, "secret")
	})
}
