package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// A broker and its controller, from nothing to running and to the end.
func TestLifeOfABroker(t *testing.T) {
	n := newNode(t)
	n.start()
	n.world.RunFor(3 * time.Second) // no controller: the registration waits
	if n.broker.State() != Starting || n.started {
		t.Fatalf("state %s without a controller", n.broker.State())
	}
	n.node.Do("elect", func() { n.quorum.elect(1) })
	if !n.world.RunUntil(150*time.Millisecond, func() bool { return n.started }) {
		n.world.Report(t.Output(), 60)
		t.Fatal("not running 150 ms after the controller")
	}
	if n.running != nil || n.broker.State() != Running {
		t.Fatalf("%v, state %s", n.running, n.broker.State())
	}
	reg := n.broker.Image().Cluster.Broker(1)
	if reg.Fenced || reg.Epoch != n.broker.Epoch() || len(reg.Endpoints) != 2 || len(reg.Features) != 7 || reg.Directories[0] != (uuid.UUID{7, 1}) {
		t.Errorf("registration %+v", reg)
	}
	n.world.RunFor(time.Minute)
	if n.broker.Image().Cluster.Broker(1).Fenced {
		t.Error("fenced in spite of heartbeats")
	}
	ended := false
	n.node.Do("stop", func() { n.broker.Shutdown(time.Minute, func() { ended = true }) })
	if !n.world.RunUntil(time.Second, func() bool { return ended }) {
		t.Fatal("the controlled shutdown does not end")
	}
	n.world.RunFor(time.Second)
	if !n.loader.Image().Cluster.Broker(1).Fenced {
		t.Error("not fenced by its shutdown")
	}
	want := []string{
		"is now STARTING.",
		"Successfully registered broker 1 with broker epoch",
		"The broker has caught up. Transitioning from STARTING to RECOVERY.",
		"The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
		"Beginning controlled shutdown.",
		"The controller has asked us to exit controlled shutdown.",
		"Transitioning from PENDING_CONTROLLED_SHUTDOWN to SHUTTING_DOWN.",
	}
	got := n.logged("STARTING", "Successfully registered", "RECOVERY to", "controlled shutdown", "SHUTTING_DOWN")
	if len(got) != len(want) {
		t.Fatalf("logged:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("logged %q, want %q", got[i], want[i])
		}
	}
}

// script is a controller that answers as a test says.
type script struct {
	w      *sim.World
	n      *sim.Node
	lines  []string // requests, with the time
	answer func(req protocol.Request) (protocol.Response, error)
}

func (s *script) Send(_ *rpc.Context, req protocol.Request, _ int16, done func(protocol.Response, error)) {
	line := "register"
	if h, ok := req.(*protocol.BrokerHeartbeatRequest); ok {
		line = fmt.Sprintf("heartbeat epoch=%d", h.BrokerEpoch)
		if h.WantFence {
			line += " wantFence"
		}
		if h.WantShutDown {
			line += " wantShutDown"
		}
		if len(h.OfflineLogDirs) > 0 {
			line += fmt.Sprintf(" offline=%d", len(h.OfflineLogDirs))
		}
	}
	s.lines = append(s.lines, fmt.Sprintf("%s %s", s.w.Now().Round(time.Millisecond), line))
	resp, err := s.answer(req)
	if resp == nil && err == nil {
		return // never
	}
	s.n.AfterFunc(time.Millisecond, func() { done(resp, err) })
}

func (s *script) take() string {
	out := strings.Join(s.lines, "\n")
	s.lines = nil
	return out
}

// good answers registrations with epoch, and heartbeats with a broker that is caught up and unfenced.
func good(epoch int64) func(protocol.Request) (protocol.Response, error) {
	return func(req protocol.Request) (protocol.Response, error) {
		switch req := req.(type) {
		case *protocol.BrokerRegistrationRequest:
			r := protocol.NewBrokerRegistrationResponse()
			r.BrokerEpoch = epoch
			return r, nil
		case *protocol.BrokerHeartbeatRequest:
			r := protocol.NewBrokerHeartbeatResponse()
			r.IsCaughtUp, r.IsFenced = true, req.WantFence
			return r, nil
		}
		return nil, errors.New("what is this")
	}
}

