package sim

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// World is a set of machines, the network between them and the only clock there is.
type World struct {
	// Net draws what happens to frames, Disks what happens to files, Clocks, Crashes and Scheduling the rest;
	// Workload belongs to the caller.
	Net, Disks, Clocks, Crashes, Scheduling, Workload *Rand

	seed     uint64
	o        Options
	now      time.Duration // of the event that runs
	elapsed  time.Duration // what this event has spent so far, waiting for the disk
	events   heap
	seq      uint64
	ran      uint64
	hash     uint64
	current  *Node      // whose event runs; nil = none, or the world's
	machines []*machine // in the order of their making
	cuts     map[link]bool
	refuses  map[link]bool
	counts   map[string]int
	trace    []line // a ring
	lines    int
	nextConn int
	stopped  error
}

// NewWorld makes an empty world. Released buffers are poisoned from now on, in the whole process.
func NewWorld(seed uint64, o Options) *World {
	o.setDefaults()
	env.Poison.Store(true)
	w := &World{seed: seed, o: o, hash: fnvOffset, cuts: map[link]bool{}, refuses: map[link]bool{}, counts: map[string]int{}}
	w.trace = make([]line, o.TraceLength)
	w.Net = newRand(seed, "network")
	w.Disks = newRand(seed, "disk")
	w.Clocks = newRand(seed, "clock")
	w.Crashes = newRand(seed, "crash")
	w.Scheduling = newRand(seed, "scheduling")
	w.Workload = newRand(seed, "workload")
	return w
}

// Seed is the number that the world was made from.
func (w *World) Seed() uint64 { return w.seed }

// Now is the virtual time since the world began.
func (w *World) Now() time.Duration { return w.now + w.elapsed }

// Events is the number of events that have run.
func (w *World) Events() uint64 { return w.ran }

// Hash stands for everything that has happened: two runs of one seed must agree on it at every event.
func (w *World) Hash() uint64 { return w.hash }

// SetNetworkFaults replaces those of the options, for frames sent from now on.
func (w *World) SetNetworkFaults(f NetworkFaults) {
	f.setDefaults()
	w.o.Network = f
}

// After runs fn d from now, outside every node: a step of the driver.
func (w *World) After(d time.Duration, name string, fn func()) env.Timer {
	return timer{w, w.schedule(d, nil, "world", name, fn)}
}

// Step runs the next event; false if there is none, or if the world was stopped.
func (w *World) Step() bool { return w.stepWithin(math.MaxInt64) }

// stepWithin runs the next event, if it is due by end. Those that frozen nodes defer are none.
func (w *World) stepWithin(end time.Duration) bool {
	for w.stopped == nil {
		next := w.events.peek()
		if next == nil || next.at > end {
			return false
		}
		ev := w.events.pop()
		w.now = max(w.now, ev.at)
		if m := ev.machine(); m != nil && m.defers(ev) {
			continue
		}
		w.run(ev)
		return true
	}
	return false
}

// RunFor runs the events of the next d of virtual time.
func (w *World) RunFor(d time.Duration) {
	end := w.now + d
	for w.stepWithin(end) {
	}
	if w.stopped == nil {
		w.now = max(w.now, end)
	}
}

// RunUntil runs events until cond holds, which it asks before each event, and says whether it came to that within
// limit.
func (w *World) RunUntil(limit time.Duration, cond func() bool) bool {
	end := w.now + limit
	for !cond() {
		if !w.stepWithin(end) {
			if w.stopped == nil {
				w.now = max(w.now, end)
			}
			return false
		}
	}
	return true
}

// Stop ends the run: no event runs any more, and Err tells the reason.
func (w *World) Stop(reason error) {
	if w.stopped == nil {
		w.stopped = reason
	}
}

// Err is the reason of Stop; nil if the world is running.
func (w *World) Err() error { return w.stopped }

// Count notes that something worth counting happened: a fault, a rare path, a mark of a test.
func (w *World) Count(what string) { w.counts[what]++ }

