//go:build interop

package tools

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const (
	topicCommand    = "org.apache.kafka.tools.TopicCommand"
	consoleProducer = "org.apache.kafka.tools.ConsoleProducer"
	consoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	configCommand   = "org.apache.kafka.tools.ConfigCommand"
	groupCommand    = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	quorumCommand   = "org.apache.kafka.tools.MetadataQuorumCommand"
)

// node is a server that the tests of this package share.
func node(t *testing.T) *servertest.Cluster {
	t.Helper()
	c := servertest.New(t)
	c.Format(t)
	c.Start(t)
	return c
}

func wants(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if ok, err := regexp.MatchString(s, out); err != nil || !ok {
			t.Errorf("no %q (%v) in:\n%s", s, err, out)
		}
	}
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func TestJavaTools(t *testing.T) {
	c := node(t)
	server := []string{"--bootstrap-server", c.Bootstrap}
	kafka := func(t *testing.T, class string, args ...string) string {
		t.Helper()
		return servertest.Kafka(t, class, append(server[:2:2], args...)...)
	}
	t.Run("topics", func(t *testing.T) {
		wants(t, kafka(t, topicCommand, "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=3600000"), `^Created topic orders\.`)
		wants(t, kafka(t, topicCommand, "--list"), `(?m)^orders$`)
		wants(t, kafka(t, topicCommand, "--describe", "--topic", "orders"),
			`Topic: orders\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=3600000`,
			`Topic: orders\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: `)
		kafka(t, topicCommand, "--alter", "--topic", "orders", "--partitions", "4")
		wants(t, kafka(t, topicCommand, "--describe", "--topic", "orders"), `PartitionCount: 4`)
		out, err := servertest.TryKafka(t, "", topicCommand, append(server[:2:2], "--create", "--topic", "orders")...)
		if err == nil {
			t.Error("a topic was created twice")
		}
		wants(t, out, `Topic 'orders' already exists`)
		kafka(t, topicCommand, "--create", "--topic", "gone")
		kafka(t, topicCommand, "--delete", "--topic", "gone")
		if out := kafka(t, topicCommand, "--list"); strings.Contains(out, "gone") {
			t.Errorf("the topic is still there: %s", out)
		}
	})
	t.Run("console", func(t *testing.T) {
		servertest.KafkaIn(t, numbers(1, 1000), consoleProducer, append(server[:2:2], "--topic", "lines")...)
		out := kafka(t, consoleConsumer, "--topic", "lines", "--from-beginning", "--group", "readers", "--max-messages", "600", "--timeout-ms", "20000")
		wants(t, out, `(?m)^600$`, `Processed a total of 600 messages`)
		out = kafka(t, consoleConsumer, "--topic", "lines", "--group", "readers", "--max-messages", "400", "--timeout-ms", "20000")
		wants(t, out, `(?m)^601$`, `(?m)^1000$`, `Processed a total of 400 messages`)
		wants(t, kafka(t, groupCommand, "--describe", "--group", "readers"), `readers +lines +0 +1000 +1000 +0 `)
		wants(t, kafka(t, groupCommand, "--list"), `(?m)^readers$`)
		wants(t, kafka(t, groupCommand, "--delete", "--group", "readers"), `Deletion of requested consumer groups \('readers'\) was successful`)
	})
	t.Run("performance", func(t *testing.T) { performance(t, c, kafka) })
	t.Run("quorum", func(t *testing.T) {
		wants(t, kafka(t, quorumCommand, "describe", "--status"), `ClusterId: +`+servertest.ClusterID, `LeaderId: +1`, `LeaderEpoch: +1`, `CurrentVoters: +\[\{"id": 1, "directoryId": "[\w-]{22}", "endpoints": \["CONTROLLER://127.0.0.1:\d+"\]\}\]`)
		wants(t, kafka(t, quorumCommand, "describe", "--replication"), `(?m)^1 +\t[\w-]{22}\t\d+ +\t0 +\t\d+ +\t\d+ +\tLeader`)
	})
	t.Run("api versions", func(t *testing.T) {
		wants(t, kafka(t, "org.apache.kafka.tools.BrokerApiVersionsCommand"), `Produce\(0\): 0 to 13 \[usable: 13\]`, `Fetch\(1\): 4 to 18 \[usable: 18\]`, `ApiVersions\(18\): 0 to 5 \[usable: 5\]`)
	})
	t.Run("configs", func(t *testing.T) {
		kafka(t, configCommand, "--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config", "max.message.bytes=2000000")
		wants(t, kafka(t, configCommand, "--describe", "--entity-type", "topics", "--entity-name", "orders"), `max.message.bytes=2000000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588\}`)
		kafka(t, configCommand, "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.threads=2")
		wants(t, kafka(t, configCommand, "--describe", "--entity-type", "brokers", "--entity-default"), `log.cleaner.threads=2`)
	})
	t.Run("verifiable clients", func(t *testing.T) {
		wants(t, kafka(t, "org.apache.kafka.tools.VerifiableProducer", "--topic", "verified", "--max-messages", "500", "--acks", "-1"), `"name":"tool_data","sent":500,"acked":500`)
		wants(t, kafka(t, "org.apache.kafka.tools.VerifiableConsumer", "--topic", "verified", "--group-id", "verifiers", "--max-messages", "500", "--reset-policy", "earliest"),
			`"name":"partitions_assigned"`, `"name":"offsets_committed".*"success":true`)
	})
	t.Run("log directories", func(t *testing.T) {
		wants(t, kafka(t, "org.apache.kafka.tools.LogDirsCommand", "--describe"), `"partition":"orders-0","size":\d+,"offsetLag":0,"isFuture":false`)
	})
}