func failing(code int16) func(protocol.Request) (protocol.Response, error) {
	return func(req protocol.Request) (protocol.Response, error) {
		if _, ok := req.(*protocol.BrokerRegistrationRequest); ok {
			r := protocol.NewBrokerRegistrationResponse()
			r.ErrorCode = code
			return r, nil
		}
		r := protocol.NewBrokerHeartbeatResponse()
		r.ErrorCode = code
		return r, nil
	}
}

type lifecycleTest struct {
	*testing.T
	w       *sim.World
	s       *script
	l       *lifecycle
	running []string
}

func newLifecycleTest(t *testing.T) *lifecycleTest {
	// Events take no time here, so that a trace shows the delays alone.
	w := sim.NewWorld(1, sim.Options{SchedulingDelay: time.Nanosecond})
	n := w.NewNode("n1")
	s := &script{w: w, n: n, answer: good(5)}
	lt := &lifecycleTest{T: t, w: w, s: s}
	lt.l = newLifecycle(Deps{
		Env: n, Config: parse(t, properties), ClusterID: "c", Lifecycle: s, PreviousEpoch: 3, LogDirs: []uuid.UUID{{2}, {1}}, MetadataOffset: func() int64 { return 0 },
	})
	lt.l.start(func(err error) { lt.running = append(lt.running, fmt.Sprint(err)) })
	return lt
}

