package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/storage/compaction"
)

// CleanerOptions say how much the compaction of logs may use. Without threads nothing is compacted.
type CleanerOptions struct {
	Threads           int           // log.cleaner.threads, 0 with log.cleaner.enable=false
	DedupeBuffer      int64         // log.cleaner.dedupe.buffer.size: bytes of all maps of keys together
	LoadFactor        float64       // log.cleaner.io.buffer.load.factor: the part of a map that is used
	IOBuffer          int           // log.cleaner.io.buffer.size: bytes of all buffers together
	MaxBytesPerSecond float64       // log.cleaner.io.max.bytes.per.second: read and written, of all threads together
	Backoff           time.Duration // log.cleaner.backoff.ms: after nothing was to be done
}

// cleanerOptionsFrom takes the options from a node's settings.
func cleanerOptionsFrom(n *config.Node) CleanerOptions {
	o := CleanerOptions{
		Threads: n.Int("log.cleaner.threads"), DedupeBuffer: n.Long("log.cleaner.dedupe.buffer.size"), LoadFactor: n.Double("log.cleaner.io.buffer.load.factor"),
		IOBuffer: n.Int("log.cleaner.io.buffer.size"), MaxBytesPerSecond: n.Double("log.cleaner.io.max.bytes.per.second"),
		Backoff: time.Duration(n.Long("log.cleaner.backoff.ms")) * time.Millisecond,
	}
	if !n.Bool("log.cleaner.enable") {
		o.Threads = 0
	}
	return o
}

// memory is for the map of one thread.
func (o CleanerOptions) memory() int64 {
	return min(o.DedupeBuffer/int64(max(o.Threads, 1)), math.MaxInt32)
}

// buffer is what one thread reads at once.
func (o CleanerOptions) buffer() int {
	return max(o.IOBuffer/max(o.Threads, 1)/2, record.BatchHeaderSize)
}

// cleaner compacts the logs of a Manager with cleanup.policy=compact: again and again the dirtiest one.
type cleaner struct {
	m *Manager
	o CleanerOptions

	mu          sync.Mutex
	busy        map[*Log]struct{}
	uncleanable map[*Log]struct{} // cleaning them has failed
	throttle    throttle
}

// start begins as many jobs as there are threads.
func (c *cleaner) start() {
	if c.o.Threads < 1 {
		return
	}
	logger := c.m.env.Logger()
	if !compaction.Usable(c.o.memory(), c.o.LoadFactor) {
		logger.Error("offset map is too small to fit in even a single message, so log cleaning will never make progress. You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads")
		return
	}
	if c.o.DedupeBuffer/int64(c.o.Threads) > math.MaxInt32 {
		logger.Warn("Cannot use more than 2G of cleaner buffer space per cleaner thread, ignoring excess buffer space...")
	}
	logger.Info("Starting the log cleaner")
	for id := range c.o.Threads {
		c.later(id, 0)
	}
}

func threadName(id int) string { return fmt.Sprintf("kafka-log-cleaner-thread-%d", id) }

// later looks for a dirty log after a while.
func (c *cleaner) later(id int, after time.Duration) {
	c.m.queue.After(after, threadName(id), func() {
		c.m.env.Go(threadName(id), func() { c.look(id) })
	})
}

// look cleans the dirtiest log if there is a dirty one.
func (c *cleaner) look(id int) {
	f := c.grab()
	if f.entry == nil {
		c.later(id, c.o.Backoff)
		return
	}
	logger := slog.New(prefixed{c.m.env.Logger().Handler(), fmt.Sprintf("Cleaner %d: ", id)})
	if err := c.m.secure(f.entry, f.dirt.FirstUncleanable); err != nil {
		c.done(id, f.entry, nil, err)
		return
	}
	c.proceed(id, f.entry, newCleaning(f, logger, c.o))
}

