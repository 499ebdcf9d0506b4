package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/storage/compaction"
)

// cleaning is one pass over a log: the dirty part is read into a map of keys, and all segments up to there are written anew with what
// is left of them. It is done in steps, each of one buffer, so that whoever cuts the log off or closes it does not wait for long.
type cleaning struct {
	l      *Log
	logger *slog.Logger
	o      CleanerOptions
	found
	begun int64  // ms
	cuts  uint64 // of the log when it began
	cfg   *LogConfig

	segments []*segment // the log's, up to the first that cannot be cleaned
	at       int        // of the segment that is read
	position int64      // of the next batch in it
	buf      []byte     // what is read at once
	out      []byte     // what is left of that

	filter compaction.Filter
	mapped bool // the map is complete
	end    int64
	groups []int
	into   *segment // what the first group becomes; nil before and after
	until  int      // the first segment behind that group

	stats cleaningStats
}

// cleaningStats are the figures of a pass; times since the node began.
type cleaningStats struct {
	compaction.Stats
	begun, mapped, ended  time.Duration
	mapMessages, mapBytes int64
	utilization           float64 // of the memory for the map
}

// newCleaning prepares a pass.
func newCleaning(f found, logger *slog.Logger, o CleanerOptions) *cleaning {
	l := f.entry.log
	c := &cleaning{l: l, logger: logger, o: o, found: f, cfg: l.cfg.Load(), begun: l.env.Now().UnixMilli()}
	l.cleanMu.Lock()
	defer l.cleanMu.Unlock()
	c.cuts = l.cuts
	v := l.view()
	for _, s := range v.segments[:len(v.segments)-1] {
		if s.base < c.dirt.FirstUncleanable {
			c.segments = append(c.segments, s)
		}
	}
	c.stats.begun = l.env.Monotonic()
	c.logger.Info(fmt.Sprintf("Beginning cleaning of log %s", l.tp))
	c.logger.Info(fmt.Sprintf("Building offset map for %s...", l.tp))
	c.beginMap()
	if !l.gone() {
		l.cleaning = c
	}
	return c
}

// beginMap goes to the first dirty segment.
func (c *cleaning) beginMap() {
	for c.at < len(c.segments)-1 && c.segments[c.at+1].base <= c.dirt.FirstDirty {
		c.at++
	}
	from, to := c.dirt.FirstDirty, c.dirt.FirstUncleanable
	c.logger.Info(fmt.Sprintf("Building offset map for log %s for %d segments in offset range [%d, %d).", c.l.tp, len(c.segments)-c.at, from, to))
	c.buf = make([]byte, c.o.buffer())
	c.filter = compaction.Filter{
		Map:          compaction.NewOffsetMap(c.o.memory(), c.o.LoadFactor, to-from),
		Transactions: compaction.NewTransactions(), Decompressor: record.GetDecompressor(),
	}
	c.filter.Transactions.Expect(c.l.abortedIn(from, to))
}

// step goes on with the pass. It returns how many bytes were read and written, and whether that was all. Errors: errCleaningAborted;
// *DamageError and *record.Error if there is no sense in the log; those of the disk.
func (c *cleaning) step() (bytes int64, done bool, err error) {
	l := c.l
	l.cleanMu.Lock()
	defer l.cleanMu.Unlock()
	if s := c.into; s != nil && c.at == c.until {
		err = c.complete(s)
	}
	if l.cleaning != c || l.cuts != c.cuts {
		return 0, false, errors.Join(errCleaningAborted, c.discard())
	}
	switch {
	case err != nil:
	case !c.mapped:
		bytes, err = c.readKeys()
	case c.into != nil && c.at == c.until:
		err = c.swap()
	case c.into == nil && len(c.groups) > 0:
		err = c.beginGroup()
	case c.into != nil:
		bytes, err = c.clean()
	default:
		c.finish()
		return 0, true, nil
	}
	if err != nil {
		err = errors.Join(c.judge(err), c.discard())
	}
	return bytes, false, err
}

// complete makes a segment durable without the lock, since this may take long. Nobody else knows its files; if the log is closed
// meanwhile they are removed.
func (c *cleaning) complete(s *segment) error {
	c.l.cleanMu.Unlock()
	defer c.l.cleanMu.Lock()
	return s.complete()
}