// Counted tells how often something happened.
func (w *World) Counted(what string) int { return w.counts[what] }

// AllCounts is a copy of everything counted.
func (w *World) AllCounts() map[string]int { return maps.Clone(w.counts) }

// Counts lists everything counted, sorted, as "what 12".
func (w *World) Counts() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		all = append(all, fmt.Sprintf("%s %d", what, w.counts[what]))
	}
	return all
}

// spend lets time pass inside the event that runs.
func (w *World) spend(d time.Duration) {
	if w.current != nil {
		w.elapsed += d
	}
}

// schedule adds an event d from now.
func (w *World) schedule(d time.Duration, n *Node, kind, name string, fn func()) *event {
	return w.scheduleAt(w.Now()+max(d, 0), n, kind, name, fn)
}

func (w *World) scheduleAt(at time.Duration, n *Node, kind, name string, fn func()) *event {
	w.seq++
	ev := &event{at: at, seq: w.seq, node: n, kind: kind, name: name, fn: fn}
	w.events.push(ev)
	return ev
}

// died is the panic that unwinds an event when its node crashes in the middle of it.
type died struct{ node *Node }

// run executes an event. Events of a node that is gone do nothing and leave no trace.
func (w *World) run(ev *event) {
	if ev.node != nil && !ev.node.Alive() {
		return
	}
	w.ran++
	w.note(ev.node, ev.kind, ev.name)
	w.elapsed, w.current = 0, ev.node
	defer func() {
		if m := ev.machine(); m != nil && w.elapsed > 0 {
			m.busyUntil = w.now + w.elapsed
		}
		w.elapsed, w.current = 0, nil
		switch r := recover().(type) {
		case nil:
		case died:
			if r.node != ev.node {
				panic(fmt.Sprintf("sim: an event of %v was unwound by the crash of %v", ev.node, r.node))
			}
		default:
			panic(fmt.Sprintf("%v\n\nseed %d, event %d, virtual time %s. The last events:\n%s", r, w.seed, w.ran, w.now, strings.Join(w.LastEvents(40), "\n")))
		}
	}()
	ev.fn()
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (w *World) mix(x uint64) { w.hash = (w.hash ^ x) * fnvPrime }

func (w *World) mixString(s string) {
	h := w.hash
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	w.hash = (h ^ 0xff) * fnvPrime
}

// line is an event of the trace.
type line struct {
	at         time.Duration
	node       string
	kind, name string
}

func (l line) String() string {
	return fmt.Sprintf("%.6f %-6s %-8s %s", l.at.Seconds(), l.node, l.kind, l.name)
}

// note puts a line into trace and hash.
func (w *World) note(n *Node, kind, name string) {
	l := line{at: w.Now(), node: "-", kind: kind, name: name}
	if n != nil {
		l.node = n.m.name
	}
	w.mix(uint64(l.at))
	w.mixString(l.node)
	w.mixString(kind)
	w.mixString(name)
	w.trace[w.lines%len(w.trace)] = l
	w.lines++
	if w.o.Trace != nil {
		fmt.Fprintln(w.o.Trace, l)
	}
}

// LastEvents gives the last n lines of the trace, oldest first.
func (w *World) LastEvents(n int) []string {
	n = min(n, w.lines, len(w.trace))
	var all []string
	for i := w.lines - n; i < w.lines; i++ {
		all = append(all, w.trace[i%len(w.trace)].String())
	}
	return all
}

// Report writes what a failing test should show: seed, time, counts, the last events.
func (w *World) Report(to io.Writer, events int) {
	fmt.Fprintf(to, "seed %d, %d events, virtual time %s, hash %016x\ncounts: %s\n", w.seed, w.ran, w.now, w.hash, strings.Join(w.Counts(), ", "))
	for _, l := range w.LastEvents(events) {
		fmt.Fprintln(to, l)
	}
}
