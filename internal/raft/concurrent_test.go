package raft

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// progress is a listener whose position any goroutine may ask for.
type progress struct {
	next  atomic.Int64
	epoch atomic.Int32
	leads chan struct{}
	once  sync.Once
}

func (p *progress) HandleCommit(batches []Batch) {
	last := batches[len(batches)-1]
	p.epoch.Store(last.Epoch)
	p.next.Store(last.LastOffset + 1)
}
func (p *progress) HandleLoadSnapshot(r *SnapshotReader)       { _ = r.Close() }
func (p *progress) HandleLoadBootstrap(_ []metadata.Versioned) {}
func (p *progress) HandleLeaderChange(l LeaderAndEpoch) {
	if l.LeaderID == 1 {
		p.once.Do(func() { close(p.leads) })
	}
}

// On a real disk: appends, snapshots that are written elsewhere, cleaning and questions at the same time. What -race says
// counts, and that the next life finds all of it.
func TestConcurrentUse(t *testing.T) {
	e := real.New(real.Options{Logger: slog.New(slog.DiscardHandler)})
	cfg := DefaultConfig()
	cfg.NodeID, cfg.Voter, cfg.ClusterID, cfg.MetadataDir, cfg.ListenerName = 1, true, "cluster", t.TempDir(), "CONTROLLER"
	cfg.DirectoryID, cfg.Listeners = uuid.UUID{1}, []Endpoint{{"CONTROLLER", "localhost", 9093}}
	cfg.StaticVoters = []Voter{{Key: ReplicaKey{ID: 1}, Endpoints: cfg.Listeners}}
	cfg.RetentionBytes, cfg.SegmentBytes, cfg.DeleteDelay = 30_000, 8_000, time.Millisecond
	if err := os.MkdirAll(cfg.LogDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	q, err := Open(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &progress{leads: make(chan struct{})}
	q.Register(l)
	q.Start()
	<-l.leads
	epoch := q.LeaderAndEpoch().Epoch
	var wg sync.WaitGroup
	const appends = 400
	var last atomic.Int64
	for range 2 {
		wg.Go(func() {
			for range appends / 2 {
				at, err := q.PrepareAppend(epoch, values(1, 2, 3))
				if err != nil {
					t.Error(err)
					return
				}
				q.SchedulePreparedAppend()
				for old := last.Load(); old < at && !last.CompareAndSwap(old, at); old = last.Load() {
				}
			}
		})
	}
	wg.Go(func() {
		for range 30 {
			id := SnapshotID{l.next.Load(), l.epoch.Load()}
			w, err := q.CreateSnapshot(id, time.Now().UnixMilli())
			if err != nil || w == nil {
				continue // the log went on meanwhile, or nothing is new
			}
			if err := errors.Join(w.Append(noOps(50)), w.Freeze(), w.Close()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		req := protocol.NewDescribeQuorumRequest()
		req.Topics = []protocol.DescribeQuorumRequestTopicData{{TopicName: Topic, Partitions: []protocol.DescribeQuorumRequestPartitionData{{}}}}
		for range 100 {
			answered := make(chan struct{})
			q.DescribeQuorum(&rpc.Context{APIVersion: 2}, req, func(*protocol.DescribeQuorumResponse) { close(answered) })
			<-answered
			_, _, _ = q.LogEndOffset(), q.HighWatermark(), q.Voters()
			q.LatestSnapshot()
		}
	})
	wg.Wait()
	done := make(chan struct{})
	q.Shutdown(func() { close(done) })
	<-done
	if got := q.HighWatermark(); got <= last.Load() {
		t.Errorf("shut down with high watermark %d, the last record is %d", got, last.Load())
	}

	if q, err = Open(e, cfg); err != nil {
		t.Fatal(err)
	}
	if got := q.LogEndOffset(); got <= last.Load() {
		t.Errorf("the next life finds offsets up to %d, the last record is %d", got, last.Load())
	}
	q.Start()
	done = make(chan struct{})
	q.Shutdown(func() { close(done) })
	<-done
}
