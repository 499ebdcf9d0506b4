package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// base is a node that starts; cases change single keys.
func base() map[string]string {
	return map[string]string{
		"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER",
		"listeners":                           "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
		"controller.quorum.bootstrap.servers": "localhost:9093",
	}
}

func build(settings map[string]string) (*Node, error) {
	var entries []Entry
	for k, v := range settings {
		entries = append(entries, Entry{Key: k, Value: v})
	}
	return New(entries)
}

// TestProblems holds what Apache Kafka 4.4.0 says to the same settings, found by running it; "" means accepted.
// Where Kafka wraps the sentence, the part that names the fault is asked for.
func TestProblems(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "problems.txt"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		input, want, _ := strings.Cut(line, " => ")
		key, value, _ := strings.Cut(input, "=")
		settings := base()
		if value == "(absent)" {
			delete(settings, key)
		} else {
			settings[key] = value
		}
		_, err := build(settings)
		switch {
		case want == "OK" && err != nil:
			t.Errorf("%s: got %q, Kafka accepts it", input, err)
		case want != "OK" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, Kafka says %q", input, err, want)
		}
		n++
	}
	if n < 35 {
		t.Fatalf("only %d cases were read", n)
	}
}

func TestTopicProblems(t *testing.T) {
	for input, want := range map[string]string{
		"retention.ms=-2":                         "Invalid value -2 for configuration retention.ms: Value must be at least -1",
		"cleanup.policy=foo":                      "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
		"cleanup.policy=":                         "",
		"cleanup.policy=compact,compact":          "",
		"segment.bytes=1000":                      "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576",
		"min.cleanable.dirty.ratio=2":             "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
		"leader.replication.throttled.replicas=x": "Invalid value [x] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
		"leader.replication.throttled.replicas=*": "",
		"compression.type=":                       "Invalid value  for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
		"compression.gzip.level=0":                "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
		"compression.gzip.level=-1":               "",
		"max.message.bytes=x":                     "Invalid value x for configuration max.message.bytes: Not a number of type INT",
		"retention.ms=9223372036854775808":        "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG",
		"flush.ms= 5 ":                            "",
	} {
		key, value, _ := strings.Cut(input, "=")
		_, err := Lookup(ScopeTopic, key).Parse(value)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, Kafka says %q", input, got, want)
		}
	}
}

// TestFileAsJava: Windows line ends, blanks after numbers, continuation, duplicates, removed keys.
func TestFileAsJava(t *testing.T) {
	file := "# comment\r\nprocess.roles=broker,\\\r\n   controller\r\nnode.id=1   \r\nnum.partitions=2\r\nnum.partitions : 3  \r\n" +
		"controller.listener.names CONTROLLER\r\nlisteners=PLAINTEXT://[::1]:9092,CONTROLLER://[::1]:9093\r\n" +
		"controller.quorum.bootstrap.servers=[::1]:9093\r\nzookeeper.connect=localhost:2181\r\nlog.dirs=/tmp/a\\u0020b\r\n"
	entries, problems := ParseProperties("server.properties", []byte(file))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	n, err := New(entries)
	if err != nil {
		t.Fatal(err)
	}
	if n.NodeID != 1 || n.Int("num.partitions") != 3 || !cmp.Equal(n.Roles, []string{"broker", "controller"}) || n.LogDirs[0] != "/tmp/a b" {
		t.Errorf("id %d, partitions %d, roles %q, dirs %q", n.NodeID, n.Int("num.partitions"), n.Roles, n.LogDirs)
	}
	if len(n.Unknown) != 1 || n.Unknown[0].Key != "zookeeper.connect" || n.Unknown[0].Line != 10 {
		t.Errorf("unknown keys: %v", n.Unknown)
	}
	if l := n.Listeners[0]; l.Host != "::1" || l.Addr() != "[::1]:9092" {
		t.Errorf("listener %+v", l)
	}
}

// TestPropertiesAsJava: what java.util.Properties (of Java 17) makes of a text: keys and values, by key.
func TestPropertiesAsJava(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"a.\\\n  b=c", []string{"a.b", "c"}},
		{"a\\\n=c", []string{"a", "c"}},
		{"a=b\\\n\n c=d", []string{"a", "b", "c", "d"}},
		{"a=b\\", []string{"a", "b"}},
		{"a=b \\\n   c", []string{"a", "b c"}},
		{"a=b\\\n#c", []string{"a", "b#c"}},
		{"a=b\\\\\nc=d", []string{"a", "b\\", "c", "d"}},
		{"\\\na=b", []string{"a", "b"}},
		{"\\\n\na=b", []string{"a", "b"}},
		{"a=1\\\r\n  2\\\r3", []string{"a", "123"}},
		{"a\\ b=c", []string{"a b", "c"}},
		{"#c\\\na=b", []string{"a", "b"}},
		{"\\", []string{"", ""}},
		{"  \\\n  \\\n\n", []string{}},
		{"a\\", []string{"a", ""}},
		{"a=b\\\n=c", []string{"a", "b=c"}},
		{"a = \\\n b", []string{"a", "b"}},
		{"a\tb", []string{"a", "b"}},
		{"a\fb=c", []string{"a", "b=c"}},
		{"a\\:b=c", []string{"a:b", "c"}},
		{"a\\=b:c", []string{"a=b", "c"}},
		{"a=\\t\\n\\r\\f\\q", []string{"a", "\t\n\r\fq"}},
		{"a==b", []string{"a", "=b"}},
		{"a: =b", []string{"a", "=b"}},
		{"a :=b", []string{"a", "=b"}},
		{"a\\\n\\\n  b:c", []string{"ab", "c"}},
		{"\\\n#a=b", []string{}},
		{"=c\\\n d", []string{"", "cd"}},
		{"a=b\\\n\\\nc=d", []string{"a", "bc=d"}},
		{"a\\\n", []string{"a", ""}},
		{"\\\n=c", []string{"", "c"}},
		{"a=\\u00e9\\\n\\u0062", []string{"a", "\u00e9b"}},
		{"\\\n\\\n a=b", []string{"a", "b"}},
		{"a=b\\\n \t\f\n", []string{"a", "b"}},
		{"x\\\r\n\ty z", []string{"xy", "z"}},
	} {
		entries, problems := ParseProperties("f", []byte(c.text))
		last := map[string]string{}
		for _, e := range entries {
			last[e.Key] = e.Value
		}
		got := []string{}
		for _, k := range slices.Sorted(maps.Keys(last)) {
			got = append(got, k, last[k])
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%q: %v (-Java +ours):\n%s", c.text, problems, diff)
		}
	}
}

