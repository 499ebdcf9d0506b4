package rpc

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// server answers ApiVersions requests; how is up to the test.
type server struct {
	conns   int
	answer  func(c env.Conn, h *protocol.RequestHeader)
	packets int
}

func (s *server) Opened(env.Conn) {}

func (s *server) Message(c env.Conn, b *env.Buffer) {
	defer b.Release()
	s.packets++
	h := protocol.NewRequestHeader()
	key := int16(b.B[0])<<8 | int16(b.B[1])
	version := int16(b.B[2])<<8 | int16(b.B[3])
	if err := h.Decode(wire.NewDecoder(b.B), protocol.RequestHeaderVersion(key, version)); err != nil {
		panic(err)
	}
	s.answer(c, h)
}

func (s *server) Closed(env.Conn, error) {}

func reply(c env.Conn, h *protocol.RequestHeader, correlationID int32) {
	rh := protocol.ResponseHeader{CorrelationId: correlationID}
	b, err := rh.Encode(nil, protocol.ResponseHeaderVersion(h.RequestApiKey, h.RequestApiVersion))
	if err != nil {
		panic(err)
	}
	resp := protocol.NewResponse(h.RequestApiKey)
	if r, ok := resp.(*protocol.ApiVersionsResponse); ok {
		r.ThrottleTimeMs = 1000 + h.CorrelationId
	}
	b, err = resp.Encode(b, h.RequestApiVersion)
	if err != nil {
		panic(err)
	}
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b}}})
}

type world struct {
	*sim.World
	server *server
	a, b   *sim.Node
	client *Client
}

func newWorld(t *testing.T) *world {
	w := &world{World: sim.NewWorld(1, sim.Options{}), server: &server{}}
	w.a, w.b = w.NewNode("a"), w.NewNode("b")
	w.server.answer = func(c env.Conn, h *protocol.RequestHeader) { reply(c, h, h.CorrelationId) }
	w.listen(t)
	w.client = NewClient(w.b, "a:9092", "test")
	return w
}

func (w *world) listen(t *testing.T) {
	_, err := w.a.Net().Listen(":9092", env.ListenOptions{MaxMessage: 1 << 20}, func(env.Conn) env.Handler {
		w.server.conns++
		return w.server
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request and returns where its answer will be.
func (w *world) ask(t *testing.T) *answer {
	a := &answer{}
	inside := true
	w.client.Send(protocol.NewApiVersionsRequest(), 3, time.Second, func(r protocol.Response, err error) {
		if inside {
			t.Error("done ran inside Send")
		}
		a.times++
		a.resp, a.err, a.at = r, err, w.Now()
	})
	inside = false
	return a
}

type answer struct {
	times int
	resp  protocol.Response
	err   error
	at    time.Duration
}

func (a *answer) check(t *testing.T, want error) {
	t.Helper()
	if a.times != 1 {
		t.Errorf("done was called %d times", a.times)
	}
	if !errors.Is(a.err, want) || (want == nil) != (a.resp != nil) {
		t.Errorf("the answer is %v, error %v; expected error %v", a.resp, a.err, want)
	}
}

func TestAnswersFindTheirRequests(t *testing.T) {
	w := newWorld(t)
	var all []*answer
	for range 10 {
		all = append(all, w.ask(t))
	}
	w.RunFor(500 * time.Millisecond)
	for i, a := range all {
		a.check(t, nil)
		if got := a.resp.(*protocol.ApiVersionsResponse).ThrottleTimeMs; got != int32(1000+i) {
			t.Errorf("request %d got the answer of request %d", i, got-1000)
		}
	}
	if w.server.conns != 1 {
		t.Errorf("%d connections", w.server.conns)
	}
}

func TestATimeoutEndsTheConnection(t *testing.T) {
	w := newWorld(t)
	answered := w.server.answer
	w.server.answer = func(env.Conn, *protocol.RequestHeader) {}
	first := w.ask(t)
	w.RunFor(500 * time.Millisecond)
	second := w.ask(t)
	w.RunFor(600 * time.Millisecond)
	first.check(t, ErrTimeout)
	if first.at != time.Second {
		t.Errorf("timed out at %s", first.at)
	}
	second.check(t, ErrDisconnected)
	w.server.answer = answered
	third := w.ask(t)
	w.RunFor(time.Second)
	third.check(t, nil)
	if w.server.conns != 2 {
		t.Errorf("%d connections", w.server.conns)
	}
}

func TestAWrongCorrelationIDEndsTheConnection(t *testing.T) {
	w := newWorld(t)
	w.server.answer = func(c env.Conn, h *protocol.RequestHeader) { reply(c, h, h.CorrelationId+1) }
	a := w.ask(t)
	w.RunFor(time.Second)
	if a.times != 1 || a.err == nil || !strings.Contains(a.err.Error(), "correlation id is 1, not 0") {
		t.Errorf("%d answers, error %v", a.times, a.err)
	}
}

func TestGarbageIsAnError(t *testing.T) {
	w := newWorld(t)
	w.server.answer = func(c env.Conn, h *protocol.RequestHeader) {
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte{0, 0, 0, 0, 0}}}})
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte{1}}}})
	}
	a := w.ask(t)
	w.RunFor(time.Second)
	if a.times != 1 || a.err == nil {
		t.Errorf("%d answers, error %v", a.times, a.err)
	}
}

