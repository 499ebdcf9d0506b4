package raft

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// witness writes down what a listener is told.
type witness struct {
	lines   []string
	onOwn   func(LeaderAndEpoch)
	node    int32
	records int
}

func (w *witness) HandleCommit(batches []Batch) {
	for _, b := range batches {
		w.records += len(b.Records)
		w.lines = append(w.lines, fmt.Sprintf("commit %d..%d epoch=%d records=%d", b.BaseOffset, b.LastOffset, b.Epoch, len(b.Records)))
	}
}

func (w *witness) HandleLoadSnapshot(r *SnapshotReader) {
	n := 0
	for {
		b, ok, err := r.Next()
		if err != nil {
			panic(err)
		}
		if !ok {
			break
		}
		n += len(b.Records)
	}
	w.lines = append(w.lines, fmt.Sprintf("snapshot %s records=%d", r.ID(), n))
}

func (w *witness) HandleLoadBootstrap(records []metadata.Versioned) {
	w.lines = append(w.lines, fmt.Sprintf("bootstrap records=%d", len(records)))
}

func (w *witness) HandleLeaderChange(l LeaderAndEpoch) {
	w.lines = append(w.lines, fmt.Sprintf("leader=%d epoch=%d", l.LeaderID, l.Epoch))
	if l.LeaderID == w.node && w.onOwn != nil {
		w.onOwn(l)
	}
}

func (w *witness) take() string {
	s := strings.Join(w.lines, "\n")
	w.lines = nil
	return s
}

// standalone is a machine with what the format tool left for a standalone controller.
func standalone(t *testing.T) (*sim.World, *sim.Node, Config) {
	t.Helper()
	return standaloneIn(t, sim.NewWorld(1, sim.Options{}))
}

