package sim

import (
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

var (
	errDead  = errors.New("the node is gone")
	errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)
)

type connState int

const (
	dialling connState = iota
	open
	closing // Closed is on its way to the handler
	closed
)

// conn is one end of a connection.
type conn struct {
	n             *Node
	peer          *conn // nil until the other machine has answered
	id            int
	handler       env.Handler
	dialled       bool
	state         connState
	local, remote string
	remoteMachine string
	dialTimeout   *event
	maxMessage    int
	idle          time.Duration
	active        time.Duration // world time of the last frame in or out

	out      []env.Outgoing // sent by the owner, not yet by the network
	writing  bool           // an event will send out
	finished bool           // Close was called: nothing follows what is on its way
	paused   bool
	inbox    []*frame // arrived, not yet delivered
	draining bool     // an event will deliver the inbox

	in stream // from the peer to here
}

// stream is one direction of a connection: what is on its way arrives in order.
type stream struct {
	lastArrival time.Duration
	held        []*frame // cannot get through a cut link
	heldSince   time.Duration
	sent        int
	watched     bool // an event will look whether the link stays cut
}

// frame is on its way. A nil buffer is the end of the stream.
type frame struct {
	b  *env.Buffer
	no int
}

func (f *frame) release() {
	if f.b != nil {
		f.b.Release()
	}
}

func (w *World) newConn(n *Node, maxMessage int, idle time.Duration) *conn {
	w.nextConn++
	c := &conn{n: n, id: w.nextConn, maxMessage: maxMessage, idle: idle, active: w.Now()}
	if !n.dead {
		n.conns[c.id] = c
	}
	return c
}

func (c *conn) LocalAddr() string       { return c.local }
func (c *conn) RemoteAddr() string      { return c.remote }
func (c *conn) SetMaxMessage(bytes int) { c.maxMessage = bytes }
func (c *conn) Pause()                  { c.paused = true }

func (c *conn) Resume() {
	c.paused = false
	c.drain()
}

func (c *conn) name() string { return c.local + ">" + c.remote }

// Send queues a frame; an event of this node's kernel takes it from there.
func (c *conn) Send(o env.Outgoing) {
	if c.n.dead {
		return
	}
	c.n.operation("send")
	c.out = append(c.out, o)
	c.wakeWriter()
	c.n.operation("send")
}

func (c *conn) wakeWriter() {
	if c.writing || len(c.out) == 0 || c.state == dialling {
		return
	}
	c.writing = true
	w := c.n.w
	w.schedule(w.Scheduling.Between(time.Microsecond, w.o.SchedulingDelay), c.n, "send", c.name(), c.write)
}

// write hands everything queued to the network, or drops it if the connection is over. The parts are read only now,
// as a busy socket would.
func (c *conn) write() {
	c.writing = false
	out := c.out
	c.out = nil
	for _, o := range out {
		if c.state == open && !c.finished {
			c.writeFrame(o)
		}
		if o.Done != nil {
			o.Done()
		}
	}
}

func (c *conn) writeFrame(o env.Outgoing) {
	var size int64
	for _, p := range o.Parts {
		size += p.Size()
	}
	b := env.NewBuffer(int(size))
	at := 0
	for _, p := range o.Parts {
		if p.File == nil {
			at += copy(b.B[at:], p.Bytes)
			continue
		}
		if _, err := p.File.ReadAt(b.B[at:at+int(p.Length)], p.Offset); err != nil {
			b.Release()
			c.breakNow(fmt.Errorf("read %s to send it: %w", p.File.Name(), err))
			return
		}
		at += int(p.Length)
	}
	c.active = c.n.w.Now()
	c.transmit(b)
}

