package image

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/uuid"
)

// direct is an env whose queues and jobs run at once, and whose clock a test moves.
type direct struct {
	env.Env
	now time.Duration
}

func (d *direct) Monotonic() time.Duration   { return d.now }
func (d *direct) NewQueue(string) env.Queue  { return directQueue{} }
func (d *direct) Logger() *slog.Logger       { return slog.New(slog.DiscardHandler) }
func (d *direct) Go(_ string, fn func())     { fn() }
func (directQueue) Post(_ string, fn func()) { fn() }
func (directQueue) Close(done func())        { done() }
func (h hwFunc) HighWatermark() int64        { return h() }
func (s *snap) ID() raft.SnapshotID          { return s.id }
func (s *snap) LastContainedLogTime() int64  { return 77 }
func (s *snap) Close() error                 { s.closed = true; return nil }
func (s *snap) Next() (raft.Batch, bool, error) {
	if len(s.batches) == 0 {
		return raft.Batch{}, false, s.err
	}
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b, true, nil
}

type (
	directQueue struct{ env.Queue }
	hwFunc      func() int64
	snap        struct {
		id      raft.SnapshotID
		batches []raft.Batch
		err     error
		closed  bool
	}
)

// witness writes down what it is told.
type witness struct {
	name string
	log  *[]string
}

func (w witness) Name() string { return w.name }

func (w witness) OnMetadataUpdate(d *Delta, img *Image, m Manifest) {
	var topics []string
	for t := range img.Topics.All() {
		topics = append(topics, t.Name)
	}
	var changed []string
	for _, td := range d.Topics().Changed() {
		changed = append(changed, td.New.Name)
	}
	for _, t := range d.Topics().Deleted() {
		changed = append(changed, "-"+t.Name)
	}
	s := fmt.Sprintf("%s @%d %v from %d: %v", w.name, img.Provenance.Offset, topics, d.Base().Provenance.Offset, changed)
	if m.Snapshot {
		s += " snapshot"
	}
	if !img.Provenance.BatchAligned {
		s += " inside a batch"
	}
	*w.log = append(*w.log, s)
}

func (w witness) OnControllerChange(l raft.LeaderAndEpoch) {
	*w.log = append(*w.log, fmt.Sprintf("%s leader %d epoch %d", w.name, l.LeaderID, l.Epoch))
}

// world is a loader, its log and a witness.
type world struct {
	t      *testing.T
	env    *direct
	l      *Loader
	end    int64 // of the log
	hw     int64
	events []string
	faults []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, env: &direct{}, hw: -1}
	w.l = NewLoader(w.env, hwFunc(func() int64 { return w.hw }), LoaderOptions{OnFault: func(err error) { w.faults = append(w.faults, err.Error()) }})
	return w
}

// batch makes the next batch of the log. Words: topics to create, -name to delete one, begin, end, abort, noop.
func (w *world) batch(words string) raft.Batch {
	b := raft.Batch{BaseOffset: w.end, Epoch: 3, AppendTime: 1000 + w.end, Bytes: 100}
	for word := range strings.FieldsSeq(words) {
		var rec metadata.Record
		switch word {
		case "begin":
			rec = &metadata.BeginTransactionRecord{}
		case "end":
			rec = &metadata.EndTransactionRecord{}
		case "abort":
			rec = &metadata.AbortTransactionRecord{}
		case "noop":
			rec = &metadata.NoOpRecord{}
		default:
			if name, ok := strings.CutPrefix(word, "-"); ok {
				rec = &metadata.RemoveTopicRecord{TopicId: uuid.UUID{name[0]}}
			} else {
				rec = &metadata.TopicRecord{Name: word, TopicId: uuid.UUID{word[0]}}
			}
		}
		b.Records = append(b.Records, metadata.Versioned{Record: rec})
		w.end++
	}
	if words == "" { // a control batch
		w.end++
	}
	b.LastOffset = w.end - 1
	return b
}