func (lt *lifecycleTest) expect(d time.Duration, want string) {
	lt.Helper()
	lt.w.RunFor(d)
	if diff := cmp.Diff(strings.TrimSpace(want), lt.s.take()); diff != "" {
		lt.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeartbeats(t *testing.T) {
	lt := newLifecycleTest(t)
	lt.expect(5*time.Second, `
0s register
1ms heartbeat epoch=5 wantFence
2.002s heartbeat epoch=5 wantFence
4.003s heartbeat epoch=5 wantFence`)
	lt.l.setReady() // told at once, and then at the pace of heartbeats
	lt.expect(5*time.Second, `
5s heartbeat epoch=5
7.001s heartbeat epoch=5
9.002s heartbeat epoch=5`)
	if diff := cmp.Diff([]string{"<nil>"}, lt.running); diff != "" {
		t.Error(diff)
	}
	lt.l.offline(uuid.UUID{1})
	lt.expect(time.Second, `10s heartbeat epoch=5 offline=1`)
	lt.l.resendRegistration()
	lt.expect(500*time.Millisecond, "11s register\n11.001s heartbeat epoch=5 offline=1")
}

// A broker that cannot tell the controller of a failed directory ends; one that could goes on.
func TestFailedDirectoryThatNobodyHearsOf(t *testing.T) {
	lt := newLifecycleTest(t)
	var faults []string
	lt.l.onFault = func(err error) { faults = append(faults, lt.w.Now().Round(time.Second).String()+" "+err.Error()) }
	lt.w.RunFor(5 * time.Second)
	lt.l.offline(uuid.UUID{1})
	lt.w.RunFor(time.Minute)
	if len(faults) > 0 {
		t.Errorf("the controller knows: %v", faults)
	}
	lt.s.answer = failing(kerr.NotController.Code)
	lt.l.offline(uuid.UUID{2})
	lt.w.RunFor(time.Minute)
	want := []string{"1m35s Shutting down because couldn't communicate offline log dir " + (uuid.UUID{2}).String() + " with controllers"}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNotCaughtUpYet(t *testing.T) {
	lt := newLifecycleTest(t)
	lt.s.answer = func(req protocol.Request) (protocol.Response, error) {
		resp, err := good(5)(req)
		if h, ok := resp.(*protocol.BrokerHeartbeatResponse); ok {
			h.IsCaughtUp = lt.w.Now() > 20*time.Millisecond
		}
		return resp, err
	}
	lt.expect(time.Second, `
0s register
1ms heartbeat epoch=5 wantFence
12ms heartbeat epoch=5 wantFence
23ms heartbeat epoch=5 wantFence`)
}

func TestFailuresAreRetriedWithBackOff(t *testing.T) {
	lt := newLifecycleTest(t)
	lt.s.answer = failing(kerr.DuplicateBrokerRegistration.Code)
	lt.expect(time.Second, `
0s register
101ms register
302ms register
703ms register`)
	lt.s.answer = good(6)
	lt.expect(time.Second, `
1.504s register
1.505s heartbeat epoch=6 wantFence`)
	lt.s.answer = func(protocol.Request) (protocol.Response, error) { return nil, ErrNoController }
	lt.expect(2*time.Second, `
3.506s heartbeat epoch=6 wantFence
3.607s heartbeat epoch=6 wantFence
3.808s heartbeat epoch=6 wantFence`)
	// The controller does not know us any more: the same incarnation registers again.
	lt.s.answer = failing(kerr.BrokerIdNotRegistered.Code)
	lt.expect(time.Second, `
4.209s heartbeat epoch=6 wantFence`)
	lt.s.answer = good(9)
	lt.expect(time.Second, `
5.01s register
5.011s heartbeat epoch=9 wantFence`)
	// An incarnation before us has our place: it registered late. A broker that is not registered at all was removed on purpose, and does not.
	lt.s.answer = failing(kerr.StaleBrokerEpoch.Code)
	lt.w.RunFor(2 * time.Second)
	if got := lt.s.take(); strings.Contains(got, "register") {
		t.Errorf("after it was unregistered:\n%s", got)
	}
	lt.l.registeredAs = func() uuid.UUID { return uuid.UUID{1} }
	lt.w.RunFor(10 * time.Second)
	if got := lt.s.take(); !strings.Contains(got, "register") {
		t.Errorf("did not register again:\n%s", got)
	}
}

func TestGivesUpWithoutRegistration(t *testing.T) {
	lt := newLifecycleTest(t)
	lt.s.answer = failing(kerr.DuplicateBrokerRegistration.Code)
	lt.w.RunFor(59 * time.Second)
	if lt.running != nil {
		t.Fatalf("%v", lt.running)
	}
	lt.w.RunFor(2 * time.Second)
	if diff := cmp.Diff([]string{errNoRegistration.Error()}, lt.running); diff != "" {
		t.Error(diff)
	}
	lt.s.take()
	lt.expect(time.Minute, "")
}

func TestShutdown(t *testing.T) {
	run := func(t *testing.T) *lifecycleTest {
		lt := newLifecycleTest(t)
		lt.l.setReady()
		lt.w.RunFor(time.Second)
		if lt.l.state != Running {
			t.Fatalf("state %s", lt.l.state)
		}
		lt.s.take()
		return lt
	}
	t.Run("the controller takes its time", func(t *testing.T) {
		lt := run(t)
		ended := 0
		for range 2 {
			lt.l.shutdown(0, func() { ended++ })
		}
		lt.expect(4*time.Second, `
1s heartbeat epoch=5 wantShutDown
1.051s heartbeat epoch=5 wantShutDown
3.052s heartbeat epoch=5 wantShutDown`)
		lt.s.answer = func(protocol.Request) (protocol.Response, error) {
			r := protocol.NewBrokerHeartbeatResponse()
			r.ShouldShutDown = true
			return r, nil
		}
		lt.expect(4*time.Second, `5.053s heartbeat epoch=5 wantShutDown`)
		if ended != 2 || lt.l.state != ShuttingDown {
			t.Errorf("ended %d, state %s", ended, lt.l.state)
		}
	})
	t.Run("the controller never answers", func(t *testing.T) {
		lt := run(t)
		lt.s.answer = func(protocol.Request) (protocol.Response, error) { return nil, nil }
		ended := false
		lt.l.shutdown(3*time.Second, func() { ended = true })
		lt.w.RunFor(2900 * time.Millisecond)
		if ended {
			t.Fatal("too early")
		}
		lt.w.RunFor(200 * time.Millisecond)
		if !ended {
			t.Error("does not end")
		}
	})
	t.Run("before it runs", func(t *testing.T) {
		lt := newLifecycleTest(t)
		lt.w.RunFor(time.Second)
		ended := false
		lt.l.shutdown(0, func() { ended = true })
		lt.w.RunFor(time.Millisecond)
		if !ended || len(lt.running) != 1 || lt.running[0] == "<nil>" {
			t.Errorf("ended %v, running %v", ended, lt.running)
		}
	})
}
