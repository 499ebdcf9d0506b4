package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// history is a log on a simulated disk beside what it should hold: a slice of batches. Random steps are taken with both; at times
// the node is shut down, killed or loses its power, and the log is opened again.
type history struct {
	w      *sim.World
	node   *sim.Node
	wrap   func(env.Env) env.Env
	node0  *config.Node
	adjust func(*ManagerOptions)
	own    map[string]string // of the topic
	m      *Manager
	l      *Log
	ending bool  // an error of the disk ends this life
	broken error // what is wrong

	content []record.Batch // all that is in the log, from its first life on
	start   int64
	end     int64
	epoch   int32
	naive   *producers // of content
	pins    []pinned
	// asked is the largest start that was asked for. It is noted late: after a crash the log may begin earlier, without the epochs.
	asked int64

	// What a crash may leave: at least the first flushed batches, which cannot be lost; and of what came and went since then
	// a prefix of one state.
	flushed   int
	branches  [][]record.Batch
	pending   []record.Batch // what the step under way makes of it; may be nil
	restarted bool           // the log was emptied as a whole since the last flush
	unopened  int            // so often an error of the disk has kept the log from being opened
	gaps      bool           // producers may be known for batches that are not there

	openCrashes float64 // so often the power fails while the log is being opened
	calm        bool    // no other crashes than those that the caller asks for
}

// pinned is a region that somebody reads for long.
type pinned struct {
	slice Slice
	want  []byte
}

var historyPartition = TopicPartition{"history", 3}

// newHistory draws the settings from the seed.
func newHistory(seed uint64, node *config.Node, faults sim.DiskFaults, wrap func(env.Env) env.Env) *history {
	w := sim.NewWorld(seed, sim.Options{Disk: faults, LogLevel: slog.LevelInfo})
	n := w.Workload.IntN
	h := &history{
		w: w, node: w.NewNode("n1"), wrap: wrap, node0: node, naive: newProducers(time.Hour * 24 * 365), openCrashes: 0.1,
		own: map[string]string{
			"internal.segment.bytes": fmt.Sprint(300 + n(1+n(8000))),
			"index.interval.bytes":   fmt.Sprint(1 + n(600)),
			"segment.index.bytes":    fmt.Sprint(36 + n(400)),
			"segment.ms":             fmt.Sprint(1000 + n(1_000_000)),
			"file.delete.delay.ms":   fmt.Sprint(n(100_000)),
			"retention.ms":           "-1",
		},
	}
	if w.Workload.Chance(0.1) {
		h.own["flush.messages"] = fmt.Sprint(1 + n(20))
	}
	return h
}

func (h *history) settings(string) config.Topic {
	return config.Topic{Layers: config.Layers{Node: h.node0}, Own: h.own}
}

// fail notes the first thing that is wrong.
func (h *history) fail(format string, args ...any) {
	if h.broken == nil {
		h.broken = fmt.Errorf("seed %d: %w", h.w.Seed(), fmt.Errorf(format, args...))
	}
}

// do runs fn in the node and reports whether that lived to its end.
func (h *history) do(fn func()) bool {
	done := false
	h.node.Do("step", func() { fn(); done = true })
	h.w.RunUntil(time.Hour, func() bool { return done || !h.node.Alive() })
	return done
}

// run takes so many steps.
func (h *history) run(steps int) error {
	h.reopen()
	for range steps {
		if h.broken != nil || h.gaps {
			return h.broken
		}
		h.step()
		h.mourn()
	}
	return h.broken
}

// mourn looks whether the node has died in a step, and begins its next life then.
func (h *history) mourn() (died bool) {
	if h.ending {
		h.w.RunUntil(time.Hour, func() bool { return !h.node.Alive() })
	}
	if !h.node.Alive() && h.broken == nil {
		h.afterCrash()
		return true
	}
	return false
}

func (h *history) step() {
	w := h.w.Workload
	switch p := w.IntN(100); {
	case p < 38:
		h.appendAsLeader()
	case p < 48:
		h.appendAsFollower()
	case p < 54:
		h.flush()
	case p < 60:
		h.truncate()
	case p < 61:
		h.restart()
	case p < 65:
		h.advanceStart()
	case p < 75:
		h.do(h.checkRead)
	case p < 79:
		h.do(h.checkTimes)
	case p < 84:
		h.do(h.pin)
	case p < 88:
		h.do(h.unpin)
	case p < 93:
		h.w.RunFor(time.Duration(w.IntN(70_000)) * time.Millisecond)
	case p < 95:
		h.shutdown()
	case h.calm:
		h.appendAsLeader()
	case p < 96:
		h.kill()
	case p < 97:
		h.node.Crash()
	default:
		h.node.CrashAfter(1 + w.IntN(1+w.IntN(100)))
	}
}

