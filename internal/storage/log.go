package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Log is the log of one partition: segments in a folder. start <= high watermark <= end; recovery point <= end.
type Log struct {
	env     env.Env
	fsys    env.FS
	files   *OpenFiles
	tp      TopicPartition
	topicID uuid.UUID
	logger  *slog.Logger
	// keepIndexes: at a close in order indexes stay as large as they are, as those of the metadata log do.
	keepIndexes bool
	onFailure   func(error) // told once; may be nil
	onDirty     func(*Log)  // leader epochs changed and are not on disk; may be nil
	// onRetreat is called when what the checkpoints say of the log has become too much, without locks; may be nil.
	onRetreat func() error

	cfg atomic.Pointer[LogConfig]

	// mu is held by whoever changes the log.
	mu        sync.Mutex
	dir       string
	epochs    *leaderEpochs
	producers *producers
	unsynced  []*segment // sealed, and not durable with their indexes yet
	names     uint64     // changes of names in the folder so far
	synced    uint64     // so many of them are durable
	lastFlush int64      // ms
	// snapshotted is the offset of the newest producer snapshot if that says all that is known of producers up to there; else -1.
	snapshotted int64
	closed      bool
	failure     error
	sealed      bool // closed in order: all is durable, indexes included

	recoveryPoint atomic.Int64 // everything below is durable
	noted         atomic.Int64 // the recovery point in the checkpoint file
	start         atomic.Int64
	high          atomic.Int64 // the high watermark
	// undecided is where the first transaction begins that is not decided below the high watermark; the largest int64 if there
	// is none. waiting says that one is only waiting for the high watermark.
	undecided atomic.Int64
	waiting   atomic.Bool
	// flushMu is held through a flush, and before mu by whoever takes segments or a part of one away: what is being synced stays.
	flushMu sync.Mutex
	// cleanMu is held through each step of a cleaning, and before flushMu by whoever ends the log or cuts it off: what is being
	// cleaned stays what it was.
	cleanMu  sync.Mutex
	cleaning *cleaning // under way; guarded by cleanMu
	cuts     uint64    // so often the log was cut off; guarded by cleanMu
	// cleaned is the offset below which the cleaner has looked at everything, -1 if it never came by.
	cleaned atomic.Int64

	// published is what readers see. It is replaced under pub, which is held for a few instructions only.
	pub       sync.Mutex
	published view
	recent    [4]place // where the last reads ended
	nextPlace int
}

// view is a log as a reader sees it.
type view struct {
	segments []*segment // never empty, by base; not changed in place
	size     int64      // of the last one
	end      int64
	// generation counts the times that something was taken away. Positions of another generation mean nothing.
	generation uint64
}

// place is where the batch begins that holds offset, or that comes first behind it.
type place struct {
	offset   int64
	segment  *segment
	position int64
}

func (l *Log) view() view {
	l.pub.Lock()
	defer l.pub.Unlock()
	return l.published
}

// publish shows readers what was added.
func (l *Log) publish(v view) {
	l.pub.Lock()
	l.published = v
	l.pub.Unlock()
}

// retract shows readers a state with something taken away. It comes before files change: a reader pins a file, and then looks
// whether what it knew of it still holds.
func (l *Log) retract(v view) {
	l.pub.Lock()
	v.generation = l.published.generation + 1
	l.published = v
	l.recent = [len(l.recent)]place{}
	l.pub.Unlock()
}

// steady repeats a read during which something was taken away.
func (l *Log) steady(read func(v view) error) error {
	for {
		v := l.view()
		err := read(v)
		if l.view().generation == v.generation {
			return l.explain(err)
		}
	}
}

// explain says of a read that found a file closed that the log is.
func (l *Log) explain(err error) error {
	if !errors.Is(err, fs.ErrClosed) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unusable()
}

// bytes are those of all segments.
func (v view) bytes() int64 {
	n := v.size
	for _, s := range v.segments[:len(v.segments)-1] {
		n += s.size.Load()
	}
	return n
}

func (v view) active() *segment { return v.segments[len(v.segments)-1] }