// TestEveryProblemIsNamed: all of them at once, with file and line, in the order of the lines; what follows only from
// another one is not said. A key that nobody knows is a problem only where there are others: it may be what was meant.
func TestEveryProblemIsNamed(t *testing.T) {
	file := `process.roles=broker,controler
nod.id=3

listeners=PLAINTEXT://localhost:9x92,\
  CONTROLLER://localhost:9093
controller.listener.names=
log.dirs=/a\u00zz
controller.quorum.bootstrap.servers=localhost
num.partitions=0
= a value without a key
`
	flag := Entry{Key: "log.retention.ms", Value: "12h", File: "--override"}
	n, err := Load("s.properties", []byte(file), flag)
	want := `Missing required configuration "node.id" which has no default value.
s.properties:1: Invalid value controler for configuration process.roles: String must be one of: broker, controller
s.properties:2: Kafka 4.4 knows no setting "nod.id"
s.properties:4: Unable to parse PLAINTEXT://localhost:9x92 to a broker endpoint: "localhost:9x92" has no port between 0 and 65535
s.properties:6: Configuration 'controller.listener.names' must not be empty. Valid values include: any non-empty value
s.properties:7: Malformed \uxxxx encoding.
s.properties:8: Failed to parse host name from localhost for the configuration controller.quorum.bootstrap.servers. Each entry should be in the form "{host}:{port}"
s.properties:9: Invalid value 0 for configuration num.partitions: Value must be at least 1
s.properties:10: Kafka 4.4 knows no setting ""
--override: Invalid value 12h for configuration log.retention.ms: Not a number of type LONG`
	if n != nil || err == nil {
		t.Fatalf("%v, %v", n, err)
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironment(t *testing.T) {
	got := FromEnvironment([]string{"PATH=/bin", "KAFKA_NODE_ID=3", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_LISTENER_NAME_A__B_SSL___X=v"})
	want := []Entry{
		{Key: "listener.name.a_b.ssl-x", Value: "v", File: "environment variable KAFKA_LISTENER_NAME_A__B_SSL___X"},
		{Key: "node.id", Value: "3", File: "environment variable KAFKA_NODE_ID"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEffectiveTopic(t *testing.T) {
	settings := base()
	settings["log.retention.hours"] = "2"
	settings["log.roll.hours"] = "1"
	settings["log.roll.ms"] = "77"
	n, err := build(settings)
	if err != nil {
		t.Fatal(err)
	}
	l := Layers{Node: n, Cluster: map[string]string{"min.insync.replicas": "2"}}
	topic := Topic{l, map[string]string{"cleanup.policy": "compact,delete"}}
	if got := topic.Long("retention.ms"); got != 7200000 {
		t.Errorf("retention.ms %d from log.retention.hours", got)
	}
	if got := topic.Long("segment.ms"); got != 77 {
		t.Errorf("segment.ms %d: log.roll.ms is stronger than log.roll.hours", got)
	}
	if got := topic.Int("min.insync.replicas"); got != 2 {
		t.Errorf("min.insync.replicas %d from the cluster", got)
	}
	if got := topic.Long("flush.ms"); got != 9223372036854775807 {
		t.Errorf("flush.ms %d by default", got)
	}
	l.Broker = map[string]string{"log.retention.ms": "5"}
	if got := (Topic{l, nil}).Long("retention.ms"); got != 5 {
		t.Errorf("retention.ms %d from the broker's own setting", got)
	}
	for _, d := range Defs(ScopeTopic) { // every topic setting has a value or is null, none panics
		topic.Lookup(d.Name)
	}
}

func TestTableIsSound(t *testing.T) {
	for _, s := range []Scope{ScopeNode, ScopeTopic, ScopeGroup, ScopeClientMetrics} {
		defs := Defs(s)
		if len(defs) == 0 {
			t.Errorf("no settings of scope %s", s)
		}
		for _, d := range defs {
			if d.Null || d.Required || mustNotBeEmpty(d) != "" {
				continue
			}
			if got, err := d.Parse(d.Default); err != nil || got != d.Default {
				t.Errorf("%s: its default %q parses to %q, %v", d.Name, d.Default, got, err)
			}
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("a=b\\\n c\n=x\n#\n\\u00zz\nk\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ParseProperties("f", data)
	})
}
