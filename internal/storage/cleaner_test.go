package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// cleaned is a node with compacted logs.
type cleaned struct {
	t    *testing.T
	w    *sim.World
	node *sim.Node
	m    *Manager
	own  map[string]string
	cfg  *config.Node
}

func newCleaned(t *testing.T, own map[string]string, change func(*ManagerOptions)) *cleaned {
	t.Helper()
	w := sim.NewWorld(1, sim.Options{})
	c := &cleaned{t: t, w: w, node: w.NewNode("n1"), cfg: nodeSettings(t), own: map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "500", "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "0",
	}}
	maps.Copy(c.own, own)
	c.open(change)
	return c
}

func (c *cleaned) open(change func(*ManagerOptions)) {
	c.t.Helper()
	o := ManagerOptionsFrom(c.cfg)
	o.Directories, o.Settings = []DirectoryOptions{{Path: "/logs", ID: uuid.UUID{1}}}, topicSettings(c.cfg)
	o.Cleaner.Backoff = time.Second
	if change != nil {
		change(&o)
	}
	c.do(func() {
		err := c.node.FS().MkdirAll("/logs", 0o755)
		if err == nil {
			c.m, err = OpenManager(c.node, o)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		c.m.Load(func(err error) {
			if err != nil {
				c.t.Error(err)
			}
		})
	})
	c.w.RunFor(time.Millisecond)
}

// reopen is a life after one that ended in order.
func (c *cleaned) reopen() {
	c.do(func() {
		if err := c.m.Shutdown(1); err != nil {
			c.t.Fatal(err)
		}
	})
	c.node.Kill()
	c.node = c.node.Restart()
	c.open(nil)
}

func (c *cleaned) do(fn func()) {
	done := false
	c.node.Do("test", func() { fn(); done = true })
	c.w.RunUntil(time.Second, func() bool { return done })
}

// log opens a log with its settings, as when the node becomes its replica.
func (c *cleaned) log(topic string) *Log {
	c.t.Helper()
	var l *Log
	c.do(func() {
		var err error
		l, err = c.m.Open(TopicPartition{Topic: topic}, uuid.UUID{9}, uuid.Zero, config.Topic{Layers: config.Layers{Node: c.cfg}, Own: c.own})
		if err != nil {
			c.t.Fatal(err)
		}
	})
	return l
}

// fill appends a record each for n times the same three keys, and commits them.
func (c *cleaned) fill(l *Log, n int) {
	c.t.Helper()
	c.do(func() {
		for range n {
			for key := range 3 {
				b := record.NewBuilder(0, record.None)
				b.Append(c.node.Now().UnixMilli(), []byte{byte('a' + key)}, []byte("value"))
				batch, err := b.Build()
				if err == nil {
					_, err = l.AppendAsLeader(batch, 0, AppendOptions{ProduceVersion: 9})
				}
				if err != nil {
					c.t.Fatal(err)
				}
			}
		}
		l.SetHighWatermark(l.EndOffset())
	})
}

// offsets are those of the records in a log.
func (c *cleaned) offsets(l *Log) []int64 {
	c.t.Helper()
	var out []int64
	c.do(func() {
		for offset := l.StartOffset(); offset < l.EndOffset(); {
			s, err := l.Read(offset, 1<<20, true, math.MaxInt64)
			if err != nil {
				c.t.Fatal(err)
			}
			b, err := s.Bytes()
			s.Release()
			if err != nil {
				c.t.Fatal(err)
			}
			if len(b) == 0 {
				return
			}
			for rest := record.Batch(b); len(rest) > 0; rest = rest[rest.Length():] {
				var r record.Record
				it := rest[:rest.Length()].Iter(nil)
				for it.Next(&r) {
					out = append(out, r.Offset)
				}
				offset = rest.NextOffset()
			}
		}
	})
	return out
}

func (c *cleaned) checkpoint() string {
	b, err := c.node.Disk().ReadFile("/logs/" + CleanerCheckpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	return string(b)
}

// What is not in the active segment is compacted, once; the checkpoint says up to where, and the next life goes on there.
func TestCleanerWhileRunning(t *testing.T) {
	c := newCleaned(t, nil, nil)
	l := c.log("t")
	c.fill(l, 20)
	active := l.view().active().base
	if active < 10 || len(l.view().segments) < 5 {
		t.Fatalf("segments: %v", l.view().segments)
	}
	c.w.RunFor(3 * time.Second)
	want := []int64{active - 3, active - 2, active - 1}
	for o := active; o < 60; o++ {
		want = append(want, o)
	}
	if got := c.offsets(l); !slices.Equal(got, want) {
		t.Fatalf("left are %v, not %v", got, want)
	}
	if got, want := c.checkpoint(), fmt.Sprintf("0\n1\nt 0 %d\n", active); got != want {
		t.Errorf("the checkpoint is %q, not %q", got, want)
	}
	first := l.view().segments[0]
	c.w.RunFor(time.Minute)
	if l.view().segments[0] != first {
		t.Error("a clean log was cleaned")
	}
	c.reopen()
	l = c.log("t")
	if got := l.cleaned.Load(); got != active {
		t.Errorf("the next life begins at %d, not at %d", got, active)
	}
	if got := c.offsets(l); !slices.Equal(got, want) {
		t.Fatalf("in the next life there are %v, not %v", got, want)
	}
	c.fill(l, 20)
	c.w.RunFor(3 * time.Second)
	if got := c.offsets(l); got[0] < l.view().active().base-3 {
		t.Errorf("what was clean before is not compacted with the rest: %v, active from %d on", got, l.view().active().base)
	}
	if n := len(l.view().segments); n > 12 {
		t.Errorf("segments that had become small are not put together: %v", l.view().segments)
	}
}

// A log of the last life has the settings of the node until it is known what the topic's are.
func TestCleanerWaitsForSettings(t *testing.T) {
	c := newCleaned(t, nil, nil)
	c.fill(c.log("t"), 20)
	c.own["cleanup.policy"] = "delete"
	c.reopen()
	l := c.m.Log(TopicPartition{Topic: "t"})
	l.Configure(LogConfigFrom(config.Topic{Layers: config.Layers{Node: c.cfg}, Own: map[string]string{"cleanup.policy": "compact"}}, time.Hour))
	before := c.offsets(l)
	c.w.RunFor(10 * time.Second)
	if got := c.offsets(l); !slices.Equal(got, before) {
		t.Errorf("it was compacted: %v", got)
	}
}

// Of several logs the dirtiest comes first; with one thread they are cleaned one after the other.
func TestCleanerTakesTheDirtiest(t *testing.T) {
	c := newCleaned(t, nil, func(o *ManagerOptions) { o.Cleaner.MaxBytesPerSecond = 5000 })
	clean, dirty := c.log("clean"), c.log("dirty")
	c.fill(clean, 20)
	c.w.RunFor(20 * time.Second)
	c.fill(clean, 3)
	c.fill(dirty, 20)
	c.w.RunUntil(time.Minute, func() bool { return strings.Contains(c.checkpoint(), "dirty") })
	if got := clean.cleaned.Load(); got == clean.view().active().base {
		t.Errorf("the other one was cleaned before, up to %d", got)
	}
}

// A log with damage is left as it is, and not tried again; others are cleaned.
func TestCleanerLeavesDamage(t *testing.T) {
	c := newCleaned(t, nil, nil)
	bad, good := c.log("bad"), c.log("good")
	c.fill(bad, 20)
	c.fill(good, 10)
	c.do(func() {
		err := bad.view().segments[1].log.use(func(f *openFile) error {
			_, err := f.WriteAt([]byte{0xff}, record.BatchHeaderSize+3)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	segments := bad.view().segments
	c.w.RunFor(20 * time.Second)
	if got := c.m.Uncleanable(); !slices.Equal(got, []TopicPartition{{Topic: "bad"}}) {
		t.Errorf("uncleanable are %v", got)
	}
	if !slices.Equal(bad.view().segments, segments) {
		t.Errorf("segments were replaced: %v", bad.view().segments)
	}
	if good.cleaned.Load() < 0 {
		t.Error("the other log is not clean")
	}
	if c.m.DirectoryIDs() == nil {
		t.Error("the directory is offline")
	}
	c.do(func() {
		if err := c.m.Delete(TopicPartition{Topic: "bad"}); err != nil {
			t.Fatal(err)
		}
	})
	c.w.RunFor(5 * time.Second)
	if got := c.m.Uncleanable(); len(got) > 0 {
		t.Errorf("uncleanable are %v, and they are deleted", got)
	}
}

// A log that is cut off below the high watermark while it is cleaned is left alone: the records that made others obsolete are gone.
// So are one that is deleted, and one that begins anew.
func TestCleaningIsAborted(t *testing.T) {
	const later = 30
	for name, change := range map[string]func(c *cleaned, l *Log) error{
		"cut off behind what is next": func(_ *cleaned, l *Log) error { return l.TruncateTo(later) },
		"cut off":                     func(_ *cleaned, l *Log) error { return l.TruncateTo(4) },
		"emptied":                     func(_ *cleaned, l *Log) error { return l.TruncateFullyAndStartAt(4) },
		"deleted":                     func(c *cleaned, l *Log) error { return c.m.Delete(l.tp) },
		"shut down":                   func(c *cleaned, l *Log) error { return c.m.Shutdown(1) },
		"old segments deleted": func(_ *cleaned, l *Log) error {
			return errors.Join(l.AdvanceStart(30), l.DeleteOldSegments(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleaned(t, map[string]string{"file.delete.delay.ms": "1000000"}, func(o *ManagerOptions) {
				o.Cleaner.MaxBytesPerSecond, o.Cleaner.Backoff = 2000, time.Hour
				o.DeleteDelay = time.Hour
			})
			l := c.log("t")
			c.fill(l, 20)
			c.w.RunFor(time.Hour + time.Second) // the first look found nothing
			l.cleanMu.Lock()
			p := l.cleaning
			l.cleanMu.Unlock()
			if p == nil {
				t.Fatal("the log is not being cleaned")
			}
			c.w.RunUntil(time.Minute, func() bool { return p.into != nil })
			before, bound := l.view().segments, int64(4)
			if name == "cut off behind what is next" {
				bound = later
			}
			c.do(func() {
				if err := change(c, l); err != nil {
					t.Fatal(err)
				}
			})
			c.w.RunFor(time.Minute)
			if l.cleaned.Load() >= 0 {
				t.Errorf("it counts as clean up to %d", l.cleaned.Load())
			}
			for _, s := range l.view().segments {
				if s.base < bound && !slices.Contains(before, s) {
					t.Errorf("%v is new", s)
				}
			}
			c.do(func() {
				dirs, err := c.node.FS().ReadDir("/logs")
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range dirs {
					files, _ := c.node.FS().ReadDir("/logs/" + d.Name())
					for _, f := range files {
						if strings.HasSuffix(f.Name(), cleanedSuffix) || strings.HasSuffix(f.Name(), swapSuffix) {
							t.Errorf("%s is left in %s", f.Name(), d.Name())
						}
					}
				}
			})
		})
	}
}

// The checkpoint never says more of a log than it has.
func TestCleanerCheckpointGoesBack(t *testing.T) {
	c := newCleaned(t, nil, nil)
	l := c.log("t")
	c.fill(l, 20)
	c.w.RunFor(3 * time.Second)
	c.do(func() {
		if err := l.TruncateTo(3); err != nil {
			t.Fatal(err)
		}
	})
	if got := c.checkpoint(); got != fmt.Sprintf("0\n1\nt 0 %d\n", l.EndOffset()) {
		t.Errorf("after it was cut off at %d: %q", l.EndOffset(), got)
	}
	c.do(func() {
		if err := c.m.Delete(l.tp); err != nil {
			t.Fatal(err)
		}
	})
	if got := c.checkpoint(); got != "0\n0\n" {
		t.Errorf("after it was deleted: %q", got)
	}
}

// With compact,delete segments go by their time, too.
func TestCompactAndDelete(t *testing.T) {
	c := newCleaned(t, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "600000"}, func(o *ManagerOptions) { o.RetentionCheck = time.Minute })
	l := c.log("t")
	c.fill(l, 20)
	c.w.RunFor(5 * time.Second)
	if got := c.offsets(l); len(got) > 20 {
		t.Fatalf("nothing was compacted: %v", got)
	}
	c.w.RunFor(15 * time.Minute)
	if got := c.offsets(l); len(got) > 0 || l.StartOffset() != 60 {
		t.Errorf("left are %v, from %d on", got, l.StartOffset())
	}
}

func TestThrottle(t *testing.T) {
	var p throttle
	if got := p.pace(0, 500, 1000); got != 500*time.Millisecond {
		t.Errorf("half a second's bytes: %v", got)
	}
	if got := p.pace(500*time.Millisecond, 1, 1000); got != 0 {
		t.Errorf("a millisecond is no wait: %v", got)
	}
	if got := p.pace(500*time.Millisecond, 999, 1000); got != time.Second {
		t.Errorf("but it counts: %v", got)
	}
	if got := p.pace(time.Hour, 1<<40, math.MaxFloat64); got != 0 {
		t.Errorf("without a bound: %v", got)
	}
}

func TestFigures(t *testing.T) {
	for want, f := range map[string]float64{"0.0": 0, "999.9": 999.94, "1,000.0": 999.95, "1,234,567.9": 1234567.89, "-1,234.5": -1234.5, "NaN": math.NaN(), "Infinity": math.Inf(1)} {
		if got := figure(f); got != want {
			t.Errorf("%v: %s, not %s", f, got, want)
		}
	}
}

// What an interrupted swap may leave, by Kafka or by us.
func TestFinishSwaps(t *testing.T) {
	batch := func(base, last int64) []byte {
		b := record.NewBuilder(base, record.None)
		b.AppendAt(last, 0, []byte("k"), []byte("v"))
		out, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	name := offsetName
	for what, c := range map[string]struct{ before, after []string }{
		"nothing":                      {[]string{name(0, ".log"), name(0, ".index")}, []string{name(0, ".log"), name(0, ".index")}},
		"cleaned only":                 {[]string{name(0, ".log"), name(0, ".log.cleaned"), name(0, ".index.cleaned")}, []string{name(0, ".log")}},
		"not all are .swap":            {[]string{name(0, ".log"), name(0, ".log.swap"), name(0, ".index.cleaned")}, []string{name(0, ".log")}},
		"a split that was not decided": {[]string{name(0, ".log"), name(0, ".log.cleaned"), name(5, ".log.swap")}, []string{name(0, ".log")}},
		"nothing is deleted yet": {
			[]string{name(0, ".log"), name(0, ".index"), name(0, ".txnindex"), name(5, ".log"), name(5, ".txnindex"), name(10, ".log"), name(0, ".log.swap"), name(0, ".index.swap")},
			[]string{name(0, ".log"), name(0, ".index"), name(10, ".log")},
		},
		"some are deleted":        {[]string{name(5, ".log"), name(10, ".log"), name(0, ".log.swap"), name(0, ".index.swap"), name(0, ".txnindex.swap")}, []string{name(0, ".log"), name(0, ".index"), name(0, ".txnindex"), name(10, ".log")}},
		"the records are renamed": {[]string{name(0, ".log"), name(10, ".log"), name(0, ".index.swap")}, []string{name(0, ".log"), name(0, ".index"), name(10, ".log")}},
	} {
		w := sim.NewWorld(1, sim.Options{})
		n := w.NewNode("n")
		l := &Log{env: n, fsys: n.FS(), logger: n.Logger(), dir: "/l"}
		n.Do("test", func() {
			err := n.FS().Mkdir("/l", 0o755)
			for _, f := range c.before {
				content := []byte(f)
				if base, suffix, ok := parseSegmentFile(f, swapSuffix); ok && suffix == logSuffix {
					content = batch(base, base+9)
				}
				err = errors.Join(err, env.WriteFileAtomic(n.FS(), "/l/"+f, content, 0o644))
			}
			entries, err2 := l.finishSwaps()
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			slices.Sort(c.after)
			if !slices.Equal(got, c.after) {
				t.Errorf("%s: %v, not %v", what, got, c.after)
			}
			for _, f := range got {
				b, err := env.ReadFile(n.FS(), "/l/"+f)
				if swapped := slices.Contains(c.before, f+swapSuffix) && what != "not all are .swap"; err != nil || swapped == (string(b) == f) {
					t.Errorf("%s: %s has %q", what, f, b)
				}
			}
		})
		w.RunFor(time.Second)
	}
}
