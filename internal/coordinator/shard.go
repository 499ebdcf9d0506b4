package coordinator

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

type status int32

const (
	loading status = iota
	active
	failed // the log could not be read; a new election may help
	closed
)

// refusal is what an event is told while the shard does not take any.
func (s status) refusal() error {
	switch s {
	case active:
		return nil
	case loading:
		return kerr.CoordinatorLoadInProgress
	default:
		return kerr.NotCoordinator
	}
}

// waiting is an answer that rests on everything below offset being committed.
type waiting struct {
	offset   int64
	deadline time.Duration
	done     func(error)
}

// Shard is one partition of the coordinator's topic, while this node leads it. Except for status, everything
// belongs to the queue.
type Shard struct {
	env       env.Env
	cfg       Config
	topic     string
	partition int32
	epoch     int32
	queue     env.Queue
	logger    *slog.Logger
	status    atomic.Int32

	log    Log
	state  State
	loaded bool // state.Loaded was called
	load   load

	builder *record.Builder
	codec   record.Compression

	// committed <= written, except that markers and batches of others may move the high watermark beyond.
	written   int64 // offset after the last record that was appended or loaded, and replayed
	committed int64 // high watermark as last seen

	deferred []waiting // offsets and deadlines do not fall
	expiry   *Timer    // of deferred[0]

	highWatermark atomic.Int64 // the newest told
	told          atomic.Bool  // an event that will read highWatermark is queued
	removeWatch   func()
}

// Env is the node's environment.
func (sh *Shard) Env() env.Env { return sh.env }

// Now is the wall clock.
func (sh *Shard) Now() time.Time { return sh.env.Now() }

// Logger names the partition.
func (sh *Shard) Logger() *slog.Logger { return sh.logger }

// Partition is the shard's partition of the coordinator's topic.
func (sh *Shard) Partition() int32 { return sh.partition }

// NewTimer makes a timer that runs fn on the shard's queue; it does not run yet.
func (sh *Shard) NewTimer(name string, fn func()) *Timer {
	return &Timer{queue: sh.queue, now: sh.env.Monotonic, name: name, fn: fn}
}

// Append writes records as one batch and returns the offset of the first. It does not replay them and does not
// wait. The error is a protocol error, in the words of a coordinator: NotCoordinator, CoordinatorNotAvailable,
// UnknownServerError; nothing was written then.
func (sh *Shard) Append(records []Record) (first int64, err error) {
	if len(records) == 0 {
		return 0, fmt.Errorf("append to %s-%d: no records", sh.topic, sh.partition)
	}
	if status(sh.status.Load()) != active {
		return 0, kerr.NotCoordinator
	}
	now := sh.env.Now().UnixMilli()
	sh.builder.Reset(0, sh.codec)
	sh.builder.SetSequence(0) // as Kafka's coordinator does, without a producer
	for _, r := range records {
		sh.builder.Append(now, r.Key, r.Value)
	}
	batch, err := sh.builder.Build()
	if err != nil {
		return 0, fmt.Errorf("append to %s-%d: %w", sh.topic, sh.partition, err)
	}
	last, err := sh.log.AppendAsLeader(sh.epoch, batch)
	if err != nil {
		sh.logger.Warn("Failed to append to the coordinator's partition", "error", err)
		return 0, AppendError(err)
	}
	sh.written = last + 1
	return last + 1 - int64(len(records)), nil
}

// Write appends records as one batch, replays them, and calls done when they are committed, or cannot be
// any longer. Without records it is WhenCommitted.
func (sh *Shard) Write(records []Record, done func(error)) {
	if len(records) > 0 {
		first, err := sh.Append(records)
		if err != nil {
			done(err)
			return
		}
		for i, r := range records {
			err := sh.state.Replay(first+int64(i), record.NoProducerID, record.NoProducerEpoch, r.Key, r.Value)
			if err != nil {
				// What we write we can read back: anything else is a bug of ours, and going on would answer from
				// a state that no successor will have.
				panic(fmt.Sprintf("coordinator %s-%d cannot replay its own record at offset %d: %v", sh.topic, sh.partition, first+int64(i), err))
			}
		}
	}
	sh.WhenCommitted(done)
}

