package real

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

const (
	// maxQueued is the memory of frames that wait to be written above which an accepted connection is read no more:
	// a client that asks and does not listen costs this much, and what its requests under way add.
	maxQueued = 4 << 20
	// frameCost is what a queued frame costs besides its bytes.
	frameCost = 256
	// corkTime is how long answers wait for those of requests that came in the same read.
	corkTime = 100 * time.Microsecond
	// patience is how long a frame waits for the handler to return before another goroutine writes it.
	patience = time.Millisecond
)

// conn is one connection. Its goroutine reads, calls the handler, and writes what the handler sent, so that a request
// that is answered at once needs no other goroutine, and requests that came together are answered with one call to
// the system. What others send, and what the socket does not take at once, is written by a goroutine that lives until
// the queue is empty. Nothing is written, and Done is not called, inside Send.
type conn struct {
	env        *Env
	handler    env.Handler
	accepted   bool
	idle       time.Duration
	maxMessage atomic.Int64
	active     atomic.Int64 // env time of the last whole frame that came, or byte that left
	reader     reader       // the connection's own goroutine's
	writer     writer       // whoever set writing

	mu         sync.Mutex // guards what follows
	resumed    sync.Cond  // the reader may go on
	c          net.Conn   // nil until dialled
	local      string
	remote     string
	cancelDial func()
	idleTimer  *time.Timer
	out        []env.Outgoing
	queued     int  // memory of frames not yet written, with frameCost
	writing    bool // somebody is at it
	handling   bool // the handler runs: the reader writes when it is done
	since      time.Duration
	paused     bool
	choked     bool // queued went above maxQueued
	closed     bool
	reason     error
}

func newConn(e *Env, maxMessage int, idle time.Duration) *conn {
	k := &conn{env: e, idle: idle}
	k.resumed.L = &k.mu
	k.maxMessage.Store(int64(maxMessage))
	return k
}

func (k *conn) LocalAddr() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.local
}

func (k *conn) RemoteAddr() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remote
}

func (k *conn) SetMaxMessage(bytes int) { k.maxMessage.Store(int64(bytes)) }

func (k *conn) Pause() {
	k.mu.Lock()
	k.paused = true
	k.mu.Unlock()
}

func (k *conn) Resume() {
	k.mu.Lock()
	k.paused = false
	k.mu.Unlock()
	k.resumed.Signal()
}

// Close may be called from anywhere.
func (k *conn) Close() { k.shut(nil) }

// attach takes the connected socket; false if Close came first.
func (k *conn) attach(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		_ = c.Close() // nobody has used it
		return false
	}
	k.c, k.local = c, c.LocalAddr().String()
	if k.remote == "" {
		k.remote = c.RemoteAddr().String()
	}
	k.reader.attach(c)
	k.writer.attach(c)
	if k.idle > 0 {
		k.active.Store(int64(k.env.Monotonic()))
		k.idleTimer = time.AfterFunc(k.idle, k.checkIdle)
	}
	return true
}

// checkIdle runs when the connection may have been quiet for too long. Half a frame is quiet too.
func (k *conn) checkIdle() {
	left := k.idle - (k.env.Monotonic() - time.Duration(k.active.Load()))
	if left <= 0 {
		k.shut(env.ErrIdle)
		return
	}
	k.mu.Lock()
	if !k.closed {
		k.idleTimer.Reset(left)
	}
	k.mu.Unlock()
}

// shut ends the connection, the first time, and drops what nobody is writing. The connection's goroutine notices and
// tells the handler.
func (k *conn) shut(reason error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.closed, k.reason = true, reason
	c := k.c
	if k.idleTimer != nil {
		k.idleTimer.Stop()
	}
	if len(k.out) > 0 && !k.writing {
		k.writing = true
		go k.env.guard("connection", "drop", k.drop)
	}
	k.mu.Unlock()
	k.resumed.Signal()
	if k.cancelDial != nil {
		k.cancelDial()
	}
	switch c.(type) {
	case nil:
	case *net.TCPConn:
		_ = c.Close() // whatever it says, the connection is over
	default:
		go c.Close() // TLS says good-bye, and may wait for that
	}
}

