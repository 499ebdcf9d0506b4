package controller

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
)

// Quorum is what a controller needs from raft. Any goroutine.
type Quorum interface {
	// PrepareAppend gives records their offsets as one batch and returns the last one. Nothing is sent before
	// SchedulePreparedAppend. Errors: raft.ErrNotLeader, raft.ErrEpochFenced, raft.ErrBatchTooLarge.
	PrepareAppend(epoch int32, records []metadata.Versioned) (last int64, err error)
	SchedulePreparedAppend()
	Resign(epoch int32)
	LeaderAndEpoch() raft.LeaderAndEpoch
	LogEndOffset() int64
	KRaftVersion() int16
	// UpgradeKRaftVersion appends the new level before it returns; what is appended later is committed later. Errors:
	// raft.ErrNotLeader, raft.ErrEpochFenced, *raft.UpgradeError.
	UpgradeKRaftVersion(epoch int32, level int16, validateOnly bool) error
	Voters() *raft.VoterSet
}

// Controller is a controller of the quorum, active or standing by. Its handlers may be called from any goroutine;
// everything else runs on its queue.
type Controller struct {
	env    env.Env
	cfg    Config
	log    *slog.Logger
	quorum Quorum
	queue  env.Queue

	state *state
	// claimEpoch is the epoch in which this controller is active, -1 if it is not.
	claimEpoch int32
	// lastStable <= lastCommitted: committed, and not in an open metadata transaction. The registry has snapshots of
	// both: what answers are made from, and what a renounced leadership goes back to.
	lastCommitted, lastStable int64
	// nextOffset is where the next record goes, as far as the active controller knows; lastAppended what it wrote last.
	nextOffset, lastAppended int64
	deferred                 []deferred
	periodic                 *periodic
	bootstrap                []metadata.Versioned
	closed                   bool

	// tracker is nil unless active. Heartbeats touch it before they get on the queue.
	tracker atomic.Pointer[tracker]
}

var _ raft.Listener = (*Controller)(nil)

// New returns a controller that stands by. Register it with raft, which tells it all else.
func New(e env.Env, cfg Config, q Quorum) *Controller {
	c := &Controller{
		env: e, cfg: cfg, log: e.Logger().With("component", "QuorumController"), quorum: q,
		queue:      e.NewQueue("controller"),
		claimEpoch: -1, lastCommitted: -1, lastStable: -1, nextOffset: -1, lastAppended: -1,
		bootstrap: cfg.Bootstrap,
	}
	c.state = c.newState()
	c.state.registry.Snapshot(-1)
	c.periodic = newPeriodic(c)
	c.log.Info("Creating new QuorumController with clusterId " + cfg.ClusterID)
	return c
}

// Shutdown ends the controller: what is queued is run, what waits is answered with an error, then done is called.
func (c *Controller) Shutdown(done func()) {
	c.queue.Post("shutdown", func() {
		c.closed = true
		if c.claimEpoch >= 0 {
			c.renounce()
		}
		c.log.Info("QuorumController is shut down.")
	})
	c.queue.Close(done)
}

// Active reports whether this controller is the active one. Any goroutine; it may be outdated when it is looked at.
func (c *Controller) Active() bool { return c.tracker.Load() != nil }

// HandleCommit takes in what is committed. The active controller has replayed it before, and answers those who waited
// for it; one that stands by replays it now. For raft.
func (c *Controller) HandleCommit(batches []raft.Batch) {
	c.post("handleCommit", func() {
		for i := range batches {
			c.commit(&batches[i])
		}
	})
}

