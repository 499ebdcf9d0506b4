package group

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/coordinator/memlog"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// TestLoading: while a partition is loaded, batch by batch here, requests are told so at once; an older election changes
// nothing, a newer one loads again.
func TestLoading(t *testing.T) {
	w := loadKafka(t)
	want := w.state()
	cfg := testConfig()
	cfg.LoadBufferSize = 1
	w.svc = NewService(w.clock, cfg, Deps{Topics: w.topics, Logs: w.logs})
	heartbeat := func() (code int16) {
		code = -2
		req := protocol.NewHeartbeatRequest()
		req.GroupId = "g-classic"
		(&ourSide{w: w}).send(protocol.KeyHeartbeat, 4, req, func(r protocol.Response) { code = r.(*protocol.HeartbeatResponse).ErrorCode })
		return code
	}
	commit := func() (code int16) {
		code = -2
		req := protocol.NewOffsetCommitRequest()
		req.GroupId = "g-classic"
		topic := protocol.NewOffsetCommitRequestTopic()
		topic.Name, topic.Partitions = "codecs", []protocol.OffsetCommitRequestPartition{protocol.NewOffsetCommitRequestPartition()}
		topic.Partitions[0].CommittedMetadata = new(string)
		req.Topics = append(req.Topics, topic)
		(&ourSide{w: w}).send(protocol.KeyOffsetCommit, 8, req, func(r protocol.Response) {
			code = r.(*protocol.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		})
		return code
	}
	if h, c := heartbeat(), commit(); h != kerr.NotCoordinator.Code || c != kerr.NotCoordinator.Code {
		t.Errorf("before the election: heartbeat %s, commit %s", kerr.Name(h), kerr.Name(c))
	}
	w.svc.OnElection(0, 5)
	w.svc.OnElection(1, 5)
	told := 0
	for heartbeat() != -2 { // then it is asked of the shard, which answers later
		if h, c := heartbeat(), commit(); h != 0 || c != kerr.CoordinatorLoadInProgress.Code {
			t.Fatalf("while loading: heartbeat %s, commit %s", kerr.Name(h), kerr.Name(c))
		}
		told++
		if !w.clock.world.Step() {
			t.Fatal("loading has stopped")
		}
	}
	if told < 5 {
		t.Errorf("told %d times that the partition is being loaded", told)
	}
	w.clock.settle()
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("loaded in small chunks (-at once +small):\n%s", diff)
	}
	w.svc.OnElection(0, 5) // again
	w.svc.OnElection(0, 4) // late
	w.svc.OnResignation(0, 5)
	w.svc.OnResignation(1, 4)
	w.clock.settle()
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("after old news (-want +got):\n%s", diff)
	}
	w.svc.OnElection(0, 6)
	if got := w.state(); !strings.Contains(got, "COORDINATOR_LOAD_IN_PROGRESS") {
		t.Errorf("after a new election the old state answers:\n%s", got)
	}
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("after a new election (-want +got):\n%s", diff)
	}
	w.svc.OnResignation(0, -1)
	w.clock.settle()
	if got := commit(); got != kerr.NotCoordinator.Code {
		t.Errorf("after the replica was removed: %s", kerr.Name(got))
	}
}

// TestBrokenLog: a partition that cannot be read is nobody's coordinator.
func TestBrokenLog(t *testing.T) {
	b := record.NewBuilder(0, record.None)
	b.Append(1, offsetKey("g", "t", 0), []byte{0})
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.logs = &memlog.Logs{}
	if err := w.logs.Partition(0).Load(batch); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got, want := w.state(), "partition 0: NOT_COORDINATOR\n"; got != want {
		t.Errorf("state %q, want %q", got, want)
	}
}

// TestTransactions: what a transaction commits is pending until its marker; the later record counts, not the later marker.
func TestTransactions(t *testing.T) {
	type step struct {
		producer int64 // -1 none
		offset   int64 // of a commit; -1 a tombstone
		end      string
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  int64 // -1 nothing
		open  bool
	}{
		{"pending is not committed", []step{{7, 5, ""}}, -1, true},
		{"committed", []step{{7, 5, ""}, {7, 0, "commit"}}, 5, false},
		{"aborted", []step{{-1, 3, ""}, {7, 5, ""}, {7, 0, "abort"}}, 3, false},
		{"a plain commit after it wins", []step{{7, 5, ""}, {-1, 9, ""}, {7, 0, "commit"}}, 9, false},
		{"a plain commit before it loses", []step{{-1, 9, ""}, {7, 5, ""}, {7, 0, "commit"}}, 5, false},
		{"of two the later record wins", []step{{7, 5, ""}, {8, 6, ""}, {8, 0, "commit"}, {7, 0, "commit"}}, 6, false},
		{"one of two is still open", []step{{7, 5, ""}, {8, 6, ""}, {7, 0, "commit"}}, 5, true},
		{"a tombstone removes what is pending", []step{{7, 5, ""}, {-1, -1, ""}, {7, 0, "commit"}}, -1, false},
		{"a marker for nothing", []step{{7, 0, "commit"}}, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffsets()
			for i, st := range c.steps {
				switch {
				case st.end != "":
					o.replayEnd(st.producer, st.end == "commit")
				case st.offset < 0:
					o.replayTombstone("g", "t", 0)
				default:
					o.replayCommit(st.producer, "g", "t", 0, offset{offset: st.offset, recordOffset: int64(i)})
				}
			}
			got, ok := o.committed["g"].get("t", 0)
			if !ok {
				got.offset = -1
			}
			if got.offset != c.want || o.hasPending("g", "t", 0) != c.open {
				t.Errorf("offset %d, open %v; want %d, %v", got.offset, o.hasPending("g", "t", 0), c.want, c.open)
			}
			if !c.open && (len(o.pending) > 0 || len(o.open) > 0) && c.name != "a tombstone removes what is pending" {
				t.Errorf("left over: %v %v", o.pending, o.open)
			}
		})
	}
}

// TestPendingOffsets: an open transaction holds back stable readers, expiry and the deletion of its group's last trace.
func TestPendingOffsets(t *testing.T) {
	w := newWorld()
	b := record.NewBuilder(0, record.None)
	b.SetProducer(7, 0, 0)
	b.SetTransactional()
	b.Append(1, offsetKey("p", "t", 0), encodeValue(&protocol.OffsetCommitValue{Offset: 5, CommitTimestamp: 1}, 3))
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	w.logs = &memlog.Logs{}
	at := w.logs.Partition(PartitionFor("p", 2))
	if err := at.Load(batch); err != nil {
		t.Fatal(err)
	}
	w.start()
	ask := func(stable bool) string {
		side := &ourSide{w: w}
		req := protocol.NewOffsetFetchRequest()
		req.GroupId, req.RequireStable = "p", stable
		req.Topics = []protocol.OffsetFetchRequestTopic{{Name: "t", PartitionIndexes: []int32{0}}}
		var got string
		side.send(protocol.KeyOffsetFetch, 7, req, func(r protocol.Response) {
			p := r.(*protocol.OffsetFetchResponse).Topics[0].Partitions[0]
			got = kerr.Name(p.ErrorCode)
			if p.CommittedOffset >= 0 {
				got += " offset"
			}
		})
		side.settle()
		return got
	}
	if a, b := ask(false), ask(true); a != "NONE" || b != "UNSTABLE_OFFSET_COMMIT" {
		t.Errorf("any reader %s, stable reader %s", a, b)
	}
	w.clock.advance(testConfig().OffsetsRetention * 2)
	if !strings.Contains(w.state(), "p classic") {
		t.Error("a group with an open transaction was removed")
	}
}