// open opens the log with whatever is on the disk.
func (h *history) open() {
	e := h.wrap(h.node)
	opened := h.do(func() {
		o := ManagerOptionsFrom(h.node0)
		o.Directories, o.Settings = []DirectoryOptions{{Path: "/logs", ID: uuid.UUID{1}}}, h.settings
		o.OpenFiles = 1 + int(h.w.Seed()%6)
		if h.adjust != nil {
			h.adjust(&o)
		}
		o.OnOffline = func(_ uuid.UUID, _ []TopicPartition, err error) {
			h.refused("between steps", fmt.Errorf("%w: %w", kerr.KafkaStorageError, err))
		}
		err := errors.Join(e.FS().MkdirAll("/logs", 0o755), e.FS().SyncDir("/"))
		if err == nil {
			h.m, err = OpenManager(e, o)
		}
		h.notOpened(err)
	})
	if !opened || !h.node.Alive() {
		return
	}
	loaded := false
	h.node.Do("load", func() {
		h.m.Load(func(err error) {
			loaded = true
			h.notOpened(err)
		})
	})
	h.w.RunUntil(time.Hour, func() bool { return loaded || !h.node.Alive() })
	h.do(func() {
		var err error
		h.l, err = h.m.Open(historyPartition, uuid.UUID{9}, uuid.Zero, h.settings(""))
		h.notOpened(err)
	})
}

// notOpened judges an error of opening. One of the disk ends the life of the node.
func (h *history) notOpened(err error) {
	switch {
	case err == nil:
	case h.faulty() && h.unopened < 20:
		h.unopened++
		h.w.After(0, "power off", h.node.Crash)
		h.w.Count("disk error while opening")
		h.ending = true
	default:
		h.fail("open: %w", err)
	}
}

// refused judges the error of a step that should have none. An error of the disk ends the life of the node.
func (h *history) refused(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, kerr.KafkaStorageError) && h.faulty():
		h.w.Count("disk error")
		h.ending = true
		h.node.CrashAfter(0)
		h.w.After(0, "power off", h.node.Crash)
	default:
		h.fail("%s: %w", what, err)
	}
	return true
}

func (h *history) faulty() bool {
	f := h.node.Disk().Faults()
	return f.WriteError+f.ShortWrite+f.SyncError > 0
}

// appended takes note of batches that are in the log.
func (h *history) appended(batches ...record.Batch) {
	for _, b := range batches {
		h.content = append(h.content, b)
		m, _ := markerOf(b)
		h.naive.update(b, m)
		h.naive.onHighWatermark(b.NextOffset())
		h.end, h.epoch = b.NextOffset(), max(h.epoch, b.LeaderEpoch())
	}
}

// shutdown ends the life of the node in order.
func (h *history) shutdown() {
	h.do(func() {
		for len(h.pins) > 0 {
			h.unpin()
		}
	})
	h.around(nil, func() {
		switch err := h.m.Shutdown(5); {
		case err == nil:
			h.durable()
		case h.faulty():
			h.ending = true
			h.w.After(0, "power off", h.node.Crash)
		default:
			h.fail("shut down: %w", err)
		}
	})
	if !h.node.Alive() || h.ending {
		return
	}
	clean := h.node.Disk()
	h.checkFiles()
	if h.w.Workload.Chance(0.5) {
		h.node.Crash()
	}
	if _, err := clean.ReadFile("/logs/" + CleanShutdownFile); err != nil && !h.faulty() { // else the directory may be offline
		h.fail("no mark of the clean shutdown: %w", err)
	}
	h.reopen()
	h.checkAll()
}

// kill ends the process, but not the machine.
func (h *history) kill() {
	h.node.Kill()
	if h.reopen() {
		h.found()
	}
	h.checkAll()
}

// reopen begins the next life of the node. It says whether the power failed while the log was being opened.
func (h *history) reopen() (crashed bool) {
	h.pins = nil
	for h.broken == nil {
		h.ending = false
		h.node = h.node.Restart()
		if h.w.Workload.Chance(h.openCrashes) {
			h.node.CrashAfter(1 + h.w.Workload.IntN(60))
		}
		h.open()
		if h.ending {
			h.w.RunUntil(time.Hour, func() bool { return !h.node.Alive() })
		}
		h.node.CrashAfter(0)
		if h.node.Alive() {
			h.unopened = 0
			return crashed
		}
		crashed = true
		h.w.Count("crash while opening")
	}
	return crashed
}