// proceed goes on with a pass, until it is over or has to wait because it was too fast.
func (c *cleaner) proceed(id int, e *entry, p *cleaning) {
	for {
		bytes, done, err := p.step()
		if done || err != nil {
			c.done(id, e, p, err)
			return
		}
		if wait := c.pace(bytes); wait > 0 {
			c.m.env.AfterFunc(wait, func() {
				c.m.env.Go(threadName(id), func() { c.proceed(id, e, p) })
			})
			return
		}
	}
}

func (c *cleaner) pace(bytes int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.throttle.pace(c.m.env.Monotonic(), bytes, c.o.MaxBytesPerSecond)
}

// done takes note of the end of a pass, and looks for the next log.
func (c *cleaner) done(id int, e *entry, p *cleaning, err error) {
	logger := slog.New(prefixed{c.m.env.Logger().Handler(), fmt.Sprintf("[%s]: ", threadName(id))})
	switch {
	case err == nil:
		if err := c.m.writeCleanerPoints(e.dir); err != nil {
			c.m.fail(e.dir, err)
		}
		p.report(id, logger)
	case errors.Is(err, errCleaningAborted) || e.log.gone():
	case isSenseless(err):
		logger.Warn(fmt.Sprintf("Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as uncleanable", e.log.tp, e.log.tp), "err", err)
		c.mu.Lock()
		c.uncleanable[e.log] = struct{}{}
		c.mu.Unlock()
	default:
		err = fmt.Errorf("Failed to clean up log for %s in dir %s due to IOException: %w", e.log.tp, e.dir.Path, err) //nolint:staticcheck // Kafka's words
		e.log.mu.Lock()
		_ = e.log.check(err)
		e.log.mu.Unlock()
	}
	c.mu.Lock()
	delete(c.busy, e.log)
	c.mu.Unlock()
	if err != nil {
		c.later(id, c.o.Backoff)
		return
	}
	c.later(id, 0)
}

// isSenseless tells an error of what is in a log from one of the disk.
func isSenseless(err error) bool {
	var damage *DamageError
	var bad *record.Error
	return errors.As(err, &damage) || errors.As(err, &bad)
}

// gone says that a log was closed or has failed.
func (l *Log) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || l.failure != nil
}

// found is what a look at all logs has found.
type found struct {
	entry *entry // the dirtiest; nil if nothing has to be cleaned
	dirt  compaction.Dirt
	// so many are dirty; in so many max.compaction.lag.ms is over, in one for so many ms.
	cleanable, delayed int
	maxDelay           int64
}

// grab chooses the dirtiest log of those that may be cleaned now.
func (c *cleaner) grab() found {
	entries := c.m.all()
	now := c.m.env.Now().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.uncleanable {
		if !slices.ContainsFunc(entries, func(e *entry) bool { return e.log == l }) {
			delete(c.uncleanable, l)
		}
	}
	var f found
	for _, e := range entries {
		_, busy := c.busy[e.log]
		_, uncleanable := c.uncleanable[e.log]
		cfg := e.log.cfg.Load()
		if busy || uncleanable || !cfg.Compact || !e.opened.Load() || e.log.gone() {
			continue
		}
		d, err := c.assess(e, now, cfg)
		if err != nil {
			c.uncleanable[e.log] = struct{}{}
			c.m.env.Logger().Warn(fmt.Sprintf("Failed to calculate log cleaning stats for partition %s. Marking its partition as uncleanable", e.log.tp), "err", err)
			continue
		}
		f.add(e, d, cfg.MinDirtyRatio)
	}
	if f.entry != nil {
		c.busy[f.entry.log] = struct{}{}
	}
	return f
}

// add takes a log into account.
func (f *found) add(e *entry, d compaction.Dirt, minRatio float64) {
	if d.Delay > 0 {
		f.delayed++
		f.maxDelay = max(f.maxDelay, d.Delay)
	}
	if ratio := d.Ratio(); d.Delay > 0 && d.CleanableBytes > 0 || ratio > minRatio {
		f.cleanable++
		if f.entry == nil || ratio > f.dirt.Ratio() {
			f.entry, f.dirt = e, d
		}
	}
}