// WhenCommitted calls done when everything that was written until now is committed: at once if it is. The error is
// CoordinatorNotAvailable after Config.CommitTimeout, although the records may be committed later, and
// NotCoordinator when the shard is unloaded before.
func (sh *Shard) WhenCommitted(done func(error)) {
	if status(sh.status.Load()) != active {
		done(kerr.NotCoordinator)
		return
	}
	if sh.committed < sh.written {
		sh.advance(sh.log.HighWatermark())
	}
	if len(sh.deferred) == 0 && sh.committed >= sh.written {
		done(nil)
		return
	}
	sh.deferred = append(sh.deferred, waiting{sh.written, sh.env.Monotonic() + sh.cfg.CommitTimeout, done})
	if !sh.expiry.Running() {
		sh.expiry.Reset(sh.cfg.CommitTimeout)
	}
}

// watch is told of high watermarks from any goroutine. One queued event serves all that come before it runs.
func (sh *Shard) watch(highWatermark int64) {
	for {
		old := sh.highWatermark.Load()
		if highWatermark <= old {
			return
		}
		if sh.highWatermark.CompareAndSwap(old, highWatermark) {
			break
		}
	}
	if sh.told.CompareAndSwap(false, true) {
		sh.queue.Post("high watermark", func() {
			sh.told.Store(false)
			sh.advance(sh.highWatermark.Load())
		})
	}
}

// advance answers all who waited for what is now committed.
func (sh *Shard) advance(highWatermark int64) {
	if highWatermark > sh.committed {
		sh.committed = highWatermark
	}
	for len(sh.deferred) > 0 && sh.deferred[0].offset <= sh.committed {
		sh.pop()(nil)
	}
	if len(sh.deferred) == 0 && sh.expiry.Running() {
		sh.expiry.Stop()
	}
}

func (sh *Shard) pop() func(error) {
	done := sh.deferred[0].done
	sh.deferred[0] = waiting{}
	sh.deferred = sh.deferred[1:]
	if len(sh.deferred) == 0 {
		sh.deferred = nil
	}
	return done
}

// expire tells those who have waited too long.
func (sh *Shard) expire() {
	now := sh.env.Monotonic()
	for len(sh.deferred) > 0 && sh.deferred[0].deadline <= now {
		sh.pop()(kerr.CoordinatorNotAvailable)
	}
	if len(sh.deferred) > 0 {
		sh.expiry.Reset(sh.deferred[0].deadline - now)
	}
}

// unload ends the shard: nothing follows it on the queue but refusals.
func (sh *Shard) unload() {
	if sh.removeWatch != nil {
		sh.removeWatch()
		sh.removeWatch = nil
	}
	if sh.loaded {
		sh.state.Unloaded()
	}
	for len(sh.deferred) > 0 {
		sh.pop()(kerr.NotCoordinator)
	}
	sh.expiry.Stop()
	sh.logger.Info("Finished unloading metadata", "leaderEpoch", sh.epoch)
}

// appendErrors is what a client of the coordinator is told of an error of its partition.
var appendErrors = map[int16]error{
	kerr.UnknownTopicOrPartition.Code:      kerr.CoordinatorNotAvailable,
	kerr.NotEnoughReplicas.Code:            kerr.CoordinatorNotAvailable,
	kerr.NotEnoughReplicasAfterAppend.Code: kerr.CoordinatorNotAvailable,
	kerr.RequestTimedOut.Code:              kerr.CoordinatorNotAvailable,
	kerr.NotLeaderOrFollower.Code:          kerr.NotCoordinator,
	kerr.FencedLeaderEpoch.Code:            kerr.NotCoordinator,
	kerr.KafkaStorageError.Code:            kerr.NotCoordinator,
}

// AppendError turns the error of a partition into what a client of the coordinator understands.
func AppendError(err error) error {
	if e, ok := appendErrors[kerr.Code(err)]; ok {
		return e
	}
	return kerr.UnknownServerError
}