// judge tells a segment that was taken away from a disk that fails.
func (c *cleaning) judge(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return errCleaningAborted
	}
	return err
}

// discard ends the pass as if it had not been. cleanMu is held.
func (c *cleaning) discard() error {
	if c.l.cleaning == c {
		c.l.cleaning = nil
	}
	c.release()
	if c.into == nil {
		return nil
	}
	s := c.into
	c.into = nil
	return s.remove()
}

func (c *cleaning) release() {
	if c.filter.Decompressor != nil {
		c.filter.Decompressor.Release()
		c.filter.Decompressor = nil
	}
	c.filter.Map, c.buf, c.out = nil, nil, nil
}

// finish notes up to where the log is clean.
func (c *cleaning) finish() {
	c.l.cleaning = nil
	c.l.cleaned.Store(c.end)
	c.stats.Stats = c.filter.Stats
	c.stats.utilization = c.filter.Map.Utilization()
	c.stats.ended = c.l.env.Monotonic()
	c.release()
}

// readKeys reads a part of the dirty segments into the map.
func (c *cleaning) readKeys() (int64, error) {
	if c.at == len(c.segments) {
		return 0, c.endMap()
	}
	chunk, err := c.read()
	if err != nil {
		return 0, err
	}
	c.stats.mapBytes += int64(len(chunk))
	for rest := chunk; len(rest) > 0; {
		b := record.Batch(rest)
		b, rest = b[:b.Length()], rest[b.Length():]
		full, messages, err := c.filter.Note(b, c.dirt.FirstDirty)
		c.stats.mapMessages += messages
		if err != nil {
			return 0, c.damage(b, err)
		}
		if full {
			c.logger.Debug(fmt.Sprintf("Offset map is full, segment with base offset %d is partially mapped", c.segments[c.at].base))
			return int64(len(chunk)), c.endMap()
		}
	}
	if c.next() {
		// Behind the last batch there may be offsets without records.
		end := c.dirt.FirstUncleanable
		if c.at < len(c.segments) {
			end = c.segments[c.at].base
		}
		c.filter.Map.Passed(end - 1)
	}
	return int64(len(chunk)), nil
}

// endMap goes from reading keys to cleaning.
func (c *cleaning) endMap() error {
	c.mapped = true
	c.stats.mapped = c.l.env.Monotonic()
	c.end = c.filter.Map.Latest() + 1
	c.logger.Info(fmt.Sprintf("Offset map for log %s complete.", c.l.tp))
	n := 0
	for n < len(c.segments) && c.segments[n].base < c.end {
		n++
	}
	c.segments, c.at, c.position = c.segments[:n], 0, 0
	described := make([]compaction.Segment, n)
	for i, s := range c.segments {
		offsets, err1 := s.offsets.bytes()
		times, err2 := s.times.bytes()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		described[i] = compaction.Segment{Base: s.base, Size: s.size.Load(), Offsets: offsets, Times: times}
	}
	c.groups = compaction.Group(described, int64(c.cfg.SegmentBytes), int64(c.cfg.IndexBytes), c.dirt.FirstUncleanable)
	c.logger.Info(fmt.Sprintf("Cleaning log %s (cleaning prior to offset %d)...", c.l.tp, c.end))
	f := &c.filter
	f.Transactions = compaction.NewTransactions()
	f.Transactions.Kept = func(a compaction.AbortedTxn) error {
		return c.into.txns.append(abortedTxn{a.ProducerID, a.First, a.Last, a.LastStable})
	}
	f.Now, f.DeleteRetention = c.begun, c.cfg.DeleteRetentionMs
	return nil
}

// beginGroup makes the segment that the next group becomes.
func (c *cleaning) beginGroup() error {
	group := c.segments[c.at : c.at+c.groups[0]]
	c.until = c.at + len(group)
	c.into = c.l.newCleaned(group[0].base, group[len(group)-1].createdMs)
	c.filter.LastRecords = c.l.lastRecords()
	c.beginSegment()
	return c.into.create(c.cfg.IndexBytes)
}

