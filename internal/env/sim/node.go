package sim

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// machine is what outlives a crash: a name, a clock, a disk.
type machine struct {
	w    *World
	name string
	disk *disk
	node *Node // the present life, or the last one
	life int

	// The clocks ran to wall (since the world's start) and, in this life, to mono at the world's time since; from there
	// they go on too fast by a share of drift.
	since, wall, mono time.Duration
	drift             float64

	frozen    bool
	held      []*event // what came due while frozen
	busyUntil time.Duration
	crashIn   int  // operations until the power fails; 0 = never
	powerless bool // off after a crash: nobody answers
	ports     map[int]*listener
	nextPort  int
}

// defers says that the event must wait, and sees to it that it comes back.
func (m *machine) defers(ev *event) bool {
	switch {
	case ev.node != m.node:
		return false // a former life: the scheduler drops it
	case m.frozen:
		ev.held = true
		m.held = append(m.held, ev)
	case m.busyUntil > m.w.now:
		ev.at = m.busyUntil
		m.w.events.push(ev)
	default:
		return false
	}
	return true
}

// Node is one life of a machine: an env.Env that works until Crash or Kill. After that its timers and queues stand
// still and its files and connections give errors.
type Node struct {
	m      *machine
	w      *World
	dead   bool
	rand   *Rand
	logger *slog.Logger
	conns  map[int]*conn
}

var _ env.Env = (*Node)(nil)

// NewNode adds a machine with an empty disk and starts it. Its name is also its host name.
func (w *World) NewNode(name string) *Node {
	if w.machine(name) != nil {
		panic("sim: there is a machine " + name + " already")
	}
	m := &machine{w: w, name: name, disk: newDisk(w)}
	w.machines = append(w.machines, m)
	return m.start()
}

