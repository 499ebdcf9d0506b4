package coordinator

import (
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// Config is what every coordinator's runtime needs to know.
type Config struct {
	Name           string             // in log lines: GroupCoordinator
	Topic          string             // the internal topic
	CommitTimeout  time.Duration      // how long an answer waits for the commit (offsets.commit.timeout.ms)
	LoadBufferSize int                // bytes read at a time while loading (offsets.load.buffer.size)
	Compression    record.Compression // of the batches (offsets.topic.compression.codec)
}

// Runtime owns the shards of one coordinator on one node. S is the coordinator's State.
type Runtime[S State] struct {
	env      env.Env
	cfg      Config
	logs     Logs
	newState func(*Shard) S
	logger   *slog.Logger

	// mu is held while an event is posted, so that none is posted to a queue that has been closed. Nothing is
	// called back under it.
	mu     sync.RWMutex
	shards map[int32]entry[S]
	closed bool
}

type entry[S State] struct {
	shard *Shard
	state S
}

// NewRuntime makes a runtime without shards. newState makes the empty state of a shard that is about to be loaded.
func NewRuntime[S State](e env.Env, cfg Config, logs Logs, newState func(*Shard) S) *Runtime[S] {
	return &Runtime[S]{
		env: e, cfg: cfg, logs: logs, newState: newState,
		logger: e.Logger().With("coordinator", cfg.Name),
		shards: make(map[int32]entry[S]),
	}
}

// Load makes this node the coordinator for a partition of which it has become the leader in leaderEpoch. An epoch
// that is not newer than the loaded one changes nothing.
func (r *Runtime[S]) Load(partition, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if old, ok := r.shards[partition]; ok {
		if old.shard.epoch >= leaderEpoch {
			return
		}
		r.drop(partition, old.shard)
	}
	logger := r.logger.With("topic", r.cfg.Topic, "partition", partition)
	logger.Info("Scheduling loading of metadata", "leaderEpoch", leaderEpoch)
	sh := &Shard{
		env: r.env, cfg: r.cfg, topic: r.cfg.Topic, partition: partition, epoch: leaderEpoch,
		queue:   r.env.NewQueue(r.cfg.Name + "-" + strconv.Itoa(int(partition))),
		logger:  logger,
		builder: record.NewBuilder(0, r.cfg.Compression),
		codec:   r.cfg.Compression,
	}
	sh.highWatermark.Store(-1)
	sh.expiry = sh.NewTimer("commit timeout", sh.expire)
	state := r.newState(sh)
	sh.state = state
	r.shards[partition] = entry[S]{sh, state}
	sh.queue.Post("load", func() { sh.start(r.logs) })
}

// Unload ends this node's being the coordinator for a partition. leaderEpoch is the epoch in which another node
// leads, or -1 when that is not known (the replica was removed): then whatever is loaded goes.
func (r *Runtime[S]) Unload(partition, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.shards[partition]
	if !ok || (leaderEpoch >= 0 && old.shard.epoch >= leaderEpoch) {
		return
	}
	r.drop(partition, old.shard)
}

func (r *Runtime[S]) drop(partition int32, sh *Shard) {
	sh.logger.Info("Scheduling unloading of metadata", "leaderEpoch", sh.epoch)
	delete(r.shards, partition)
	sh.status.Store(int32(closed))
	sh.queue.Post("unload", sh.unload)
	sh.queue.Close(func() {})
}

// Do runs event on the queue of a partition's shard, or refuse with NotCoordinator or CoordinatorLoadInProgress:
// exactly one of them, and neither before Do has let go of its lock.
func (r *Runtime[S]) Do(partition int32, name string, event func(S), refuse func(error)) {
	if err := r.post(partition, name, event, refuse); err != nil {
		refuse(err)
	}
}

func (r *Runtime[S]) post(partition int32, name string, event func(S), refuse func(error)) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.shards[partition]
	if !ok {
		return kerr.NotCoordinator
	}
	if err := status(e.shard.status.Load()).refusal(); err != nil {
		return err
	}
	e.shard.queue.Post(name, func() {
		if err := status(e.shard.status.Load()).refusal(); err != nil {
			refuse(err)
			return
		}
		event(e.state)
	})
	return nil
}

// Partitions lists the partitions whose coordinator this node is or is about to be, ascending.
func (r *Runtime[S]) Partitions() []int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ps := make([]int32, 0, len(r.shards))
	for p := range r.shards {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

// Close unloads everything, for good, and calls done when the last shard has answered all who waited.
func (r *Runtime[S]) Close(done func()) {
	r.mu.Lock()
	r.closed = true
	var queues []env.Queue
	ps := make([]int32, 0, len(r.shards))
	for p := range r.shards {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	for _, p := range ps {
		sh := r.shards[p].shard
		delete(r.shards, p)
		sh.status.Store(int32(closed))
		sh.queue.Post("unload", sh.unload)
		queues = append(queues, sh.queue)
	}
	r.mu.Unlock()
	closeAll(queues, done)
}

// closeAll closes one queue after the other.
func closeAll(queues []env.Queue, done func()) {
	if len(queues) == 0 {
		done()
		return
	}
	queues[0].Close(func() { closeAll(queues[1:], done) })
}
