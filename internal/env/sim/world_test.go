package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// pingPong is a node that counts what its peer sends, writes the count to disk, and answers with the next number. It
// dials again when the connection breaks.
type pingPong struct {
	n     *Node
	q     env.Queue
	peer  string // to dial; empty = the one that listens
	conn  env.Conn
	count uint64
	told  uint64 // synced, then sent
	file  env.File
}

func startPingPong(n *Node, peer string) *pingPong {
	p := &pingPong{n: n, peer: peer, q: n.NewQueue("pong")}
	n.Do("start", p.start)
	return p
}

func (p *pingPong) start() {
	f, err := p.n.FS().Open("/count", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		panic(err)
	}
	p.file = f
	var b [8]byte
	if n, _ := f.ReadAt(b[:], 0); n == 8 {
		p.count = binary.BigEndian.Uint64(b[:])
	}
	if err := p.n.FS().SyncDir("/"); err != nil {
		panic(err)
	}
	if p.peer != "" {
		p.dial()
		return
	}
	_, err = p.n.Net().Listen(":9092", env.ListenOptions{MaxMessage: 100, IdleTimeout: time.Minute}, func(env.Conn) env.Handler { return p })
	if err != nil {
		panic(err)
	}
}

func (p *pingPong) dial() {
	p.conn = p.n.Net().Dial(p.peer+":9092", env.DialOptions{Timeout: time.Second}, p)
}

func (p *pingPong) send(c env.Conn) {
	b := env.NewBuffer(8)
	p.told = p.count
	binary.BigEndian.PutUint64(b.B, p.count)
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b.B[:3]}, {Bytes: b.B[3:]}}, Done: b.Release})
}

func (p *pingPong) Opened(c env.Conn) { p.q.Post("opened", func() { p.send(c) }) }

func (p *pingPong) Message(c env.Conn, b *env.Buffer) {
	got := binary.BigEndian.Uint64(b.B)
	b.Release()
	p.q.Post("message", func() {
		p.count = max(p.count, got) + 1
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], p.count)
		if _, err := p.file.WriteAt(b[:], 0); err != nil {
			panic(err)
		}
		if err := p.file.Sync(); err != nil {
			panic(err)
		}
		p.send(c)
	})
}

func (p *pingPong) Closed(_ env.Conn, err error) {
	p.n.Logger().Info("connection closed", "error", err)
	if p.peer != "" {
		p.q.After(100*time.Millisecond, "dial again", p.dial)
	}
}