func (w *world) commit(words ...string) {
	var batches []raft.Batch
	for _, s := range words {
		batches = append(batches, w.batch(s))
	}
	w.hw = max(w.hw, w.end)
	w.l.HandleCommit(batches)
}

func (w *world) want(events ...string) {
	w.t.Helper()
	if diff := cmp.Diff(events, w.events); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
	w.events = nil
}

func TestNothingIsPublishedBeforeTheLoaderCaughtUp(t *testing.T) {
	w := newWorld(t)
	w.l.AddPublisher(witness{"a", &w.events}, witness{"b", &w.events})
	w.l.HandleLeaderChange(raft.LeaderAndEpoch{LeaderID: 1, Epoch: 3})
	w.hw = 4
	w.commit("") // the leader's control records are no reason to begin
	w.commit("x")
	w.want()
	w.commit("y z")
	w.want(
		"a @3 [x y z] from -1: [x y z] snapshot", "a leader 1 epoch 3",
		"b @3 [x y z] from -1: [x y z] snapshot", "b leader 1 epoch 3")
	w.hw = 100 // only the high watermark of the start counts
	w.commit("-y")
	w.want("a @4 [x z] from 3: [-y]", "b @4 [x z] from 3: [-y]")
	w.l.HandleLeaderChange(raft.LeaderAndEpoch{LeaderID: 2, Epoch: 4})
	w.want("a leader 2 epoch 4", "b leader 2 epoch 4")
	w.l.AddPublisher(witness{"c", &w.events})
	w.want("c @4 [x z] from -1: [x z] snapshot", "c leader 2 epoch 4")
	w.l.RemovePublisher(witness{"a", &w.events}, nil)
	w.commit("noop")
	w.want("b @5 [x z] from 4: []", "c @5 [x z] from 4: []")
}

func TestControlRecordsAloneAreNotCaughtUp(t *testing.T) {
	w := newWorld(t)
	w.l.AddPublisher(witness{"a", &w.events})
	w.hw = 1
	w.commit("")
	w.want()
	w.commit("noop")
	w.want("a @1 [] from -1: [] snapshot", "a leader -1 epoch 0")
}

func TestTransactions(t *testing.T) {
	w := newWorld(t)
	w.hw = 0
	w.commit("noop")
	w.l.AddPublisher(witness{"a", &w.events})
	w.events = nil

	w.commit("begin x end y") // one batch
	w.want("a @4 [x y] from 0: [x y]")
	w.commit("begin", "z") // 5, 6
	w.want()
	w.commit("p")
	w.want()
	w.commit("end")
	w.want("a @8 [p x y z] from 4: [p z]")
	w.commit("q begin r") // 9: published, 10, 11: not
	w.want("a @9 [p q x y z] from 8: [q] inside a batch")
	w.commit("abort s")
	w.want("a @13 [p q s x y z] from 9: [s]")
	w.commit("-q begin r", "end")
	w.want("a @14 [p s x y z] from 13: [-q] inside a batch", "a @17 [p r s x y z] from 14: [r]")
	w.commit("begin -r", "abort")
	w.want("a @20 [p r s x y z] from 17: []")
	if w.faults != nil {
		t.Errorf("faults: %q", w.faults)
	}
}

func TestFaultsAreToldAndPassed(t *testing.T) {
	w := newWorld(t)
	w.l.AddPublisher(witness{"a", &w.events})
	w.commit("x", "y x -q end abort z", "begin begin end")
	w.want("a @9 [x y z] from -1: [x y z] snapshot", "a leader -1 epoch 0")
	want := []string{"offset 2: replay TOPIC_RECORD", "offset 3: replay REMOVE_TOPIC_RECORD", "offset 4: the end", "offset 5: the abort", "offset 8: a transaction begins"}
	if len(w.faults) != len(want) {
		t.Fatalf("faults: %q", w.faults)
	}
	for i, s := range want {
		if !strings.Contains(w.faults[i], s) {
			t.Errorf("%q does not tell %q", w.faults[i], s)
		}
	}
}