// find is the index of the segment that offset lies in; -1 if it is below all.
func (v view) find(offset int64) int {
	i, exact := slices.BinarySearchFunc(v.segments, offset, func(s *segment, offset int64) int {
		switch {
		case s.base < offset:
			return -1
		case s.base > offset:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	return i
}

// bounds are the size of segment i and the offset behind it.
func (v view) bounds(i int) (size, end int64) {
	if i == len(v.segments)-1 {
		return v.size, v.end
	}
	return v.segments[i].size.Load(), v.segments[i+1].base
}

// TopicPartition is whose log this is.
func (l *Log) TopicPartition() TopicPartition { return l.tp }

// TopicID is the id of the topic; zero if the folder does not say.
func (l *Log) TopicID() uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topicID
}

// adopt gives a log the id of its topic: a new one, or one from whose folder a crash has taken it.
func (l *Log) adopt(id uuid.UUID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := WritePartitionMetadata(l.fsys, l.dir, id); err != nil {
		return l.check(err)
	}
	l.topicID, l.synced = id, l.names
	return nil
}

// StartOffset is where the log begins for readers.
func (l *Log) StartOffset() int64 { return l.start.Load() }

// EndOffset is the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.view().end }

// HighWatermark is the offset below which everything is committed.
func (l *Log) HighWatermark() int64 { return l.high.Load() }

// LastStableOffset is where the first transaction begins that is not decided, or the high watermark. Of a transaction that begins
// below the start of the log only the rest counts.
func (l *Log) LastStableOffset() int64 {
	return min(l.high.Load(), max(l.start.Load(), l.undecided.Load()))
}

// SetHighWatermark moves the high watermark, at most to the end.
func (l *Log) SetHighWatermark(offset int64) {
	l.high.Store(min(offset, l.EndOffset()))
	if l.waiting.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.producers.onHighWatermark(l.high.Load())
		l.noteUndecided()
	}
}

// noteUndecided shows readers what the producer state says. mu is held.
func (l *Log) noteUndecided() {
	first, ok := l.producers.firstUndecided()
	if !ok {
		first = math.MaxInt64
	}
	l.undecided.Store(first)
	l.waiting.Store(len(l.producers.ended) > 0)
}

// Configure changes the settings.
func (l *Log) Configure(c LogConfig) { l.cfg.Store(&c) }

// Deletable says that cleanup.policy contains delete.
func (l *Log) Deletable() bool { return l.cfg.Load().Delete }

// Size is the bytes of all segments.
func (l *Log) Size() int64 { return l.view().bytes() }

// LatestEpoch is the leader epoch that began last, -1 if none is known.
func (l *Log) LatestEpoch() int32 { return l.epochs.latest() }

// EndOffsetForEpoch gives the largest epoch up to epoch that the log knows, and where it ended; -1, -1 if there is none, or if
// epoch is larger than all (KIP-279).
func (l *Log) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return l.epochs.endOffsetFor(epoch, l.EndOffset())
}

// EpochAt is the leader epoch of the record at offset, -1 if it is not known.
func (l *Log) EpochAt(offset int64) int32 { return l.epochs.at(offset) }

// AssignEpochStart notes that an epoch begins at offset, if it is newer than the last.
func (l *Log) AssignEpochStart(epoch int32, offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		return l.failure
	}
	if epoch > l.epochs.latest() {
		l.assignEpoch(epoch, offset)
	}
	return nil
}

// assignEpoch notes an epoch; the file follows. mu is held.
func (l *Log) assignEpoch(epoch int32, offset int64) {
	if l.epochs.assign(epoch, offset) && l.onDirty != nil {
		l.onDirty(l)
	}
}

// FlushEpochs writes leader-epoch-checkpoint if it is outdated.
func (l *Log) FlushEpochs() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.failure != nil {
		return l.failure
	}
	return l.check(l.epochs.flush())
}

// Producers are the idempotent producers that the log knows, by id.
func (l *Log) Producers() []Producer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.all()
}

// InTransaction reports whether a producer has a transaction open here, in this epoch.
func (l *Log) InTransaction(producer int64, epoch int16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.producers.entries[producer]
	return e != nil && e.epoch == epoch && e.txnStart >= 0
}

// ExpireProducers forgets producers that were silent for producer.id.expiration.ms.
func (l *Log) ExpireProducers(nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.expiry = l.cfg.Load().ProducerExpiry
	l.producers.expire(nowMs)
}

// noteRecoveryPoint is the offset below which everything is durable, indexes included: where recovery begins after a crash. The caller
// writes it into the checkpoint.
func (l *Log) noteRecoveryPoint() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.recoverFrom()
	l.noted.Store(p)
	return p
}

func (l *Log) recoverFrom() int64 {
	p := l.recoveryPoint.Load()
	if !l.sealed {
		// Of the last segment only the records are flushed. It is recovered after a crash whatever is noted; but if it was not the last
		// any more when the power failed, its indexes would count as durable.
		p = min(p, l.published.active().base)
	}
	if len(l.unsynced) > 0 {
		p = min(p, l.unsynced[0].base)
	}
	return p
}

// check makes an error of the disk the end of the log. mu is held.
func (l *Log) check(err error) error {
	if err == nil || l.failure != nil {
		return errors.Join(l.failure, err)
	}
	l.failure = fmt.Errorf("log of %s: %w: %w", l.tp, kerr.KafkaStorageError, err)
	l.logger.Error("The log cannot be used any more", "partition", l.tp, "dir", l.dir, "err", err)
	if l.onFailure != nil {
		l.onFailure(l.failure)
	}
	return l.failure
}

// path is a file in the log's folder.
func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }
