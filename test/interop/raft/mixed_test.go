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

// member is a voter of a quorum of three: 1 and 2 are Kafka's, 3 is ours.
type member struct {
	*node
	id      int
	port    int
	server  *exec.Cmd
	output  bytes.Buffer
	stopped chan error
}

// formatThree makes a quorum with Kafka's tool.
func formatThree(t *testing.T) []*member {
	t.Helper()
	var all []*member
	var initial, bootstrap []string
	for id := 1; id <= 3; id++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		m := &member{id: id, port: l.Addr().(*net.TCPAddr).Port}
		initial = append(initial, fmt.Sprintf("%d@127.0.0.1:%d:%s", id, m.port, strings.Repeat("ABCDEFGH", 3)[id:][:21]+"A"))
		bootstrap = append(bootstrap, fmt.Sprintf("127.0.0.1:%d", m.port))
		all = append(all, m)
	}
	for _, m := range all {
		dir := t.TempDir()
		m.node = &node{t: t, dir: dir, file: filepath.Join(dir, "server.properties"), log: filepath.Join(dir, "data", "__cluster_metadata-0")}
		text := strings.Join([]string{
			"process.roles=controller", fmt.Sprintf("node.id=%d", m.id), "controller.listener.names=CONTROLLER",
			"listener.security.protocol.map=CONTROLLER:PLAINTEXT", "controller.quorum.bootstrap.servers=" + strings.Join(bootstrap, ","),
			fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d", m.port), "log.dirs=" + filepath.Join(dir, "data"),
		}, "\n")
		if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := java(t, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", m.file, "--initial-controllers", strings.Join(initial, ",")).CombinedOutput()
		if err != nil {
			t.Fatalf("format: %v\n%s", err, out)
		}
	}
	return all
}

func (m *member) start() {
	m.server, m.stopped = java(m.t, "kafka.Kafka", m.file), make(chan error, 1)
	m.server.Stdout, m.server.Stderr = &m.output, &m.output
	if err := m.server.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func(c *exec.Cmd, done chan error) { done <- c.Wait() }(m.server, m.stopped)
	m.t.Cleanup(func() { _ = m.server.Process.Kill() })
}

func (m *member) stop(how syscall.Signal) {
	_ = m.server.Process.Signal(how)
	select {
	case <-m.stopped:
	case <-time.After(30 * time.Second):
		m.t.Fatalf("controller %d does not end\n%s", m.id, m.output.String())
	}
}

// waitFor waits until something holds; other processes are part of it.
func waitFor(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Our quorum is a voter beside two of Kafka: it follows their leader, votes, leads, commits, resigns; in the end all three logs
// begin with the same bytes.
func TestMixedQuorum(t *testing.T) {
	all := formatThree(t)
	for _, m := range all[:2] {
		m.start()
	}
	waitFor(t, "the two of Kafka have a leader", time.Minute, func() bool { return all[0].election().LeaderID > 0 })
	ours := all[2]
	text, err := os.ReadFile(ours.file)
	if err != nil {
		t.Fatal(err)
	}
	entries, errs := config.ParseProperties(ours.file, text)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	cfg, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	e := real.New(real.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	meta, err := storage.ReadMetaProperties(e.FS(), filepath.Dir(ours.log))
	if err != nil {
		t.Fatal(err)
	}
	q, err := raft.Open(e, raft.ConfigFrom(cfg, clusterID, meta.DirectoryID))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, e, fmt.Sprintf("127.0.0.1:%d", ours.port), q)
	q.Start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("1:\n%s\n2:\n%s\n3:\n%s", all[0].output.String(), all[1].output.String(), log.String())
		}
	})
	leader := func() int { return int(q.LeaderAndEpoch().LeaderID) }

	waitFor(t, "we follow, and something is committed", time.Minute, func() bool { return leader() > 0 && q.HighWatermark() > 3 })
	t.Logf("first leader %d, epoch %d", leader(), q.LeaderAndEpoch().Epoch)
	rounds := 0
	for led := false; !led; rounds++ {
		if rounds == 8 {
			t.Fatal("after 8 elections our quorum has not led")
		}
		epoch := q.LeaderAndEpoch().Epoch
		if leader() == 3 {
			led = true
			lead(t, q, epoch)
			q.Resign(epoch)
		} else {
			// The leader goes, in order or not; the two others elect one.
			m := all[leader()-1]
			m.stop([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[rounds%2])
			waitFor(t, "another leader", 30*time.Second, func() bool { l := q.LeaderAndEpoch(); return l.Epoch > epoch && l.LeaderID > 0 })
			if leader() == 3 {
				led = true
				lead(t, q, q.LeaderAndEpoch().Epoch)
			}
			m.start()
		}
		hw := q.HighWatermark()
		if leader() != 3 {
			waitFor(t, "more is committed", 40*time.Second, func() bool { return leader() > 0 && leader() != 3 && q.HighWatermark() > hw })
		}
		t.Logf("round %d: leader %d, epoch %d, high watermark %d", rounds, leader(), q.LeaderAndEpoch().Epoch, q.HighWatermark())
	}
	epoch := q.LeaderAndEpoch().Epoch
	if leader() == 3 {
		q.Resign(epoch)
	}
	waitFor(t, "one of Kafka leads after us", 40*time.Second, func() bool { return leader() == 1 || leader() == 2 })
	hw := q.HighWatermark()
	waitFor(t, "it commits", 40*time.Second, func() bool { return q.HighWatermark() > hw+2 })
	done := make(chan struct{})
	q.Shutdown(func() { close(done) })
	<-done
	for _, m := range all[:2] {
		m.stop(syscall.SIGTERM)
	}
	sameLogs(t, all)
	ours.dump()
}

// lead appends as leader, and sees it committed: one of Kafka has fetched it.
func lead(t *testing.T, q *raft.Quorum, epoch int32) {
	t.Helper()
	var last int64
	waitFor(t, "our append is taken", 10*time.Second, func() bool {
		var err error
		last, err = q.PrepareAppend(epoch, []metadata.Versioned{{Record: &metadata.NoOpRecord{}}})
		return err == nil
	})
	q.SchedulePreparedAppend()
	waitFor(t, "our append is committed", 20*time.Second, func() bool { return q.HighWatermark() > last })
}

// sameLogs compares the logs as far as the shortest goes.
func sameLogs(t *testing.T, all []*member) {
	t.Helper()
	var first []byte
	for _, m := range all {
		b, err := os.ReadFile(filepath.Join(m.log, "00000000000000000000.log"))
		if err != nil {
			t.Fatal(err)
		}
		n := min(len(b), len(first))
		if first == nil {
			first, n = b, 0
		}
		if !bytes.Equal(b[:n], first[:n]) {
			t.Errorf("the log of %d is another one", m.id)
		}
		t.Logf("log of %d: %d bytes", m.id, len(b))
	}
}