func TestSnapshotReplacesTheState(t *testing.T) {
	w := newWorld(t)
	w.l.AddPublisher(witness{"a", &w.events})
	w.commit("x y")
	w.events = nil
	old := w.l.Image()
	w.commit("begin z") // open when the snapshot comes
	w.end = 0
	w.l.loadSnapshot(&snap{id: raft.SnapshotID{EndOffset: 50, Epoch: 4}, batches: []raft.Batch{w.batch(""), w.batch("x p"), w.batch("")}})
	w.want("a @49 [p x] from 1: [p -y] snapshot")
	img := w.l.Image()
	if img.Topics.ByName("x") != old.Topics.ByName("x") {
		t.Error("an equal topic is not shared")
	}
	if got, want := img.Provenance, (Provenance{Offset: 49, Epoch: 4, Time: 77, BatchAligned: true}); got != want {
		t.Errorf("provenance %+v", got)
	}
	w.end = 50
	w.commit("q")
	w.want("a @50 [p q x] from 49: [q]")

	w.end = 0
	bad := &snap{id: raft.SnapshotID{EndOffset: 90, Epoch: 4}, batches: []raft.Batch{w.batch("r")}, err: errors.New("bad CRC")}
	w.l.loadSnapshot(bad)
	w.want()
	if !bad.closed {
		t.Error("the bad snapshot was not closed")
	}
	if len(w.faults) != 1 || !strings.Contains(w.faults[0], "load snapshot 00000000000000000090-0000000004: bad CRC") {
		t.Errorf("faults: %q", w.faults)
	}
}

// memorySnapshot is a snapshot under way.
type memorySnapshot struct {
	recordList
	frozen, closed bool
	fail           error
}

func (m *memorySnapshot) Freeze() error { m.frozen = true; return m.fail }
func (m *memorySnapshot) Close() error  { m.closed = true; return nil }

func TestSnapshotGenerator(t *testing.T) {
	w := newWorld(t)
	var made []string
	last := &memorySnapshot{}
	g := NewSnapshotGenerator(w.env, 250, time.Hour, func(id raft.SnapshotID, at int64) (SnapshotWriter, error) {
		made = append(made, fmt.Sprintf("%s at %d", id, at))
		last = &memorySnapshot{}
		return last, nil
	})
	w.l.AddPublisher(g)
	w.commit("a", "b", "c") // first image: counts as a snapshot
	w.commit("d")
	w.commit("e") // 200 bytes
	if made != nil {
		t.Fatalf("made %v", made)
	}
	w.commit("f begin g") // inside a batch: not here
	w.commit("end")
	if diff := cmp.Diff([]string{"00000000000000000009-0000000003 at 1008"}, made); diff != "" {
		t.Fatal(diff)
	}
	if len(last.recordList) != 7 || !last.frozen || !last.closed {
		t.Errorf("%d records, frozen %v, closed %v", len(last.recordList), last.frozen, last.closed)
	}
	w.env.now += time.Hour - 1
	w.commit("noop")
	if len(made) != 1 {
		t.Fatalf("made %v", made)
	}
	w.env.now++
	w.commit("noop")
	if len(made) != 2 {
		t.Fatalf("not made after an hour: %v", made)
	}
}

func TestSnapshotFaults(t *testing.T) {
	g := NewSnapshotGenerator(&direct{}, 1, 0, func(raft.SnapshotID, int64) (SnapshotWriter, error) { return nil, nil })
	g.write(Empty, "it is there already")
	if g.busy.Load() {
		t.Error("still busy")
	}
	m := &memorySnapshot{fail: errors.New("disk full")}
	g.create = func(raft.SnapshotID, int64) (SnapshotWriter, error) { return m, nil }
	if err := g.writeTo(Empty, raft.SnapshotID{}); !errors.Is(err, m.fail) || !m.closed {
		t.Errorf("%v, closed %v", err, m.closed)
	}
}