func (w *World) machine(name string) *machine {
	for _, m := range w.machines {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Node returns the present life of a machine, or its last one; nil if there is no such machine.
func (w *World) Node(name string) *Node {
	if m := w.machine(name); m != nil {
		return m.node
	}
	return nil
}

func (m *machine) start() *Node {
	m.life++
	n := &Node{m: m, w: m.w, conns: map[int]*conn{}}
	m.rebase()
	m.mono = 0
	n.rand = newRand(m.w.seed, fmt.Sprintf("node %s life %d", m.name, m.life))
	n.logger = slog.New(newLogHandler(n))
	m.node = n
	m.frozen, m.held, m.busyUntil, m.crashIn, m.powerless = false, nil, 0, 0, false
	m.ports, m.nextPort = map[int]*listener{}, firstPort
	return n
}

// Name is the machine's name.
func (n *Node) Name() string { return n.m.name }

// Alive is false after Crash and Kill.
func (n *Node) Alive() bool { return !n.dead }

// Now is the machine's wall clock.
func (n *Node) Now() time.Time { return n.w.o.Start.Add(n.m.wall + n.m.passed()) }

// Monotonic is the time since this life began, by the machine's clock.
func (n *Node) Monotonic() time.Duration { return n.m.mono + n.m.passed() }

// passed is the machine's time since its clocks were looked at.
func (m *machine) passed() time.Duration {
	d := m.w.Now() - m.since
	return d + time.Duration(float64(d)*m.drift)
}

// rebase looks at the clocks.
func (m *machine) rebase() {
	d := m.passed()
	m.wall, m.mono, m.since = m.wall+d, m.mono+d, m.w.Now()
}

// world turns the machine's time into the world's.
func (n *Node) world(d time.Duration) time.Duration {
	return time.Duration(float64(d) / (1 + n.m.drift))
}

// AfterFunc runs fn as an event.
func (n *Node) AfterFunc(d time.Duration, fn func()) env.Timer {
	return n.after(d, "timer", "", fn)
}

func (n *Node) after(d time.Duration, kind, name string, fn func()) timer {
	return timer{n.w, n.w.schedule(n.world(max(d, 0)), n, kind, name, fn)}
}

// Go runs fn as one event.
func (n *Node) Go(name string, fn func()) {
	n.w.schedule(n.w.Scheduling.Between(0, n.w.o.SchedulingDelay), n, "job", name, fn)
}

// Each runs the jobs one after the other, within the event that calls it.
func (n *Node) Each(_ string, _, jobs int, fn func(i int)) {
	for i := range jobs {
		fn(i)
	}
}

// Do runs fn soon as an event of this node: how a driver calls into a node.
func (n *Node) Do(name string, fn func()) { n.w.schedule(0, n, "do", name, fn) }

// Net is the world's network, as seen from this node.
func (n *Node) Net() env.Network { return network{n} }

// FS is the machine's disk.
func (n *Node) FS() env.FS { return fileSystem{n, n.m.disk} }

// Rand is a stream of this life.
func (n *Node) Rand() env.Rand { return n.rand }

// Logger writes into the world's trace.
func (n *Node) Logger() *slog.Logger { return n.logger }

// Crash cuts the machine's power. Peers hear nothing, or a reset once the machine is back. It must not be called from
// one of the node's own events: see CrashAfter.
func (n *Node) Crash() {
	if n.end("crash") {
		n.m.powerless = true
		n.m.disk.crash()
	}
}

// Kill ends the process as kill -9 does: what was written is there for the next life, and the kernel resets the
// connections.
func (n *Node) Kill() {
	if n.end("kill") {
		n.m.disk.unlockAll()
	}
}

func (n *Node) end(how string) bool {
	if n.dead {
		return false
	}
	n.w.note(n, how, "")
	n.w.Count(how)
	n.dead = true
	n.m.held = nil
	n.m.ports = nil
	for _, id := range sortedKeys(n.conns) {
		n.conns[id].nodeDied(how == "crash")
	}
	n.conns = nil
	return true
}

// Restart begins the machine's next life, with the same disk. The present one ends by Kill if it goes on.
func (n *Node) Restart() *Node {
	n.m.node.Kill()
	next := n.m.start()
	n.w.note(next, "restart", "")
	return next
}

// CrashAfter cuts the power after so many operations from now: writes, syncs, creations, renames, removals and sends
// count, each once before and once after its effect. 0 calls it off.
func (n *Node) CrashAfter(operations int) { n.m.crashIn = operations }

// operation is called before and after everything that a crash may come between.
func (n *Node) operation(what string) {
	if n.m.crashIn == 0 || n.w.current != n {
		return
	}
	if n.m.crashIn--; n.m.crashIn == 0 {
		n.w.Count("crash at " + what)
		n.Crash()
		panic(died{n})
	}
}

// Freeze stops the node as SIGSTOP does: time goes on, connections stay, nothing runs. Thaw goes on.
func (n *Node) Freeze() {
	n.w.note(n, "freeze", "")
	n.w.Count("freeze")
	n.m.frozen = true
}

// Thaw ends Freeze: all that came due meanwhile happens now, in order.
func (n *Node) Thaw() {
	n.w.note(n, "thaw", "")
	n.m.frozen = false
	for _, ev := range n.m.held {
		if ev.held {
			ev.held, ev.at = false, n.w.Now()
			n.w.events.push(ev)
		}
	}
	n.m.held = nil
}

// StepClock moves the machine's wall clock.
func (n *Node) StepClock(by time.Duration) {
	n.w.note(n, "clock", by.String())
	n.w.Count("clock step")
	n.m.wall += by
}

// SetDrift makes the machine's clocks run too fast by a share of the time, or too slow if negative. Monotonic time
// keeps its value and changes its rate.
func (n *Node) SetDrift(share float64) {
	n.w.note(n, "drift", fmt.Sprint(share))
	n.w.Count("clock drift")
	n.m.rebase()
	n.m.drift = share
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