func TestARequestThatNobodyTakesFails(t *testing.T) {
	w := newWorld(t)
	w.a.Kill()
	a := w.ask(t)
	w.RunFor(20 * time.Millisecond)
	a.check(t, syscall.ECONNREFUSED)
	// The next one waits out the back-off; by then the server is there again.
	b := w.ask(t)
	w.a = w.a.Restart()
	w.listen(t)
	w.RunFor(time.Second)
	b.check(t, nil)
	if b.at < 40*time.Millisecond {
		t.Errorf("connected at %s", b.at)
	}
}

func TestAServerThatDiesFailsWhatWasSent(t *testing.T) {
	w := newWorld(t)
	w.server.answer = func(env.Conn, *protocol.RequestHeader) { w.After(0, "kill", w.a.Kill) }
	a := w.ask(t)
	w.RunFor(time.Second)
	a.check(t, ErrDisconnected)
}

func TestCloseFailsEverything(t *testing.T) {
	w := newWorld(t)
	w.server.answer = func(env.Conn, *protocol.RequestHeader) {}
	a := w.ask(t)
	w.RunFor(100 * time.Millisecond)
	b := w.ask(t)
	w.client.Close()
	c := w.ask(t)
	w.RunFor(time.Minute)
	for _, x := range []*answer{a, b, c} {
		x.check(t, ErrClosed)
	}
}

func TestAVersionThatDoesNotExistIsAnError(t *testing.T) {
	w := newWorld(t)
	times := 0
	w.client.Send(protocol.NewApiVersionsRequest(), 99, time.Second, func(r protocol.Response, err error) {
		times++
		if err == nil {
			t.Errorf("sent %v", r)
		}
	})
	w.RunFor(time.Second)
	if times != 1 || w.server.packets != 0 {
		t.Errorf("%d answers, %d packets", times, w.server.packets)
	}
}

func TestAcksZeroIsAnsweredByNobody(t *testing.T) {
	w := newWorld(t)
	answered := w.server.answer
	w.server.answer = func(c env.Conn, h *protocol.RequestHeader) {
		if h.RequestApiKey != protocol.KeyProduce {
			answered(c, h)
		}
	}
	p := protocol.NewProduceRequest()
	p.Acks = 0
	times := 0
	w.client.Send(p, 9, time.Second, func(r protocol.Response, err error) {
		times++
		if r != nil || err != nil {
			t.Errorf("answer %v, %v", r, err)
		}
	})
	a := w.ask(t)
	w.RunFor(time.Minute)
	a.check(t, nil)
	if times != 1 {
		t.Errorf("done was called %d times", times)
	}
}
