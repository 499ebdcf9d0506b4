//go:build interop

package folders

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const dumpLog = "org.apache.kafka.tools.DumpLogSegments"

// Kafka's tool reads our files without complaint, while the server runs and after it has stopped.
func TestKafkaReadsOurFiles(t *testing.T) {
	c := servertest.New(t, "log.segment.bytes=1048576", "log.index.interval.bytes=100")
	c.Format(t)
	s := c.Start(t)
	createTopic(t, c, "dumped", 1)
	for _, codec := range codecs {
		produce(t, c, "dumped", codec, 3000)
	}
	produce(t, c, "dumped", "none", 20_000)
	s.Stop(t)
	files, _ := filepath.Glob(filepath.Join(c.Data, "dumped-0", "*"))
	var logs, offsets, times []string
	for _, f := range files {
		switch filepath.Ext(f) {
		case ".log":
			logs = append(logs, f)
		case ".index":
			offsets = append(offsets, f)
		case ".timeindex":
			times = append(times, f)
		}
	}
	if len(logs) < 2 {
		t.Fatalf("segments: %v", logs)
	}
	out := servertest.Kafka(t, dumpLog, "--files", strings.Join(logs, ","), "--deep-iteration")
	if n := strings.Count(out, "| offset: "); n != 3000*len(codecs)+20_000 || strings.Contains(out, "isvalid: false") {
		t.Errorf("%d records in the dump, want %d", n, 3000*len(codecs)+20_000)
	}
	clean(t, servertest.Kafka(t, dumpLog, "--files", strings.Join(offsets, ","), "--index-sanity-check"), len(offsets))
	clean(t, servertest.Kafka(t, dumpLog, "--files", strings.Join(append(offsets, times...), ","), "--verify-index-only"), 0)
	snapshots, _ := filepath.Glob(filepath.Join(c.Data, "dumped-0", "*.snapshot"))
	if out := servertest.Kafka(t, dumpLog, "--files", strings.Join(snapshots, ",")); len(snapshots) < 2 || !strings.Contains(out, "producerId: ") {
		t.Errorf("snapshots %v:\n%s", snapshots, out)
	}
	checkMetadata(t, c)
}

// clean looks for complaints of the index checks.
func clean(t *testing.T, out string, passed int) {
	t.Helper()
	if n := strings.Count(out, "passed sanity check"); n < passed || regexp.MustCompile(`(?i)mismatch|non-|not found|error|exception`).MatchString(out) {
		t.Errorf("%d of %d indexes passed:\n%s", n, passed, out)
	}
}

// checkMetadata reads the metadata log: its first batch, and the one that made the topic.
func checkMetadata(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	dir := filepath.Join(c.Data, "__cluster_metadata-0")
	out := servertest.Kafka(t, dumpLog, "--cluster-metadata-decoder", "--files", filepath.Join(dir, "00000000000000000000.log"))
	batches := strings.Split(out, "baseOffset: ")[1:]
	first := batches[0]
	for _, s := range []string{"0 lastOffset: 2 count: 3 ", "isControl: true", "LeaderChange: ", "KRaftVersion ", "KRaftVoters "} {
		if !strings.Contains(first, s) {
			t.Errorf("no %q in the first batch:\n%s", s, first)
		}
	}
	topics := 0
	for _, b := range batches {
		if strings.Contains(b, `"type":"TOPIC_RECORD"`) && strings.Contains(b, `"name":"dumped"`) {
			topics++
			if !strings.Contains(b, `"type":"PARTITION_RECORD"`) {
				t.Errorf("the topic and its partition are not in one batch:\n%s", b)
			}
		}
	}
	if topics != 1 || strings.Contains(out, "isvalid: false") {
		t.Errorf("the topic was made %d times", topics)
	}
	boot := servertest.Kafka(t, dumpLog, "--cluster-metadata-decoder", "--files", filepath.Join(dir, "00000000000000000000-0000000000.checkpoint"))
	for _, s := range []string{"SnapshotHeader ", "KRaftVoters ", `"name":"metadata.version","featureLevel":33`, "SnapshotFooter "} {
		if !strings.Contains(boot, s) {
			t.Errorf("no %q in the bootstrap snapshot:\n%s", s, boot)
		}
	}
}

// A producer that is cut off by kill -9 misses nothing of what was acknowledged to it, and the log says what recovery did.
func TestKillWhileProducing(t *testing.T) {
	c := servertest.New(t)
	c.Format(t)
	for round := range 3 {
		s := c.Start(t)
		topic := "killed-" + strconv.Itoa(round)
		createTopic(t, c, topic, 2)
		acked := produceUntilKilled(t, c, s, topic)
		s = c.Start(t)
		found := map[string]int{}
		for _, r := range consumeAll(t, c, topic) {
			found[string(r.Value)]++
		}
		for value, offset := range acked {
			if found[value] != 1 {
				t.Errorf("round %d: %s, acknowledged at %s, is there %d times", round, value, offset, found[value])
			}
		}
		t.Logf("round %d: %d records acknowledged, %d in the log", round, len(acked), len(found))
		if len(acked) < 100 {
			t.Errorf("only %d records were acknowledged before the end", len(acked))
		}
		for _, line := range []string{"Recovering unflushed segment 0", "since no clean shutdown file was found"} {
			if !strings.Contains(s.Log(), line) {
				t.Errorf("the log does not say %q", line)
			}
		}
		s.Stop(t)
	}
}