// transmit puts a frame, or the end of the stream if b is nil, on the way to the peer.
func (c *conn) transmit(b *env.Buffer) {
	w, s := c.n.w, &c.peer.in
	s.sent++
	f := &frame{b, s.sent}
	what := "end"
	if b != nil {
		what = fmt.Sprintf("%d B", len(b.B))
		if w.o.Describe != nil {
			what += " " + w.o.Describe(b.B)
		}
		w.mix(uint64(crc32.Checksum(b.B, castagnoli)))
	}
	w.note(c.n, "write", fmt.Sprintf("%s #%d %s", c.name(), f.no, what))
	if w.Net.Chance(w.o.Network.Reset) {
		c.resetByNetwork(f)
		return
	}
	c.forward(f)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// forward lets a frame arrive after the frames before it, or hold it back at a cut link.
func (c *conn) forward(f *frame) {
	w, s := c.n.w, &c.peer.in
	if len(s.held) > 0 || w.cuts[link{c.n.m.name, c.remoteMachine}] {
		c.hold(f)
		return
	}
	s.lastArrival = max(s.lastArrival, w.Now()+w.latency())
	w.scheduleAt(s.lastArrival, nil, "arrive", fmt.Sprintf("%s #%d", c.name(), f.no), func() { c.arrive(f) })
}

func (c *conn) hold(f *frame) {
	w, s := c.n.w, &c.peer.in
	if len(s.held) == 0 {
		s.heldSince = w.Now()
		w.Count("frames held at a cut link")
	}
	s.held = append(s.held, f)
	if !s.watched {
		s.watched = true
		since := s.heldSince
		w.schedule(w.o.Network.DeadAfter, nil, "expire", c.name(), func() {
			s.watched = false
			switch {
			case len(s.held) == 0:
			case s.heldSince == since:
				s.held = nil
				w.Count("connection died of a cut link")
				c.breakNow(fmt.Errorf("write: %w", syscall.ETIMEDOUT))
				c.peerNoticesLater()
			default: // healed and cut again meanwhile
				held := s.held
				s.held = nil
				for _, f := range held {
					c.hold(f)
				}
			}
		})
	}
}

// resend lets go what was held, if the link is there again.
func (c *conn) resend() {
	if c.peer == nil {
		return
	}
	w, s := c.n.w, &c.peer.in
	if len(s.held) == 0 || w.cuts[link{c.n.m.name, c.remoteMachine}] {
		return
	}
	held := s.held
	s.held = nil
	s.lastArrival = max(s.lastArrival, w.Now()+w.Net.Between(0, time.Second)) // when TCP tries again
	for _, f := range held {
		c.forward(f)
	}
}

// arrive is the kernel of the receiving machine. It takes frames for a frozen process; for one that is gone it
// answers with a reset.
func (c *conn) arrive(f *frame) {
	w, p := c.n.w, c.peer
	switch {
	case w.cuts[link{c.n.m.name, c.remoteMachine}]:
		c.hold(f)
	case p.n.dead || p.state == closed || p.state == closing && !p.finished:
		if p.n.dead && p.n.m.powerless {
			return
		}
		if f.b != nil && c.state == open && !w.cuts[link{c.remoteMachine, c.n.m.name}] {
			c.fail(w.latency(), errReset)
		}
	case p.finished: // closed over there: what comes now is thrown away
		f.release()
	default:
		p.inbox = append(p.inbox, f)
		p.drain()
	}
}

// drain delivers the inbox, a frame per event.
func (c *conn) drain() {
	if c.draining || c.paused || len(c.inbox) == 0 || c.handler == nil || c.state != open {
		return
	}
	c.draining = true
	f := c.inbox[0]
	what := fmt.Sprintf("%s>%s #%d end", c.remote, c.local, f.no)
	if f.b != nil {
		what = fmt.Sprintf("%s>%s #%d %d B", c.remote, c.local, f.no, len(f.b.B))
	}
	c.n.w.schedule(0, c.n, "deliver", what, func() {
		c.draining = false
		if c.paused || c.state != open || c.finished {
			return
		}
		c.inbox = c.inbox[1:]
		c.deliver(f)
		c.drain()
	})
}

func (c *conn) deliver(f *frame) {
	switch {
	case f.b == nil:
		c.shut(nil)
	case len(f.b.B) > c.maxMessage:
		c.breakNow(&env.FrameError{Size: int32(len(f.b.B)), Limit: c.maxMessage})
		c.peer.fail(c.n.w.latency(), errReset)
	default:
		c.active = c.n.w.Now()
		c.handler.Message(c, f.b)
	}
}

// Close sends the end of the stream behind what is on its way. What was not yet written is dropped.
func (c *conn) Close() {
	if c.finished || c.n.dead {
		return
	}
	if c.state == open {
		c.transmit(nil)
	}
	c.shut(nil)
}

// shut ends this end and tells the handler.
func (c *conn) shut(err error) {
	c.finished = true
	c.breakNow(err)
}

// fail breaks this end after a while.
func (c *conn) fail(after time.Duration, err error) {
	c.n.w.schedule(after, nil, "reset", c.name(), func() { c.breakNow(err) })
}

// breakNow ends this end without telling the peer.
func (c *conn) breakNow(err error) {
	if c.state >= closing || c.n.dead {
		return
	}
	c.state = closing
	w := c.n.w
	c.dialTimeout.cancel(w)
	name := c.name()
	if err != nil {
		name += ": " + err.Error()
	}
	w.schedule(0, c.n, "closed", name, func() {
		c.state = closed
		delete(c.n.conns, c.id)
		if len(c.out) > 0 && !c.writing {
			c.write() // drops it
		}
		for _, f := range c.inbox {
			f.release()
		}
		c.inbox = nil
		if c.handler != nil {
			c.handler.Closed(c, err)
		}
	})
}

// resetByNetwork breaks both ends; the frame may have got through before.
func (c *conn) resetByNetwork(f *frame) {
	w := c.n.w
	w.Count("connection reset")
	if w.Net.Chance(0.5) {
		w.Count("frame delivered before the reset")
		c.forward(f)
	}
	after := max(c.peer.in.lastArrival-w.Now(), 0)
	c.peer.fail(after+w.latency(), errReset)
	c.fail(after+w.latency(), errReset)
}

// peerNoticesLater is keep-alive: nobody tells the other end that this one is gone.
func (c *conn) peerNoticesLater() {
	if c.peer != nil {
		w := c.n.w
		c.peer.fail(w.Net.Between(w.o.Network.DeadAfter, 3*w.o.Network.DeadAfter), fmt.Errorf("read: %w", syscall.ETIMEDOUT))
	}
}

// nodeDied tells the peer, or leaves it to find out.
func (c *conn) nodeDied(silently bool) {
	if c.peer == nil || c.state >= closing {
		return
	}
	w := c.n.w
	if w.cuts[link{c.n.m.name, c.remoteMachine}] || silently && w.Net.Chance(0.5) {
		w.Count("half-open connection")
		c.peerNoticesLater()
		return
	}
	c.peer.fail(max(c.peer.in.lastArrival-w.Now(), 0)+w.latency(), errReset) // behind what is on its way
}

// watchIdle closes an end that has been quiet for too long.
func (c *conn) watchIdle() {
	if c.idle == 0 {
		return
	}
	w := c.n.w
	w.scheduleAt(c.active+c.idle, c.n, "timer", c.name()+" idle", func() {
		if c.state != open {
			return
		}
		if w.Now()-c.active < c.idle {
			c.watchIdle()
			return
		}
		c.transmit(nil)
		c.shut(env.ErrIdle)
	})
}
