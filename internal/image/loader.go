package image

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
)

// HighWatermark tells how much of the metadata log is committed; -1 as long as that is not known. Any goroutine may call it.
type HighWatermark interface{ HighWatermark() int64 }

// Loader follows the committed metadata log, keeps the image of it and hands every new one to its publishers. It is a core: all
// it does happens on its own queue.
//
// Until it has seen what was committed when it started it publishes nothing: a broker must not act on the past. A
// metadata transaction is published as a whole at its end, or not at all.
type Loader struct {
	env     env.Env
	queue   env.Queue
	hw      HighWatermark
	onFault func(error)

	image     atomic.Pointer[Image] // written on the queue only
	delta     *Delta                // on top of image
	offset    int64                 // last replayed; image's offset <= offset
	epoch     int32
	time      int64
	batches   int // replayed since image
	bytes     int64
	elapsed   time.Duration
	inTxn     bool // a metadata transaction is open: delta holds its records
	seen      bool // a record was replayed: the log is more than its leader's control records
	catchUp   bool // still behind the high watermark of the start
	leader    raft.LeaderAndEpoch
	fresh     []Publisher // have not had their first image
	publisher []Publisher
}

// LoaderOptions are what a Loader may be given besides its log.
type LoaderOptions struct {
	// OnFault is called with records that do not fit the state and with unreadable snapshots, on the Loader's queue. If it is not
	// set they are logged. Either way the Loader goes on.
	OnFault func(error)
}

// NewLoader returns a Loader at the beginning of the log. Register it with the quorum.
func NewLoader(e env.Env, hw HighWatermark, o LoaderOptions) *Loader {
	l := &Loader{env: e, queue: e.NewQueue("metadata-loader"), hw: hw, onFault: o.OnFault, catchUp: true, leader: raft.LeaderAndEpoch{LeaderID: -1}}
	if l.onFault == nil {
		l.onFault = func(err error) { e.Logger().Error("Encountered metadata loading fault", "err", err) }
	}
	l.reset(Empty)
	return l
}

// Image is the last image that was loaded, published or not. Any goroutine may call it.
func (l *Loader) Image() *Image { return l.image.Load() }

// AddPublisher adds publishers behind those that are there. They get their first image as soon as the loader has caught up.
func (l *Loader) AddPublisher(publishers ...Publisher) {
	l.queue.Post("add publisher", func() {
		l.fresh = append(l.fresh, publishers...)
		l.welcome("initializeNewPublishers")
	})
}

// RemovePublisher makes the loader forget a publisher; done, which may be nil, is called when it will not be called any more.
func (l *Loader) RemovePublisher(p Publisher, done func()) {
	l.queue.Post("remove publisher", func() {
		isP := func(o Publisher) bool { return o == p }
		l.fresh, l.publisher = slices.DeleteFunc(l.fresh, isP), slices.DeleteFunc(l.publisher, isP)
		if done != nil {
			done()
		}
	})
}

// Close ends the loader after what it was given so far. done may be nil.
func (l *Loader) Close(done func()) { l.queue.Close(done) }

// HandleCommit takes committed batches; they stay valid.
func (l *Loader) HandleCommit(batches []raft.Batch) {
	l.queue.Post("commit", func() { l.commit(batches) })
}

// HandleLoadSnapshot takes a snapshot that stands for the log up to its end.
func (l *Loader) HandleLoadSnapshot(r *raft.SnapshotReader) {
	l.queue.Post("load snapshot", func() { l.loadSnapshot(r) })
}

// HandleLoadBootstrap does nothing: what the records of storage format ask for is in the log once a controller has been active.
func (l *Loader) HandleLoadBootstrap([]metadata.Versioned) {}

// HandleLeaderChange passes on who leads.
func (l *Loader) HandleLeaderChange(leader raft.LeaderAndEpoch) {
	l.queue.Post("leader change", func() {
		l.leader = leader
		for _, p := range l.publisher {
			p.OnControllerChange(leader)
		}
	})
}

// reset makes img the base of what comes next.
func (l *Loader) reset(img *Image) {
	l.image.Store(img)
	l.delta = NewDelta(img)
	l.offset, l.epoch, l.time = img.Provenance.Offset, img.Provenance.Epoch, img.Provenance.Time
	l.batches, l.bytes, l.elapsed = 0, 0, 0
}

func (l *Loader) commit(batches []raft.Batch) {
	for i := range batches {
		l.batch(&batches[i])
	}
	if len(batches) > 0 && !l.inTxn {
		l.publishDelta(true)
	}
}

func (l *Loader) batch(b *raft.Batch) {
	start := l.env.Monotonic()
	for i, rec := range b.Records {
		if _, ok := rec.Record.(*metadata.BeginTransactionRecord); ok && !l.inTxn && (i > 0 || l.batches > 0) {
			// What stands before the transaction does not wait for its end.
			l.publishDelta(i == 0)
		}
		if err := l.record(rec.Record); err != nil {
			l.onFault(fmt.Errorf("Error loading metadata log record from offset %d: %w", b.BaseOffset+int64(i), err)) //nolint:staticcheck // Kafka's words
		}
		l.offset, l.epoch, l.time = b.BaseOffset+int64(i), b.Epoch, b.AppendTime
	}
	l.offset, l.epoch, l.time = b.LastOffset, b.Epoch, b.AppendTime
	l.batches++
	l.bytes += int64(b.Bytes)
	l.elapsed += l.env.Monotonic() - start
}

