//go:build interop

package raft

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
)

const clusterID = "Zm9vYmFyYmF6cXV4MTIzNA"

// node is a controller whose process is now Kafka's and now ours.
type node struct {
	t    *testing.T
	dir  string // of the settings
	file string
	log  string // folder of the metadata log
}

func java(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	libs := os.Getenv("KAFKA_LIBS")
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka-clients-*.jar")); len(jars) != 1 {
		t.Fatalf("KAFKA_LIBS=%s has %d kafka-clients jars, want 1", libs, len(jars))
	}
	return exec.Command("java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-cp", libs + "/*"}, args...)...)
}

// format makes a node as Kafka's tool does.
func format(t *testing.T, static bool) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{t: t, dir: dir, file: filepath.Join(dir, "server.properties"), log: filepath.Join(dir, "data", "__cluster_metadata-0")}
	voters, how := fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", port), []string{"--standalone"}
	if static {
		voters, how = fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", port), nil
	}
	text := strings.Join([]string{
		"process.roles=controller", "node.id=1", "controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT",
		voters, fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d", port), "log.dirs=" + filepath.Join(dir, "data"),
		"metadata.log.max.snapshot.interval.ms=1000", "metadata.log.max.record.bytes.between.snapshots=100",
	}, "\n")
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.file}, how...)
	if out, err := java(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	return n
}

// election is what the file quorum-state says.
func (n *node) election() raft.Election {
	n.t.Helper()
	e, err := raft.ReadElection(real.New(real.Options{}).FS(), n.log)
	if err != nil {
		n.t.Fatal(err)
	}
	return e
}

func (n *node) snapshots() int {
	names, err := filepath.Glob(filepath.Join(n.log, "*.checkpoint"))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(names)
}

// runKafka lets Kafka lead an epoch until it has written another snapshot, and ends it by a signal.
func (n *node) runKafka(end syscall.Signal) {
	n.t.Helper()
	before, snapshots := n.election().Epoch, n.snapshots()
	server := java(n.t, "kafka.Kafka", n.file)
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		n.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for n.election().Epoch <= before || n.snapshots() <= snapshots {
		if time.Now().After(deadline) {
			_ = server.Process.Kill()
			n.t.Fatalf("Kafka does not lead or writes no snapshot: %+v\n%s", n.election(), log.String())
		}
		<-time.After(100 * time.Millisecond) // another process: there is nothing to wait for but time
	}
	<-time.After(1200 * time.Millisecond) // two more NoOp records
	if err := server.Process.Signal(end); err != nil {
		n.t.Fatal(err)
	}
	if err := server.Wait(); err != nil && end != syscall.SIGKILL && !strings.Contains(err.Error(), "143") {
		n.t.Fatalf("Kafka ends with %v\n%s", err, log.String())
	}
}

// told is what a listener hears; the calls come one at a time, and done closes when this node leads.
type told struct {
	snapshot  raft.SnapshotID
	bootstrap int
	next      int64
	epoch     int32
	leads     chan raft.LeaderAndEpoch
	committed chan int64
}

func (l *told) HandleCommit(batches []raft.Batch) {
	for _, b := range batches {
		l.next, l.epoch = b.LastOffset+1, b.Epoch
	}
	l.committed <- l.next
}

func (l *told) HandleLoadSnapshot(r *raft.SnapshotReader) {
	l.snapshot, l.next = r.ID(), r.ID().EndOffset
	for {
		if _, ok, err := r.Next(); err != nil || !ok {
			if err != nil {
				panic(err)
			}
			return
		}
	}
}

func (l *told) HandleLoadBootstrap(records []metadata.Versioned) { l.bootstrap = len(records) }

func (l *told) HandleLeaderChange(now raft.LeaderAndEpoch) {
	if now.LeaderID == 1 {
		l.leads <- now
	}
}