func standaloneIn(t *testing.T, w *sim.World) (*sim.World, *sim.Node, Config) {
	t.Helper()
	n := w.NewNode("n1")
	cfg := DefaultConfig()
	cfg.NodeID, cfg.Voter, cfg.ClusterID, cfg.MetadataDir, cfg.ListenerName = 1, true, "Zm9ybWF0LWZhY3RzLTAwMQ", "/d", "CONTROLLER"
	cfg.Listeners = []Endpoint{{"CONTROLLER", "localhost", 39093}}
	dir, err := uuid.Parse("BJeb8PwhT26mFrRo0Xnvrg")
	if err != nil {
		t.Fatal(err)
	}
	cfg.DirectoryID = dir
	if err := n.FS().MkdirAll(cfg.LogDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", cfg.MetadataDir} {
		if err := n.FS().SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Disk().WriteFile(SnapshotPath(cfg.LogDir(), bootstrapID), goldenBootstrap(t), 0o400); err != nil {
		t.Fatal(err)
	}
	return w, n, cfg
}

func noOps(n int) []metadata.Versioned {
	out := make([]metadata.Versioned, n)
	for i := range out {
		out[i] = metadata.Versioned{Record: &metadata.NoOpRecord{}}
	}
	return out
}

func mustOpen(t *testing.T, e *sim.Node, cfg Config, s segments) *Quorum {
	t.Helper()
	q, err := open(e, cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A standalone controller leads at once, its listener learns of that after the bootstrap records and the first batch, and an
// append on the idle log is one write and one sync.
func TestStandalone(t *testing.T) {
	w, n, cfg := standalone(t)
	m := &memorySegments{}
	q := mustOpen(t, n, cfg, m)
	l := &witness{node: 1}
	q.Register(l)
	q.Start()
	w.RunFor(10 * time.Millisecond)
	if diff := cmp.Diff("leader=-1 epoch=1\nbootstrap records=6\ncommit 0..2 epoch=1 records=0\nleader=1 epoch=1", l.take()); diff != "" {
		t.Error(diff)
	}
	state, err := n.Disk().ReadFile("/d/__cluster_metadata-0/quorum-state")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(state); got != `{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}` {
		t.Error(got)
	}

	m.syncs, m.writes = 0, 0
	if last, err := q.PrepareAppend(1, noOps(2)); last != 4 || err != nil {
		t.Fatal(last, err)
	}
	q.SchedulePreparedAppend()
	w.RunFor(time.Millisecond)
	if diff := cmp.Diff("commit 3..4 epoch=1 records=2", l.take()); diff != "" {
		t.Error(diff)
	}
	if m.syncs != 1 || m.writes != 1 {
		t.Errorf("%d writes, %d syncs", m.writes, m.syncs)
	}
	if q.HighWatermark() != 5 || q.LogEndOffset() != 5 || q.LeaderAndEpoch() != (LeaderAndEpoch{1, 1}) || q.KRaftVersion() != 1 {
		t.Error(q.HighWatermark(), q.LogEndOffset(), q.LeaderAndEpoch())
	}

	// What comes while the queue is busy shares a batch and a sync.
	for range 3 {
		if _, err := q.PrepareAppend(1, noOps(1)); err != nil {
			t.Fatal(err)
		}
		q.SchedulePreparedAppend()
	}
	w.RunFor(time.Millisecond)
	if diff := cmp.Diff("commit 5..7 epoch=1 records=3", l.take()); diff != "" {
		t.Error(diff)
	}

	// Another life: the next epoch, and a new listener is told all of it.
	n = n.Restart()
	m.crash()
	q = mustOpen(t, n, cfg, m)
	l = &witness{node: 1}
	q.Register(l)
	q.Start()
	w.RunFor(10 * time.Millisecond)
	if diff := cmp.Diff("leader=-1 epoch=1\nleader=-1 epoch=2\nbootstrap records=6\ncommit 0..2 epoch=1 records=0\ncommit 3..4 epoch=1 records=2\ncommit 5..7 epoch=1 records=3\ncommit 8..8 epoch=2 records=0\nleader=1 epoch=2", l.take()); diff != "" {
		t.Error(diff)
	}
}

// Appending is for the leader of the epoch, and a batch has a largest size.
func TestPrepareAppendErrors(t *testing.T) {
	w, n, cfg := standalone(t)
	cfg.MaxBatchBytes = 200
	q := mustOpen(t, n, cfg, &memorySegments{})
	if _, err := q.PrepareAppend(0, noOps(1)); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	q.Start()
	w.RunFor(time.Millisecond)
	if _, err := q.PrepareAppend(0, noOps(1)); !errors.Is(err, ErrEpochFenced) {
		t.Error(err)
	}
	if _, err := q.PrepareAppend(2, noOps(1)); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	if _, err := q.PrepareAppend(1, noOps(20)); err == nil || !strings.Contains(err.Error(), ErrBatchTooLarge.Error()) {
		t.Error(err)
	}
	// Results that do not fit into one batch go into two, none is split.
	for range 4 {
		if _, err := q.PrepareAppend(1, noOps(5)); err != nil {
			t.Fatal(err)
		}
	}
	l := &witness{}
	q.Register(l)
	q.SchedulePreparedAppend()
	w.RunFor(time.Millisecond)
	if diff := cmp.Diff("bootstrap records=6\ncommit 0..2 epoch=1 records=0\nleader=1 epoch=1\ncommit 3..12 epoch=1 records=10\ncommit 13..22 epoch=1 records=10", l.take()); diff != "" {
		t.Error(diff)
	}
}

// A leader that resigns is leader again, in a later epoch, when its election timeout is over; what was prepared in the
// old epoch is refused.
func TestResignAlone(t *testing.T) {
	w, n, cfg := standalone(t)
	q := mustOpen(t, n, cfg, &memorySegments{})
	l := &witness{node: 1}
	q.Register(l)
	q.Start()
	w.RunFor(time.Millisecond)
	l.take()
	if _, err := q.PrepareAppend(1, noOps(1)); err != nil {
		t.Fatal(err)
	}
	q.Resign(1)
	w.RunFor(3 * time.Second)
	if diff := cmp.Diff("leader=-1 epoch=1\nleader=-1 epoch=2\nleader=-1 epoch=3\ncommit 3..3 epoch=3 records=0\nleader=1 epoch=3", l.take()); diff != "" {
		t.Error(diff)
	}
	if _, err := q.PrepareAppend(1, noOps(1)); !errors.Is(err, ErrEpochFenced) {
		t.Error(err)
	}
}

// Snapshots are written beside the log, and the log begins at the second-oldest when they are too large together.
func TestSnapshotAndClean(t *testing.T) {
	w, n, cfg := standalone(t)
	cfg.RetentionBytes = 2500
	m := &memorySegments{}
	q := mustOpen(t, n, cfg, m)
	q.Start()
	w.RunFor(time.Millisecond)
	for range 3 {
		if _, err := q.PrepareAppend(1, noOps(20)); err != nil {
			t.Fatal(err)
		}
		q.SchedulePreparedAppend()
		w.RunFor(time.Millisecond)
		sw, err := q.CreateSnapshot(SnapshotID{q.HighWatermark(), 1}, n.Now().UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		if err := sw.Append(noOps(40)); err != nil {
			t.Fatal(err)
		}
		if err := sw.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := sw.Close(); err != nil {
			t.Fatal(err)
		}
		w.RunFor(time.Millisecond)
	}
	if sw, err := q.CreateSnapshot(SnapshotID{63, 1}, 77); sw != nil || err != nil {
		t.Error("a snapshot that exists", sw, err)
	}
	for _, id := range []SnapshotID{{64, 1}, {50, 1}, {63, 2}, {62, 0}} {
		if sw, err := q.CreateSnapshot(id, 77); sw != nil || err == nil {
			t.Error("bad snapshot", id, sw, err)
		}
	}
	if m.start != 43 {
		t.Errorf("log start %d", m.start)
	}
	l := &witness{}
	q.Register(l)
	w.RunFor(2 * time.Minute)
	if diff := cmp.Diff("snapshot 00000000000000000063-0000000001 records=40\nleader=1 epoch=1", l.take()); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, name := range n.Disk().Files() {
		names = append(names, strings.TrimPrefix(name, "/d/__cluster_metadata-0/"))
	}
	if diff := cmp.Diff([]string{"00000000000000000043-0000000001.checkpoint", "00000000000000000063-0000000001.checkpoint", "quorum-state"}, names); diff != "" {
		t.Error(diff)
	}
}