func (c *Controller) commit(b *raft.Batch) {
	if len(b.Records) == 0 {
		return // control records
	}
	if c.claimEpoch < 0 {
		for i, v := range b.Records {
			if err := c.replay(v.Record, b.BaseOffset+int64(i), false); err != nil {
				panic(fmt.Sprintf("controller: apply %T at offset %d on standby controller, from the batch with base offset %d: %v", v.Record, b.BaseOffset+int64(i), b.BaseOffset, err))
			}
		}
	}
	c.lastCommitted = b.LastOffset
	stable := c.lastCommitted
	if c.claimEpoch < 0 {
		c.state.registry.Snapshot(c.lastCommitted)
	}
	// What the active controller has open it did not commit yet: look at what was open as of the commit.
	if start := c.state.transactionStart.GetAt(c.lastCommitted); start >= 0 {
		stable = min(stable, start-1)
	}
	if stable > c.lastStable {
		c.lastStable = stable
		c.state.registry.DeleteUpTo(stable)
	}
	if c.claimEpoch >= 0 {
		c.completeUpTo(c.lastStable)
	}
}

// HandleLoadSnapshot replaces the state by a snapshot's. For raft.
func (c *Controller) HandleLoadSnapshot(r *raft.SnapshotReader) {
	c.post("handleLoadSnapshot", func() {
		id := r.ID()
		if c.claimEpoch >= 0 {
			panic(fmt.Sprintf("controller: asked to load snapshot %d-%d, but we are the active controller at epoch %d", id.EndOffset, id.Epoch, c.claimEpoch))
		}
		c.log.Info(fmt.Sprintf("Starting to load snapshot %020d-%010d. Previous lastCommittedOffset was %d.", id.EndOffset, id.Epoch, c.lastCommitted))
		c.loadSnapshot(id.EndOffset, func() ([]metadata.Versioned, bool, error) {
			b, ok, err := r.Next()
			return b.Records, ok, err
		})
		c.log.Info(fmt.Sprintf("Successfully loaded snapshot %020d-%010d.", id.EndOffset, id.Epoch))
	})
}

func (c *Controller) loadSnapshot(endOffset int64, next func() ([]metadata.Versioned, bool, error)) {
	c.state = c.newState()
	last := endOffset - 1
	for {
		records, ok, err := next()
		if err != nil {
			panic(fmt.Sprintf("controller: read snapshot %d: %v", endOffset, err))
		}
		if !ok {
			break
		}
		for _, v := range records {
			if err := c.replay(v.Record, last, true); err != nil {
				panic(fmt.Sprintf("controller: apply %T of snapshot %d: %v", v.Record, endOffset, err))
			}
		}
	}
	c.lastCommitted, c.lastStable = last, last
	c.nextOffset, c.lastAppended = -1, -1
	c.state.registry.Snapshot(last)
}

// HandleLoadBootstrap tells the records that a formatted folder has for a new cluster. For raft.
func (c *Controller) HandleLoadBootstrap(records []metadata.Versioned) {
	c.post("handleLoadBootstrap", func() {
		if len(records) > 0 {
			c.bootstrap = records
		}
	})
}

// HandleLeaderChange tells who leads. For raft, which tells a leader of its own leadership only when all before it is
// committed and was told.
func (c *Controller) HandleLeaderChange(l raft.LeaderAndEpoch) {
	c.post("handleLeaderChange", func() {
		name := "(none)"
		if l.LeaderID >= 0 {
			name = fmt.Sprint(l.LeaderID)
		}
		us := l.LeaderID == c.cfg.NodeID
		switch {
		case c.claimEpoch >= 0 && us && l.Epoch == c.claimEpoch:
		case c.claimEpoch >= 0 && us:
			c.log.Warn(fmt.Sprintf("We were the leader in epoch %d, and are still the leader in the new epoch %d.", c.claimEpoch, l.Epoch))
			c.claimEpoch = l.Epoch
		case c.claimEpoch >= 0:
			c.log.Warn(fmt.Sprintf("Renouncing the leadership due to a metadata log event. We were the leader at epoch %d, but in the new epoch %d, the leader is %s. Reverting to last stable offset %d.",
				c.claimEpoch, l.Epoch, name, c.lastStable))
			c.renounce()
		case us && !c.closed:
			c.claim(l.Epoch)
		default:
			c.log.Info(fmt.Sprintf("In the new epoch %d, the leader is %s.", l.Epoch, name))
		}
	})
}