// checkFiles reads all files while no node runs.
func (h *history) checkFiles() {
	n := len(h.content)
	gap := n == 0 || h.end > h.content[n-1].NextOffset() // truncated to where no record was: the files do not say where the log ends
	_, err := CheckDirectory(h.node.FS(), "/logs", CheckOptions{Found: func(f Finding) {
		if !f.Harmless && filepath.Base(f.Path) != MetaPropertiesFile && !(gap && strings.Contains(f.Problem, "log ends at")) {
			h.fail("after a stop in order: %s at %d: %s", f.Path, f.Position, f.Problem)
		}
	}})
	if err != nil {
		h.fail("check: %w", err)
	}
}

// afterCrash opens the log again and accepts what a crash may leave.
func (h *history) afterCrash() {
	h.reopen()
	h.found()
	h.checkAll()
}

// found looks at what a crash has left.
func (h *history) found() {
	if h.broken != nil {
		return
	}
	h.do(func() {
		got, err := h.readAll()
		if err != nil {
			h.fail("read after a crash: %w", err)
			return
		}
		h.accept(got)
	})
}

// accept makes what was found after a crash the content, if it may be.
func (h *history) accept(got []record.Batch) {
	first := h.l.view().segments[0].base
	if s := h.l.StartOffset(); s > h.start && !h.restarted {
		h.fail("the log began at %d and begins at %d after a crash", h.start, s)
	}
	for _, b := range append([][]record.Batch{h.content, h.pending}, h.branches...) {
		if content, ok := h.fits(got, b, first); ok {
			h.start = min(h.start, h.l.EndOffset())
			if h.restarted {
				h.start = h.l.StartOffset()
			}
			if len(got) == 0 && len(h.l.Producers()) == 0 {
				content = nil // what was deleted is forgotten, if nothing else is left
			}
			h.settle(content, h.l.EndOffset())
			h.durable() // recovery has flushed it
			return
		}
	}
	if h.restarted && len(got) == 0 {
		h.settle(nil, h.l.EndOffset())
		h.start = h.l.StartOffset()
		h.durable()
		return
	}
	h.fail("after a crash the log has %s; %d batches were flushed of %s; or %d branches", summary(got), h.flushed, summary(h.content), len(h.branches))
}

// fits says whether the batches got are what is left of content in a log whose first segment begins at first, and gives all of
// that with what was deleted before.
func (h *history) fits(got, content []record.Batch, first int64) ([]record.Batch, bool) {
	deleted := 0
	for deleted < len(content) && content[deleted].LastOffset() < first {
		deleted++
	}
	i := deleted
	h.gaps = false
	var kept []record.Batch
	for _, g := range got {
		for i < len(content) && !bytes.Equal(g, content[i]) && (content[i].LastOffset() < h.start || i >= h.flushed && h.mayLack(g)) {
			h.gaps = true // the history ends: producers are known for batches that are not there
			i++
		}
		if i == len(content) || !bytes.Equal(g, content[i]) {
			return nil, false
		}
		kept = append(kept, g)
		i++
	}
	if i < h.flushed && (len(content) < h.flushed || content[h.flushed-1].LastOffset() >= h.start) {
		return nil, false
	}
	return append(slices.Clone(content[:deleted]), kept...), true
}

// mayLack says that something may be missing before b: the unflushed end of a segment while the next one is there. Kafka leaves such
// gaps, too.
func (h *history) mayLack(b record.Batch) bool {
	return slices.ContainsFunc(h.l.view().segments, func(s *segment) bool { return s.base == b.BaseOffset() })
}

func summary(batches []record.Batch) string {
	if len(batches) == 0 {
		return "no batches"
	}
	return fmt.Sprintf("%d batches from %d to %d", len(batches), batches[0].BaseOffset(), batches[len(batches)-1].NextOffset())
}

// readAll reads every batch from the first segment on.
func (h *history) readAll() ([]record.Batch, error) {
	var all []record.Batch
	v := h.l.view()
	for offset := v.segments[0].base; ; {
		s, err := h.l.Read(offset, 1<<20, true, v.end)
		if err != nil {
			return all, err
		}
		b, err := s.Bytes()
		s.Release()
		if err != nil {
			return all, err
		}
		if len(b) == 0 {
			return all, nil
		}
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				return all, err
			}
			if err := batch.CheckCRC(); err != nil {
				return all, fmt.Errorf("batch at %d: %w", batch.BaseOffset(), err)
			}
			all, b = append(all, batch), rest
			if batch.NextOffset() <= offset {
				return all, fmt.Errorf("offset %d comes behind %d", batch.BaseOffset(), offset)
			}
			offset = batch.NextOffset()
		}
		if s.Next < offset {
			return all, fmt.Errorf("the next offset is said to be %d, it is at least %d", s.Next, offset)
		}
	}
}

// below draws a number in [0, n).
func below(r *sim.Rand, n int64) int64 { return int64(r.Uint64() % uint64(n)) }
