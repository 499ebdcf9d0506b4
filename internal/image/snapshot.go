package image

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/raft"
)

// SnapshotWriter is a snapshot under way. Freeze makes it visible; Close without Freeze drops it.
type SnapshotWriter interface {
	Writer
	Freeze() error
	Close() error
}

// SnapshotGenerator is the publisher that has a snapshot written whenever enough of the log, or enough time, has gone by. The
// image is immutable, so that is done beside the loader.
type SnapshotGenerator struct {
	env         env.Env
	maxBytes    int64         // metadata.log.max.record.bytes.between.snapshots
	maxInterval time.Duration // metadata.log.max.snapshot.interval.ms; 0: never by time
	create      func(id raft.SnapshotID, lastAppendTime int64) (SnapshotWriter, error)

	// Belong to the loader's queue.
	bytes int64         // of the log since the last snapshot
	last  time.Duration // when that was

	busy atomic.Bool // one is being written
}

// NewSnapshotGenerator returns a generator. create begins a snapshot; it is called from a job of its own, and returns nil if that
// snapshot is there already.
func NewSnapshotGenerator(e env.Env, maxBytes int64, maxInterval time.Duration, create func(id raft.SnapshotID, lastAppendTime int64) (SnapshotWriter, error)) *SnapshotGenerator {
	return &SnapshotGenerator{env: e, maxBytes: maxBytes, maxInterval: maxInterval, create: create, last: e.Monotonic()}
}

// Name is the publisher's name.
func (g *SnapshotGenerator) Name() string { return "SnapshotGenerator" }

// OnControllerChange does nothing: every node writes its own snapshots.
func (g *SnapshotGenerator) OnControllerChange(raft.LeaderAndEpoch) {}

// OnMetadataUpdate counts, and has a snapshot written if it is time.
func (g *SnapshotGenerator) OnMetadataUpdate(_ *Delta, img *Image, m Manifest) {
	if m.Snapshot {
		g.bytes, g.last = 0, g.env.Monotonic()
		return
	}
	g.bytes += m.Bytes
	since := g.env.Monotonic() - g.last
	switch {
	case !img.Provenance.BatchAligned || g.busy.Load():
		// A snapshot ends where a batch ends, and two at a time would be a waste. The next update will do.
	case g.bytes >= g.maxBytes:
		g.write(img, fmt.Sprintf("%d bytes have been written since the last snapshot, which is at least the limit of %d", g.bytes, g.maxBytes))
	case g.maxInterval > 0 && since >= g.maxInterval:
		g.write(img, fmt.Sprintf("%d ms have passed since the last snapshot, which is at least the limit of %d", since.Milliseconds(), g.maxInterval.Milliseconds()))
	}
}

func (g *SnapshotGenerator) write(img *Image, reason string) {
	g.bytes, g.last = 0, g.env.Monotonic()
	g.busy.Store(true)
	g.env.Go("metadata-snapshot", func() {
		defer g.busy.Store(false)
		id := raft.SnapshotID{EndOffset: img.Provenance.Offset + 1, Epoch: img.Provenance.Epoch}
		log := g.env.Logger()
		log.Info(fmt.Sprintf("Creating new KRaft snapshot file snapshot %s because %s.", id, reason))
		if err := g.writeTo(img, id); err != nil {
			log.Error("Encountered snapshot fault", "snapshot", id, "err", err)
			return
		}
		log.Info("Successfully wrote snapshot " + id.String())
	})
}

func (g *SnapshotGenerator) writeTo(img *Image, id raft.SnapshotID) error {
	w, err := g.create(id, img.Provenance.Time)
	if err != nil {
		return fmt.Errorf("create snapshot %s: %w", id, err)
	}
	if w == nil {
		return nil
	}
	err = img.Write(w, WriteOptions{})
	if err == nil {
		err = w.Freeze()
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write snapshot %s: %w", id, err)
	}
	return nil
}