func (l *Loader) record(rec metadata.Record) error {
	switch rec.(type) {
	case *metadata.BeginTransactionRecord:
		if l.inTxn {
			return errors.New("a transaction begins inside another")
		}
		l.inTxn = true
	case *metadata.EndTransactionRecord:
		if !l.inTxn {
			return errors.New("the end of a transaction that did not begin")
		}
		l.inTxn = false
	case *metadata.AbortTransactionRecord:
		if !l.inTxn {
			return errors.New("the abort of a transaction that did not begin")
		}
		l.inTxn = false
		l.delta = NewDelta(l.image.Load()) // what stood before it was published at its beginning
	default:
		l.seen = true
		return l.delta.Replay(rec)
	}
	return nil
}

// publishDelta makes an image of what was replayed and hands it on. aligned: it ends with a batch.
func (l *Loader) publishDelta(aligned bool) {
	d, m := l.delta, Manifest{Batches: l.batches, Bytes: l.bytes, Elapsed: l.elapsed, Leader: l.leader}
	img := d.Apply(Provenance{Offset: l.offset, Epoch: l.epoch, Time: l.time, BatchAligned: aligned})
	l.reset(img)
	l.publish("maybePublishMetadata(LOG_DELTA)", d, img, m)
}

func (l *Loader) publish(where string, d *Delta, img *Image, m Manifest) {
	if l.behind(where) {
		return
	}
	for _, p := range l.publisher {
		p.OnMetadataUpdate(d, img, m)
	}
	l.welcome(where)
}

// behind reports whether the loader has yet to reach the high watermark that it found at its start.
func (l *Loader) behind(where string) bool {
	if !l.catchUp {
		return false
	}
	log, hw, offset := l.env.Logger(), l.hw.HighWatermark(), l.image.Load().Provenance.Offset
	switch {
	case hw < 0:
		log.Info(where + ": the loader is still catching up because we still don't know the high water mark yet.")
	case hw-1 > offset:
		log.Info(fmt.Sprintf("%s: The loader is still catching up because we have loaded up to offset %d, but the high water mark is %d", where, offset, hw))
	case !l.seen:
		log.Info(fmt.Sprintf("%s: The loader is still catching up because we have not loaded a controller record as of offset %d and high water mark is %d", where, offset, hw))
	default:
		log.Info(fmt.Sprintf("%s: The loader finished catching up to the current high water mark of %d", where, hw))
		l.catchUp = false
	}
	return l.catchUp
}

// welcome gives new publishers their first image.
func (l *Loader) welcome(where string) {
	if len(l.fresh) == 0 || l.behind(where) {
		return
	}
	start, img := l.env.Monotonic(), l.image.Load()
	d := Between(Empty, img)
	m := Manifest{Snapshot: true, Leader: l.leader, Elapsed: l.env.Monotonic() - start}
	fresh := l.fresh
	l.fresh = nil
	for _, p := range fresh {
		l.env.Logger().Info(fmt.Sprintf("InitializeNewPublishers: initializing %s with a snapshot at offset %d", p.Name(), img.Provenance.Offset))
		l.publisher = append(l.publisher, p)
		p.OnMetadataUpdate(d, img, m)
		p.OnControllerChange(l.leader)
	}
}

// snapshotSource is what the loader needs of a snapshot reader.
type snapshotSource interface {
	ID() raft.SnapshotID
	LastContainedLogTime() int64
	Next() (raft.Batch, bool, error)
	Close() error
}

func (l *Loader) loadSnapshot(r snapshotSource) {
	start, id := l.env.Monotonic(), r.ID()
	d, m := NewDelta(Empty), Manifest{Snapshot: true, Leader: l.leader}
	for index := 0; ; {
		b, ok, err := r.Next()
		if err != nil {
			_ = r.Close()
			// Half a snapshot is no state: stay at the old one.
			l.onFault(fmt.Errorf("load snapshot %s: %w", id, err))
			return
		}
		if !ok {
			break
		}
		for _, rec := range b.Records {
			if err := d.Replay(rec.Record); err != nil {
				l.onFault(fmt.Errorf("Error loading metadata log record %d in snapshot at offset %d: %w", index, id.EndOffset, err)) //nolint:staticcheck // Kafka's words
			}
			index++
		}
		m.Bytes += int64(b.Bytes)
	}
	l.seen, l.inTxn = true, false
	old := l.image.Load()
	img := d.Apply(Provenance{Offset: id.EndOffset - 1, Epoch: id.Epoch, Time: r.LastContainedLogTime(), BatchAligned: true})
	d = Between(old, img)
	img = d.Apply(img.Provenance) // shares with the old one what is equal
	l.reset(img)
	m.Elapsed = l.env.Monotonic() - start
	l.env.Logger().Info(fmt.Sprintf("handleLoadSnapshot(%s): generated a metadata delta between offset %d and this snapshot in %d us.", id, old.Provenance.Offset, m.Elapsed.Microseconds()))
	l.publish("maybePublishMetadata(SNAPSHOT)", d, img, m)
}