func onDisk(n *Node) uint64 {
	b, err := n.Disk().ReadFile("/count")
	if err != nil || len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// pingPongWorld runs two nodes under every fault for a while, then without.
func pingPongWorld(t *testing.T, seed uint64) *World {
	w := NewWorld(seed, Options{
		Network: NetworkFaults{Late: 0.01, Lose: 0.01, Reset: 0.005, DialFail: 0.1},
		Disk:    DiskFaults{Slow: 0.001, Torn: 0.1, Garbled: 0.1},
	})
	nodes := []*pingPong{startPingPong(w.NewNode("a"), ""), startPingPong(w.NewNode("b"), "a")}
	disturb := func() {
		i := w.Crashes.IntN(2)
		p := nodes[i]
		switch w.Crashes.IntN(6) {
		case 0:
			p.n.Crash()
		case 1:
			p.n.Kill()
		case 2:
			p.n.CrashAfter(1 + w.Crashes.IntN(30))
		case 3:
			p.n.Freeze()
			w.After(w.Crashes.Between(0, 3*time.Second), "thaw", p.n.Thaw)
		case 4:
			from, to := p.n.Name(), nodes[1-i].n.Name()
			w.Cut(from, to)
			w.After(w.Crashes.Between(0, 40*time.Second), "heal", func() { w.Heal(from, to) })
		case 5:
			p.n.StepClock(w.Clocks.Between(-time.Hour, time.Hour))
		}
	}
	for round := range 40 {
		if round < 30 {
			w.After(w.Crashes.Between(0, time.Second), "disturb", disturb)
		} else {
			w.HealAll()
		}
		w.RunFor(2 * time.Second)
		for i, p := range nodes {
			if p.n.Alive() {
				continue
			}
			if got := onDisk(p.n); got < p.told {
				t.Fatalf("seed %d: %s had synced %d and has %d on its disk", seed, p.n.Name(), p.told, got)
			}
			nodes[i] = startPingPong(p.n.Restart(), p.peer)
		}
	}
	before := nodes[0].count
	w.SetNetworkFaults(NetworkFaults{})
	w.RunFor(time.Minute)
	if nodes[0].count <= before {
		var b strings.Builder
		w.Report(&b, 50)
		t.Fatalf("nothing moves after healing:\n%s", &b)
	}
	return w
}

func TestOneSeedOneTrace(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(8) {
		a, b := pingPongWorld(t, seed), pingPongWorld(t, seed)
		if a.Hash() != b.Hash() || a.Events() != b.Events() {
			t.Errorf("seed %d ran twice: hashes %x and %x, %d and %d events", seed, a.Hash(), b.Hash(), a.Events(), b.Events())
		}
		for what, n := range a.counts {
			counts[what] += n
		}
	}
	for _, what := range []string{
		"crash", "kill", "freeze", "link cut", "clock step", "frame late", "frame lost and sent again", "connection reset",
		"frame delivered before the reset", "dial failed", "dial into a cut link", "frames held at a cut link",
		"connection died of a cut link", "half-open connection", "slow sync", "page lost at a crash",
		"crash at write", "crash at sync", "crash at send",
	} {
		if counts[what] == 0 {
			t.Errorf("no seed came to %q", what)
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	if a, b := pingPongWorld(t, 1), pingPongWorld(t, 2); a.Hash() == b.Hash() {
		t.Errorf("two seeds gave one hash %x", a.Hash())
	}
}

func TestAPanicNamesTheSeedAndTheEvents(t *testing.T) {
	w := NewWorld(77, Options{})
	n := w.NewNode("a")
	n.Do("bad", func() { panic(errors.New("broken invariant")) })
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "broken invariant") || !strings.Contains(r, "seed 77") || !strings.Contains(r, "do       bad") {
			t.Errorf("the panic says %q", r)
		}
	}()
	w.RunFor(time.Second)
}

func TestClocks(t *testing.T) {
	w := NewWorld(1, Options{})
	n := w.NewNode("a")
	w.RunFor(10 * time.Second)
	n.SetDrift(0.5)
	if got := n.Monotonic(); got != 10*time.Second {
		t.Errorf("a change of rate moved the clock to %s", got)
	}
	start := n.Now()
	n.StepClock(-time.Hour)
	var fired time.Duration
	n.AfterFunc(15*time.Second, func() { fired = w.Now() })
	w.RunFor(20 * time.Second)
	if fired != 20*time.Second {
		t.Errorf("15 s of a clock that is half as fast again passed at %s", fired)
	}
	if got := n.Monotonic(); got != 40*time.Second {
		t.Errorf("monotonic clock at %s", got)
	}
	if got := n.Now().Sub(start); got != 30*time.Second-time.Hour {
		t.Errorf("wall clock moved by %s", got)
	}
}

func TestFreezeHoldsEverythingBack(t *testing.T) {
	w := NewWorld(1, Options{})
	n := w.NewNode("a")
	var got []string
	n.Freeze()
	n.AfterFunc(time.Second, func() { got = append(got, "first") })
	never := n.AfterFunc(2*time.Second, func() { got = append(got, "never") })
	n.AfterFunc(3*time.Second, func() { got = append(got, "second") })
	w.RunFor(10 * time.Second)
	if len(got) != 0 {
		t.Fatalf("a frozen node ran %v", got)
	}
	if !never.Stop() {
		t.Error("a timer that came due while frozen could not be stopped")
	}
	n.Thaw()
	w.RunFor(0)
	if fmt.Sprint(got) != "[first second]" {
		t.Errorf("after thawing: %v", got)
	}
}

func BenchmarkWorld(b *testing.B) {
	var events uint64
	for b.Loop() {
		events += pingPongWorld(nil, 3).Events()
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
