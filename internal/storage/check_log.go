package storage

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// logCheck looks at the folder of a log.
type logCheck struct {
	*checker
	dir      string
	metadata bool  // it is the metadata log, which is read as a whole at each start and is in no checkpoint
	recovery int64 // recovery point
	files    *OpenFiles
	segments []*segment
	end      int64
	epochs   *leaderEpochs // nil if they cannot be believed
	spoken   bool          // they do not speak of the first batches, and that was told; or they do
	latest   int32         // leader epoch of the last batch
}

// recovers says that the next start reads segment i and cuts off what is not whole.
func (l *logCheck) recovers(i int) bool {
	last := i == len(l.segments)-1
	if l.metadata {
		return last
	}
	return !l.clean && (last || l.segments[i+1].base > l.recovery)
}

// remakes says that the next start makes the indexes of segment i again, whatever they are now.
func (l *logCheck) remakes(i int) bool { return l.metadata || l.recovers(i) }

func (l *logCheck) path(name string) string { return filepath.Join(l.dir, name) }

// run sorts the files and looks at each.
func (l *logCheck) run() {
	entries, err := l.fsys.ReadDir(l.dir)
	if l.failed(l.dir, err) {
		return
	}
	var rest []string
	for _, e := range entries {
		name := e.Name()
		l.done.Files++
		if base, ok := parseOffsetName(name, logSuffix); ok {
			s := newSegment(l.files, l.dir, base, 0)
			l.segments = append(l.segments, s)
			if info, err := e.Info(); !l.failed(l.path(name), err) {
				s.found(info.Size())
				l.done.Bytes += info.Size()
			}
			continue
		}
		rest = append(rest, name)
	}
	l.latest = -1
	if l.epochs, err = openLeaderEpochs(l.fsys, l.path(LeaderEpochFile)); l.failed(l.path(LeaderEpochFile), err) {
		l.epochs = nil
	}
	for i, s := range l.segments {
		l.segment(i, s)
	}
	for _, name := range rest {
		l.other(name)
	}
	if len(l.segments) == 0 {
		l.left(l.dir, -1, "has no segment: the log is empty")
	}
}

// other looks at a file that holds no records.
func (l *logCheck) other(name string) {
	path := l.path(name)
	offset, isSnapshot := parseOffsetName(name, snapshotSuffix)
	switch {
	case isSnapshot:
		l.snapshot(path, offset)
	case name == LeaderEpochFile: // read before
	case name == PartitionMetadataFile:
		_, err := ReadPartitionMetadata(l.fsys, l.dir)
		l.failed(path, err)
	case isIndexName(name):
		if !l.exists(strings.TrimSuffix(path, filepath.Ext(name)) + logSuffix) {
			l.left(path, -1, "is an index without a segment")
		}
	case strings.HasSuffix(name, deletedSuffix):
		l.left(path, -1, "is deleted and about to be removed")
	case strings.HasSuffix(name, cleanedSuffix), strings.HasSuffix(name, truncatedSuffix), strings.HasSuffix(name, ".tmp"):
		l.left(path, -1, "was being written when the node ended")
	case strings.HasSuffix(name, swapSuffix):
		l.left(path, -1, "is about to take the place of what it was made from")
	default:
		known, err := false, error(nil)
		if l.o.Other != nil {
			known, err = l.o.Other(path)
		}
		if !l.failed(path, err) && !known {
			l.left(path, -1, "is no file that a broker knows")
		}
	}
}

// snapshot checks a producer snapshot.
func (l *logCheck) snapshot(path string, offset int64) {
	data, err := env.ReadFile(l.fsys, path)
	p := newProducers(math.MaxInt64) // of which none is too old
	if err == nil {
		err = p.loadSnapshot(data, 0)
	}
	if l.failed(path, err) {
		return
	}
	if len(l.segments) > 0 && offset > l.end {
		l.afterCrash(path, -1, "is for offset %d, but the log ends at %d", offset, l.end)
	}
	for _, producer := range p.all() {
		if e := p.entries[producer.ID]; e.kept > 0 && e.batches[e.kept-1].lastOffset >= offset {
			l.found(path, -1, "says that producer %d wrote at offset %d, which is not below %d", e.id, e.batches[e.kept-1].lastOffset, offset)
		}
	}
}

// segmentCheck is what the records of a segment say.
type segmentCheck struct {
	batches []checkedBatch
	largest int64 // timestamp
	size    int64 // bytes that are batches
}

// checkedBatch is the place of a batch, and what indexes say of it.
type checkedBatch struct {
	position, base, last int64
	timestamp            int64
	aborts               int64 // producer whose transaction it aborts; -1
}