// beginSegment prepares the reading of a segment that is cleaned.
func (c *cleaning) beginSegment() {
	s := c.segments[c.at]
	end := c.dirt.FirstUncleanable
	if c.at+1 < len(c.segments) {
		end = c.segments[c.at+1].base
	}
	c.filter.HighWatermark = c.l.HighWatermark()
	c.filter.Transactions.Expect(c.l.abortedIn(s.base, end))
	c.logger.Info(fmt.Sprintf("Cleaning %s in log %s into %d", s, c.l.tp, c.into.base))
}

// clean writes what is left of a part of a segment.
func (c *cleaning) clean() (int64, error) {
	chunk, err := c.read()
	if err != nil {
		return 0, err
	}
	c.out = c.out[:0]
	for rest := chunk; len(rest) > 0; {
		b := record.Batch(rest)
		b, rest = b[:b.Length()], rest[b.Length():]
		if c.out, err = c.filter.Batch(c.out, b); err != nil {
			return 0, c.damage(b, err)
		}
	}
	if len(c.out) > 0 {
		if err := c.into.append(c.out, c.cfg.IndexInterval); err != nil {
			return 0, err
		}
	}
	if c.next() && c.at < c.until {
		c.beginSegment()
	}
	return int64(len(chunk) + len(c.out)), nil
}

// swap puts the new segment into the log.
func (c *cleaning) swap() error {
	s, group := c.into, c.segments[c.until-c.groups[0]:c.until]
	c.logger.Info(fmt.Sprintf("Swapping in cleaned segment %s for segment(s) %v in log %s", s, group, c.l.tp))
	err := c.l.replace(s, group)
	if !errors.Is(err, errCleaningAborted) {
		c.into, c.groups = nil, c.groups[1:] // whatever went wrong, its files may be all there is
	}
	return err
}

// next goes to the next segment if this one was read. It says whether it did.
func (c *cleaning) next() bool {
	if c.position < c.segments[c.at].size.Load() {
		return false
	}
	c.at, c.position = c.at+1, 0
	if n := c.o.buffer(); len(c.buf) > n {
		c.buf, c.out = c.buf[:n:n], nil
	}
	return true
}

// read reads whole batches from the position on. Their bytes are what was written: what is written anew gets a new checksum.
func (c *cleaning) read() ([]byte, error) {
	s := c.segments[c.at]
	size := s.size.Load()
	for {
		n := min(size-c.position, int64(len(c.buf)))
		err := s.log.use(func(f *openFile) error {
			if _, err := f.ReadAt(c.buf[:n], c.position); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read segment %s at %d: %w", f.Name(), c.position, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		whole, err := wholeBatches(c.buf[:n])
		if err != nil {
			return nil, &DamageError{s.path(logSuffix), c.position + int64(len(whole)), err.Error()}
		}
		if len(whole) > 0 || n == 0 {
			c.position += int64(len(whole))
			return whole, nil
		}
		if err := c.grow(s, size); err != nil {
			return nil, err
		}
	}
}

// wholeBatches are the whole batches at the beginning of b.
func wholeBatches(b []byte) ([]byte, error) {
	n := 0
	for {
		batch, _, err := record.Next(b[n:])
		switch {
		case errors.Is(err, record.ErrShort):
			return b[:n], nil
		case err == nil:
			err = batch.CheckCRC()
		}
		if err != nil {
			return b[:n], err
		}
		n += len(batch)
	}
}

// grow makes room for the next batch.
func (c *cleaning) grow(s *segment, size int64) error {
	need := int64(record.HeaderSizeUpToMagic)
	if int64(len(c.buf)) >= need {
		n, err := record.NextSize(c.buf)
		if err != nil {
			return &DamageError{s.path(logSuffix), c.position, err.Error()}
		}
		need = int64(n)
	}
	if need > size-c.position {
		return &DamageError{s.path(logSuffix), c.position, "the file ends inside a batch"}
	}
	c.logger.Info(fmt.Sprintf("Growing cleaner I/O buffers from %d bytes to %d bytes.", len(c.buf), need))
	c.buf = make([]byte, need)
	return nil
}

// damage says where a batch lies that makes no sense.
func (c *cleaning) damage(b record.Batch, err error) error {
	var e *record.Error
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("batch at offset %d in %s: %w", b.BaseOffset(), c.segments[c.at].path(logSuffix), err)
}
