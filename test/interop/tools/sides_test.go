//go:build interop

package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

// side is a cluster in which the tools are run: one controller, 101, and the brokers 1, 2 and 3.
type side struct {
	name  string
	jvm   *servertest.JVM // the tools run in it, and Kafka's nodes
	files string          // a folder for what the tools are given
	nodes []*servertest.Cluster
	// servers are the processes of Ottla's nodes, in the order of nodes.
	servers []*servertest.Server
	names   *strings.Replacer // what is another on each side, named
}

// brokers of each side.
const brokers = 3

func newSide(t *testing.T, name string, jvm *servertest.JVM, settings ...string) *side {
	t.Helper()
	cs, bs := servertest.Nodes(t, 1, brokers, settings...)
	s := &side{name: name, jvm: jvm, files: t.TempDir(), nodes: append(cs, bs...)}
	var names []string
	for _, n := range s.nodes {
		_, port, _ := strings.Cut(n.Bootstrap, ":")
		names = append(names, n.Bootstrap, fmt.Sprintf("NODE%d", n.ID), n.Data, fmt.Sprintf("DATA%d", n.ID), "port="+port, fmt.Sprintf("PORT%d", n.ID))
		n.Format(t)
	}
	s.names = strings.NewReplacer(append(names, s.files, "FILES")...)
	return s
}

// ottlaSide runs nodes of Ottla.
func ottlaSide(t *testing.T, jvm *servertest.JVM, settings ...string) *side {
	t.Helper()
	s := newSide(t, "Ottla", jvm, settings...)
	for _, n := range s.nodes {
		s.servers = append(s.servers, n.Launch(t))
	}
	for _, server := range s.servers {
		server.WaitFor(t, servertest.Started)
	}
	return s
}

// kafkaSide runs nodes of Apache Kafka.
func kafkaSide(t *testing.T, jvm *servertest.JVM, settings ...string) *side {
	t.Helper()
	s := newSide(t, "Kafka", jvm, settings...)
	for _, n := range s.nodes {
		jvm.StartKafka(t, n)
	}
	return s
}

// file makes a file that both sides know as FILES/name.
func (s *side) file(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.files, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// args are the words of a command: those between ' ' are one, $B is a broker, $C the controller, FILES the folder of files.
func (s *side) args(command string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
		m = strings.Trim(m, "'")
		m = strings.NewReplacer("$B", s.nodes[1].Bootstrap, "$C", s.nodes[0].Bootstrap, "FILES", s.files).Replace(m)
		words = append(words, m)
	}
	return words
}

// classes are Kafka's tools by the name of Ottla's.
var classes = map[string]string{
	"topics":               "org.apache.kafka.tools.TopicCommand",
	"configs":              "org.apache.kafka.tools.ConfigCommand",
	"acls":                 "org.apache.kafka.tools.AclCommand",
	"features":             "org.apache.kafka.tools.FeatureCommand",
	"cluster":              "org.apache.kafka.tools.ClusterTool",
	"delegation-tokens":    "org.apache.kafka.tools.DelegationTokenCommand",
	"metadata-quorum":      "org.apache.kafka.tools.MetadataQuorumCommand",
	"log-dirs":             "org.apache.kafka.tools.LogDirsCommand",
	"delete-records":       "org.apache.kafka.tools.DeleteRecordsCommand",
	"broker-api-versions":  "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"reassign-partitions":  "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
	"leader-election":      "org.apache.kafka.tools.LeaderElectionCommand",
	"producer-performance": "org.apache.kafka.tools.ProducerPerformance",
	"client-metrics":       "org.apache.kafka.tools.ClientMetricsCommand",
}

// java runs a command with Kafka's tool.
func (s *side) java(t *testing.T, command string) servertest.Output {
	t.Helper()
	words := s.args(command)
	class := classes[words[0]]
	if class == "" {
		t.Fatalf("no tool %s", words[0])
	}
	return s.jvm.Run(t, class, words[1:]...)
}

var (
	ids = regexp.MustCompile(`\b[\w-]{22}\b`)
	// frames are the lines of a stack trace; what is above them says what happened.
	frames = regexp.MustCompile(`(?m)^\t(at |\.\.\. \d+ more).*\n`)
)

// constant is an output without what differs from run to run.
func (s *side) constant(text string) string {
	return frames.ReplaceAllString(ids.ReplaceAllString(s.names.Replace(text), "ID"), "")
}