// segment checks a segment with its indexes.
func (l *logCheck) segment(i int, s *segment) {
	path := s.path(logSuffix)
	if i > 0 && s.base < l.end {
		l.found(path, -1, "begins at offset %d, but the segment before it ends at %d", s.base, l.end)
	}
	l.end = max(l.end, s.base)
	sc := segmentCheck{largest: -1}
	err := l.batches(s, &sc)
	var damage *DamageError
	switch {
	case err == nil:
	case errors.As(err, &damage) && l.recovers(i):
		l.left(path, damage.Position, "%s: the next start cuts off %d bytes", damage.Problem, s.size.Load()-sc.size)
	default:
		l.failed(path, err)
	}
	if n := len(sc.batches); n > 0 {
		l.end = sc.batches[n-1].last + 1
	}
	x := indexCheck{l, s, &sc, l.remakes(i), i == len(l.segments)-1}
	x.offsets()
	x.times()
	x.txns()
	_ = errors.Join(s.close())
}

// batches reads all batches of a segment, up to the first that cannot be right.
func (l *logCheck) batches(s *segment, sc *segmentCheck) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer f.Unpin()
	last := s.base - 1
	var inner error
	dec := record.GetDecompressor()
	defer dec.Release()
	err = scanFile(f, 0, s.size.Load(), func(h record.Batch, p int64) bool {
		b := record.Batch(make([]byte, h.Length()))
		if _, inner = f.ReadAt(b, p); inner != nil {
			return false
		}
		if problem := unsound(b, last); problem != "" {
			inner = &DamageError{f.Name(), p, problem}
			return false
		}
		last, sc.size = b.LastOffset(), p+int64(len(b))
		l.batch(f.Name(), b, p, s, sc, dec)
		return true
	})
	return errors.Join(inner, err)
}

// batch looks into a batch whose bytes are what was written.
func (l *logCheck) batch(path string, b record.Batch, p int64, s *segment, sc *segmentCheck, dec *record.Decompressor) {
	l.done.Batches++
	cb := checkedBatch{p, b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), -1}
	if b.LastOffset()-s.base > math.MaxInt32 {
		l.found(path, p, "offset %d is too far from the segment's base %d", b.LastOffset(), s.base)
	}
	if e := b.LeaderEpoch(); e >= 0 {
		if e < l.latest {
			l.found(path, p, "leader epoch %d behind epoch %d", e, l.latest)
		}
		l.latest = max(l.latest, e)
		l.epoch(b, e)
	}
	var r record.Record
	it := b.Iter(dec)
	for it.Next(&r) {
		l.done.Records++
		if r.Offset < b.BaseOffset() || r.Offset > b.LastOffset() {
			l.found(path, p, "a record with offset %d in a batch from %d to %d", r.Offset, b.BaseOffset(), b.LastOffset())
		}
	}
	if err := it.Err(); err != nil {
		l.found(path, p, "records that cannot be read: %v", err)
	}
	if m, err := markerOf(b); err != nil {
		l.found(path, p, "a control record that cannot be read: %v", err)
	} else if m != nil && !m.Commit {
		cb.aborts = b.ProducerID()
	}
	sc.largest = max(sc.largest, cb.timestamp)
	sc.batches = append(sc.batches, cb)
}

// epoch compares the leader epoch of a batch with what leader-epoch-checkpoint says of it; the first contradiction is enough.
func (l *logCheck) epoch(b record.Batch, e int32) {
	if l.epochs == nil {
		return
	}
	path := l.path(LeaderEpochFile)
	switch known := l.epochs.at(b.LastOffset()); {
	case known == e && l.epochs.at(b.BaseOffset()) <= e:
		l.spoken = true
	case known == e:
		l.afterCrash(path, -1, "says that offset %d is of leader epoch %d, its batch says %d", b.BaseOffset(), l.epochs.at(b.BaseOffset()), e)
		l.epochs = nil
	case known < 0: // what was deleted, and came back with a crash, is forgotten
		if !l.spoken {
			l.left(path, -1, "does not speak of offset %d", b.BaseOffset())
			l.spoken = true
		}
	default:
		l.afterCrash(path, -1, "says that offset %d is of leader epoch %d, its batch says %d", b.LastOffset(), known, e)
		l.epochs = nil
	}
}

// holding finds the batch that holds an offset, or the first behind it; nil if there is none.
func (sc *segmentCheck) holding(offset int64) *checkedBatch {
	i, _ := slices.BinarySearchFunc(sc.batches, offset, func(b checkedBatch, o int64) int {
		if b.last < o {
			return -1
		}
		return 1
	})
	if i == len(sc.batches) {
		return nil
	}
	return &sc.batches[i]
}

// at finds the batch that begins at a position; nil if none does.
func (sc *segmentCheck) at(position int64) *checkedBatch {
	i, ok := slices.BinarySearchFunc(sc.batches, position, func(b checkedBatch, p int64) int {
		switch {
		case b.position < p:
			return -1
		case b.position > p:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &sc.batches[i]
}