// performance is an idempotent producer, as ProducerPerformance is by default; nothing of what it sent may be missing. OTTLA_PERF_RECORDS
// is how many records it sends.
func performance(t *testing.T, c *servertest.Cluster, kafka func(*testing.T, string, ...string) string) {
	n := 500_000
	if s := os.Getenv("OTTLA_PERF_RECORDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	kafka(t, topicCommand, "--create", "--topic", "perf", "--partitions", "3")
	out := kafka(t, "org.apache.kafka.tools.ProducerPerformance", "--topic", "perf", "--num-records", strconv.Itoa(n), "--record-size", "100", "--throughput", "-1")
	wants(t, out, fmt.Sprintf(`(?m)^%d records sent`, n))
	t.Log(regexp.MustCompile(fmt.Sprintf(`(?m)^%d records sent.*`, n)).FindString(out))
	out = kafka(t, "org.apache.kafka.tools.ConsumerPerformance", "--topic", "perf", "--num-records", strconv.Itoa(n))
	wants(t, out, fmt.Sprintf(`, %d, `, n))
	total := 0
	for _, line := range strings.Split(strings.TrimSpace(kafka(t, "org.apache.kafka.tools.GetOffsetShell", "--topic", "perf")), "\n") {
		f := strings.Split(line, ":")
		end, err := strconv.Atoi(f[len(f)-1])
		if err != nil {
			t.Fatalf("offsets: %s", line)
		}
		total += end
	}
	if total != n {
		t.Errorf("the log has %d records, %d were sent", total, n)
	}
	_ = c
}

func TestKcat(t *testing.T) {
	c := node(t)
	kcat := func(stdin string, args ...string) string {
		return servertest.Run(t, stdin, "kcat", append([]string{"-b", c.Bootstrap}, args...)...)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		kcat(numbers(1, 500), "-P", "-t", "k-"+codec, "-z", codec)
		if got := kcat("", "-C", "-t", "k-"+codec, "-e", "-q"); got != numbers(1, 500) {
			t.Errorf("%s: %d bytes came back", codec, len(got))
		}
	}
	kcat("a:1\nb:2\n", "-P", "-t", "keys", "-K:", "-H", "h=x")
	if got := kcat("", "-C", "-t", "keys", "-e", "-q", "-f", `%k=%s %h %o\n`); got != "a=1 h=x 0\nb=2 h=x 1\n" {
		t.Errorf("got %q", got)
	}
	wants(t, kcat("", "-L"), `1 brokers:`, `broker 1 at 127.0.0.1:\d+ \(controller\)`, `topic "keys" with 1 partitions`)
	wants(t, kcat("", "-Q", "-t", "keys:0:-1"), `keys \[0\] offset 2`)
	wants(t, kcat("", "-Q", "-t", "keys:0:-2"), `keys \[0\] offset 0`)
	wants(t, kcat("", "-G", "readers", "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", `%s\n`, "keys"), `1\n2\n`)
}