// drop ends the frames that will not be written. Only whoever set writing calls it, once the connection is closed.
func (k *conn) drop() {
	k.writer.drop()
	for {
		k.mu.Lock()
		out := k.out
		k.out = nil
		if len(out) == 0 {
			k.writing = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		for _, o := range out {
			if o.Done != nil {
				o.Done()
			}
		}
	}
}

// run is the connection's goroutine.
func (k *conn) run(open func() bool) {
	k.env.guard("connection", k.RemoteAddr(), func() {
		if open() {
			k.shut(k.read())
		}
	})
	k.shut(nil) // after a panic, or if nobody wants the connection
	k.reader.release()
	k.mu.Lock()
	reason := k.reason
	k.mu.Unlock()
	if k.handler != nil {
		k.env.guard("connection", k.RemoteAddr(), func() { k.handler.Closed(k, reason) })
	}
}

// read delivers frames until the connection ends, and returns why it did.
func (k *conn) read() error {
	r := &k.reader
	var corked time.Duration // when the first answer began to wait; 0 = none does
	for {
		for {
			frame, err := r.next(int(k.maxMessage.Load()))
			if err != nil {
				return err
			}
			if frame == nil {
				break
			}
			if !k.admit() {
				frame.Release()
				return nil
			}
			k.handler.Message(k, frame)
			k.answered(r.more(), &corked)
		}
		switch err := r.fill(); {
		case errors.Is(err, io.EOF) && !r.partial():
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// admit waits until the handler may run; false = the connection is closed.
func (k *conn) admit() bool {
	now := k.env.Monotonic()
	k.active.Store(int64(now))
	k.mu.Lock()
	defer k.mu.Unlock()
	for (k.paused || k.choked) && !k.closed {
		k.startWriting()
		k.resumed.Wait()
	}
	k.handling, k.since = true, now
	return !k.closed
}

// answered follows the handler. If another whole frame is here already, answers wait for its.
func (k *conn) answered(more bool, corked *time.Duration) {
	k.mu.Lock()
	k.handling = false
	if len(k.out) == 0 || k.writing || k.closed {
		*corked = 0
		k.mu.Unlock()
		return
	}
	if more {
		now := k.env.Monotonic()
		if *corked == 0 {
			*corked = now
		}
		if now-*corked < corkTime {
			k.mu.Unlock()
			return
		}
	}
	*corked = 0
	k.writing = true
	k.mu.Unlock()
	if !k.write(false) {
		go k.env.guard("connection", "write", k.writeAll)
	}
}

// startWriting has another goroutine write what is queued, if nobody does. The lock is held.
func (k *conn) startWriting() {
	if len(k.out) > 0 && !k.writing && k.c != nil && !k.closed {
		k.writing = true
		go k.env.guard("connection", "write", k.writeAll)
	}
}

// Send queues a frame.
func (k *conn) Send(o env.Outgoing) {
	cost := frameCost
	for _, p := range o.Parts {
		cost += len(p.Bytes)
	}
	k.mu.Lock()
	k.out = append(k.out, o)
	if k.closed {
		if !k.writing {
			k.writing = true
			go k.env.guard("connection", "drop", k.drop)
		}
		k.mu.Unlock()
		return
	}
	k.queued += cost
	if k.accepted && k.queued > maxQueued {
		k.choked = true
	}
	// While the handler runs this is probably its own answer, and the reader will write it in a moment.
	if !k.handling || k.env.Monotonic()-k.since > patience {
		k.startWriting()
	}
	k.mu.Unlock()
}

// writeAll writes until nothing is left.
func (k *conn) writeAll() { k.write(true) }

// write sends what is queued. Without wait it returns false when the socket takes no more, and somebody has to go on.
func (k *conn) write(wait bool) bool {
	w := &k.writer
	for {
		if w.empty() {
			k.mu.Lock()
			if k.closed {
				k.mu.Unlock()
				k.drop()
				return true
			}
			if len(k.out) == 0 {
				k.writing = false
				k.mu.Unlock()
				return true
			}
			k.out = w.take(k.out)
			k.mu.Unlock()
		}
		written, full, err := w.write(wait)
		if written > 0 {
			k.active.Store(int64(k.env.Monotonic()))
		}
		k.credit(w.finish())
		switch {
		case err != nil:
			k.shut(err)
			k.drop()
			return true
		case full:
			return false
		}
	}
}

// credit takes the memory of written frames off the account.
func (k *conn) credit(bytes int) {
	if bytes == 0 {
		return
	}
	k.mu.Lock()
	k.queued -= bytes
	goOn := k.choked && k.queued <= maxQueued/2
	if goOn {
		k.choked = false
	}
	k.mu.Unlock()
	if goOn {
		k.resumed.Signal()
	}
}