// assess says how dirty a log is. What the checkpoint says of it and cannot be is forgotten.
func (c *cleaner) assess(e *entry, now int64, cfg *LogConfig) (compaction.Dirt, error) {
	l := e.log
	l.mu.Lock()
	described, err := l.describe(cfg)
	l.mu.Unlock()
	if err != nil {
		return compaction.Dirt{}, err
	}
	d := compaction.Assess(described, now)
	switch {
	case d.BelowStart && !cfg.Delete:
		c.m.env.Logger().Warn(fmt.Sprintf("Resetting first dirty offset of %s to log start offset %d since the checkpointed offset %d is invalid.", l.tp, described.Start, described.Noted))
	case d.BehindEnd:
		c.m.env.Logger().Warn(fmt.Sprintf("The last checkpoint dirty offset for partition %s is %d, which is larger than the log end offset %d. Resetting to the log start offset %d.",
			l.tp, described.Noted, described.End, described.Start))
	}
	if d.BelowStart || d.BehindEnd {
		l.cleaned.Store(d.FirstDirty)
	}
	return d, nil
}

// describe collects what the decision about a log needs. mu is held.
func (l *Log) describe(cfg *LogConfig) (compaction.Log, error) {
	v := l.published
	out := compaction.Log{
		Start: l.start.Load(), End: v.end, Stable: l.LastStableOffset(), Noted: l.cleaned.Load(),
		MinLag: cfg.MinCompactionLagMs, MaxLag: cfg.MaxCompactionLagMs,
	}
	for i, s := range v.segments {
		size, _ := v.bounds(i)
		d := compaction.Segment{Base: s.base, Size: size}
		if i < len(v.segments)-1 && (cfg.MinCompactionLagMs > 0 || cfg.MaxCompactionLagMs < math.MaxInt64) {
			if _, err := s.ensure(); err != nil {
				return out, err
			}
			d.Largest, d.First = s.maxTimestamp.timestamp, s.firstTimestamp
			if d.Largest < 0 {
				d.Largest = s.createdMs
			}
		}
		out.Segments = append(out.Segments, d)
	}
	return out, nil
}

// secure makes durable what the cleaning of everything below offset rests on, markers of transactions behind it among them. What is
// below counts as sound at the next start: a segment from which batches were removed does not say where leader epochs begin, so it
// must not be recovered.
func (m *Manager) secure(e *entry, offset int64) error {
	if err := e.log.Flush(); err != nil {
		return err
	}
	if e.log.noted.Load() >= offset {
		return nil
	}
	return m.writeRecoveryPoints(e.dir)
}

// writeCleanerPoints notes up to where the logs of a directory are clean.
func (m *Manager) writeCleanerPoints(d *directory) error {
	return m.writeOffsets(d, CleanerCheckpoint, func(l *Log) (int64, bool) {
		offset := l.cleaned.Load()
		return offset, offset >= 0
	})
}

// Uncleanable are the partitions whose logs could not be cleaned, and are not tried again in this life; sorted.
func (m *Manager) Uncleanable() []TopicPartition {
	var out []TopicPartition
	m.cleaner.mu.Lock()
	for l := range m.cleaner.uncleanable {
		out = append(out, l.tp)
	}
	m.cleaner.mu.Unlock()
	slices.SortFunc(out, TopicPartition.Compare)
	return out
}

// throttle spreads work over time.
type throttle struct{ free time.Duration }

// worthWaiting is how long a wait has to be to be worth it.
const worthWaiting = 10 * time.Millisecond

// pace takes note of some bytes at a time, and says how long to wait so that there are no more than perSecond.
func (t *throttle) pace(now time.Duration, bytes int64, perSecond float64) time.Duration {
	seconds := min(float64(bytes)/max(perSecond, 1), math.MaxInt32)
	t.free = max(t.free, now) + time.Duration(seconds*float64(time.Second))
	if wait := t.free - now; wait >= worthWaiting {
		return wait
	}
	return 0
}
