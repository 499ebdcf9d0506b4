package raft

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
)

// filled is a standalone voter on the simulated disk whose log has many small segments; it was stopped in order.
func filled(t *testing.T, snapshotAt ...int64) (*sim.World, *sim.Node, Config) {
	t.Helper()
	w, n, cfg := standalone(t)
	cfg.SegmentBytes, cfg.RetentionBytes, cfg.Retention = 300, -1, -1
	var q *Quorum
	l := &witness{node: 1}
	n.Do("start", func() {
		var err error
		if q, err = Open(n, cfg); err != nil {
			t.Error(err)
			return
		}
		q.Register(l)
		q.Start()
	})
	w.RunFor(10 * time.Millisecond)
	if t.Failed() {
		t.FailNow()
	}
	for range 30 {
		if _, err := q.PrepareAppend(1, noOps(1)); err != nil {
			t.Fatal(err)
		}
		q.SchedulePreparedAppend()
		w.RunFor(5 * time.Millisecond)
	}
	for _, at := range snapshotAt {
		snapshot(t, w, n, q, SnapshotID{at, 1})
	}
	stopped := false
	q.Shutdown(func() { stopped = true })
	w.RunFor(time.Second)
	if !stopped {
		t.Fatal("no end")
	}
	return w, n, cfg
}

func snapshot(t *testing.T, w *sim.World, n *sim.Node, q *Quorum, id SnapshotID) {
	t.Helper()
	n.Do("snapshot", func() {
		sw, err := q.CreateSnapshot(id, n.Now().UnixMilli())
		if err == nil {
			err = errors.Join(sw.Append(noOps(1)), sw.Freeze(), sw.Close())
		}
		if err != nil {
			t.Errorf("snapshot %s: %v", id, err)
		}
	})
	w.RunFor(5 * time.Millisecond)
}

// segmentsOf are the base names of the log's segments.
func segmentsOf(n *sim.Node, cfg Config) (names []string) {
	for _, name := range n.Disk().Files() {
		if base, ok := strings.CutSuffix(filepath.Base(name), ".log"); ok && filepath.Dir(name) == cfg.LogDir() {
			names = append(names, base)
		}
	}
	return names
}

// reopen gives the start and the end of the log in the next life, and its error.
func reopen(w *sim.World, n *sim.Node, cfg Config) (start, end int64, err error) {
	n = n.Restart()
	n.Do("open", func() {
		var q *Quorum
		if q, err = Open(n, cfg); err == nil {
			start, end = q.disk.StartOffset(), q.disk.EndOffset()
		}
	})
	w.RunFor(time.Second)
	return start, end, err
}

// A crash may take files out of the middle of a log. What lies behind such a gap does not follow on what lies before it: above
// the first snapshot the log ends there, below it the leftovers before it go.
func TestMissingSegments(t *testing.T) {
	w, n, cfg := filled(t)
	all := segmentsOf(n, cfg)
	if len(all) < 6 {
		t.Fatal(all)
	}
	if start, end, err := reopen(w, n, cfg); start != 0 || end != 33 || err != nil {
		t.Errorf("nothing is missing: %d..%d, %v", start, end, err)
	}
	n = w.Node("n1")
	missing := all[3]
	if err := n.Disk().RemoveFile(filepath.Join(cfg.LogDir(), missing+".log")); err != nil {
		t.Fatal(err)
	}
	start, end, err := reopen(w, n, cfg)
	if got := offsetOf(t, missing); start != 0 || end != got || err != nil {
		t.Errorf("segment %s is missing: %d..%d, %v", missing, start, end, err)
	}
	if got := segmentsOf(n, cfg); !slices.Equal(got, all[:3]) {
		t.Errorf("segments left: %v of %v", got, all)
	}
}

func TestMissingSegmentsBelowSnapshot(t *testing.T) {
	w, n, cfg := filled(t, 20, 25)
	all := segmentsOf(n, cfg)
	for _, name := range []string{SnapshotPath(cfg.LogDir(), bootstrapID), filepath.Join(cfg.LogDir(), all[1]+".log"), filepath.Join(cfg.LogDir(), all[2]+".log")} {
		if err := n.Disk().RemoveFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if start, end, err := reopen(w, n, cfg); start != 20 || end != 33 || err != nil {
		t.Errorf("the log is %d..%d, %v", start, end, err)
	}
	if got := segmentsOf(n, cfg); slices.Contains(got, all[0]) || !slices.Contains(got, all[len(all)-1]) {
		t.Errorf("segments left: %v of %v", got, all)
	}
}

// The same while the older snapshot is still there: segments are deleted first.
func TestMissingSegmentsBelowLastSnapshot(t *testing.T) {
	w, n, cfg := filled(t, 25)
	all := segmentsOf(n, cfg)
	if err := n.Disk().RemoveFile(filepath.Join(cfg.LogDir(), all[1]+".log")); err != nil {
		t.Fatal(err)
	}
	if start, end, err := reopen(w, n, cfg); start != 25 || end != 33 || err != nil {
		t.Errorf("the log is %d..%d, %v", start, end, err)
	}
}

func offsetOf(t *testing.T, base string) int64 {
	t.Helper()
	id, ok := ParseSnapshotName(base + "-0000000000" + snapshotSuffix)
	if !ok {
		t.Fatal(base)
	}
	return id.EndOffset
}

// A log that was cleaned begins at its first snapshot in the next life too, though its first segment begins earlier.
func TestStartAfterCleaning(t *testing.T) {
	w, n, cfg := filled(t, 20, 25)
	if err := n.Disk().RemoveFile(SnapshotPath(cfg.LogDir(), bootstrapID)); err != nil {
		t.Fatal(err)
	}
	if start, end, err := reopen(w, n, cfg); start != 20 || end != 33 || err != nil {
		t.Errorf("the log is %d..%d, %v", start, end, err)
	}
}

// A snapshot ahead of the log, as after it was fetched, replaces the log.
func TestSnapshotAheadOfLog(t *testing.T) {
	w, n, cfg := filled(t)
	_, n2, _ := filled(t, 30)
	b, err := n2.Disk().ReadFile(SnapshotPath(cfg.LogDir(), SnapshotID{30, 1}))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Disk().WriteFile(SnapshotPath(cfg.LogDir(), SnapshotID{50, 2}), b, 0o400); err != nil {
		t.Fatal(err)
	}
	if start, end, err := reopen(w, n, cfg); start != 50 || end != 50 || err != nil {
		t.Errorf("the log is %d..%d, %v", start, end, err)
	}
	if got := segmentsOf(n, cfg); !slices.Equal(got, []string{"00000000000000000050"}) {
		t.Errorf("segments left: %v", got)
	}
}

// What was to be written before a failed write is missing: such a snapshot never gets its name.
func TestSnapshotAfterFailedWrite(t *testing.T) {
	_, n, cfg := standalone(t)
	sw, err := newSnapshotWriter(n.FS(), cfg.LogDir(), SnapshotID{7, 1}, SnapshotHead{}, snapshotOptions{suffix: "x", maxBatch: 100, clock: func() int64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	n.Disk().SetFaults(sim.DiskFaults{WriteError: 1})
	if err := sw.Append(noOps(50)); err == nil {
		t.Error("no error of a failed write")
	}
	n.Disk().SetFaults(sim.DiskFaults{})
	if err := sw.Freeze(); err == nil {
		t.Error("frozen after a failed write")
	}
	if err := sw.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range n.Disk().Files() {
		if strings.Contains(name, "00000000000000000007") {
			t.Errorf("%s was left", name)
		}
	}
}