// runOurs lets our quorum lead an epoch: it appends records and writes a snapshot.
func (n *node) runOurs(cfg *config.Node) {
	n.t.Helper()
	before := n.election().Epoch
	e := real.New(real.Options{Logger: slog.New(slog.DiscardHandler)})
	meta, err := storage.ReadMetaProperties(e.FS(), filepath.Dir(n.log))
	if err != nil {
		n.t.Fatal(err)
	}
	q, err := raft.Open(e, raft.ConfigFrom(cfg, clusterID, meta.DirectoryID))
	if err != nil {
		n.t.Fatal(err)
	}
	l := &told{leads: make(chan raft.LeaderAndEpoch, 10), committed: make(chan int64, 100)}
	q.Register(l)
	q.Start()
	var leads raft.LeaderAndEpoch
	select {
	case leads = <-l.leads:
	case <-time.After(10 * time.Second):
		n.t.Fatal("our quorum does not lead")
	}
	if leads.Epoch != before+1 {
		n.t.Errorf("we lead epoch %d after Kafka's %d", leads.Epoch, before)
	}
	if l.snapshot.EndOffset == 0 || l.next <= l.snapshot.EndOffset {
		n.t.Errorf("told of snapshot %s and of everything below %d", l.snapshot, l.next)
	}
	last, err := q.PrepareAppend(leads.Epoch, []metadata.Versioned{{Record: &metadata.NoOpRecord{}}, {Record: &metadata.NoOpRecord{}}})
	if err != nil {
		n.t.Fatal(err)
	}
	q.SchedulePreparedAppend()
	for at := range l.committed {
		if at > last {
			break
		}
	}
	// A snapshot of ours has the records of the last one: what came since were NoOps.
	n.copySnapshot(e, q, l.snapshot, raft.SnapshotID{EndOffset: last + 1, Epoch: leads.Epoch})
	done := make(chan struct{})
	q.Shutdown(func() { close(done) })
	<-done
}

func (n *node) copySnapshot(e *real.Env, q *raft.Quorum, from, to raft.SnapshotID) {
	n.t.Helper()
	r, err := raft.OpenSnapshot(e.FS(), n.log, from)
	if err != nil {
		n.t.Fatal(err)
	}
	w, err := q.CreateSnapshot(to, time.Now().UnixMilli())
	if err != nil {
		n.t.Fatal(err)
	}
	for {
		b, ok, err := r.Next()
		if err != nil {
			n.t.Fatal(err)
		}
		if !ok {
			break
		}
		if err := w.Append(b.Records); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := w.Freeze(); err != nil {
		n.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		n.t.Fatal(err)
	}
}

var batchLine = regexp.MustCompile(`baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) .*isvalid: (\w+)`)

// dump has Kafka's tool read log and snapshots, and returns the last offset of the log.
func (n *node) dump() (last int64, text string) {
	n.t.Helper()
	last = -1
	for _, pattern := range []string{"*.log", "*.checkpoint"} {
		names, err := filepath.Glob(filepath.Join(n.log, pattern))
		if err != nil || len(names) == 0 {
			n.t.Fatal(names, err)
		}
		for _, name := range names {
			out, err := java(n.t, "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", name).CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("xception")) || bytes.Contains(out, []byte("rror")) || bytes.Contains(out, []byte("Found ")) {
				n.t.Fatalf("dump %s: %v\n%s", name, err, out)
			}
			text += string(out)
			for _, m := range batchLine.FindAllStringSubmatch(string(out), -1) {
				var base, end int64
				if _, err := fmt.Sscan(m[1]+" "+m[2], &base, &end); err != nil {
					n.t.Fatal(err)
				}
				if m[4] != "true" {
					n.t.Errorf("%s: %s", name, m[0])
				}
				if pattern == "*.log" {
					if base != last+1 && last >= 0 {
						n.t.Errorf("%s: offset %d follows on %d", name, base, last)
					}
					last = end
				}
			}
		}
	}
	return last, text
}

// A folder goes from Kafka to us and back, after kill -9 and after an orderly stop: each leads the epoch after the other's,
// loads the other's snapshot, and Kafka's tool finds nothing wrong.
func TestHandover(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprintf("static=%t", static), func(t *testing.T) {
			n := format(t, static)
			text, err := os.ReadFile(n.file)
			if err != nil {
				t.Fatal(err)
			}
			entries, errs := config.ParseProperties(n.file, text)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			cfg, err := config.New(entries)
			if err != nil {
				t.Fatal(err)
			}
			n.runKafka(syscall.SIGKILL)
			n.runOurs(cfg)
			last, out := n.dump()
			if !strings.Contains(out, `"type":"NO_OP_RECORD"`) || !strings.Contains(out, "LeaderChange") || strings.Contains(out, "KRaftVoters") == static {
				t.Errorf("the dump does not have what it must:\n%s", out)
			}
			n.runKafka(syscall.SIGTERM)
			after, _ := n.dump()
			if after <= last {
				t.Errorf("Kafka did not go on behind offset %d: %d", last, after)
			}
			n.runOurs(cfg)
			n.dump()
			if e := n.election(); e.Epoch != 4 || e.LeaderID != 1 {
				t.Errorf("after four lives quorum-state says %+v", e)
			}
			if t.Failed() {
				files, _ := exec.Command("ls", "-l", n.log).CombinedOutput()
				t.Log(string(files))
			}
		})
	}
}
