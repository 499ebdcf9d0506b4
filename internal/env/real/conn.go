package real

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

const (
	readAhead  = 4 << 10   // small frames that came together are read with one call
	firstChunk = 128 << 10 // what a frame gets before its bytes have come
	growth     = 8         // at most so many times what has come is kept for a frame
)

// conn is one TCP connection: read by its own goroutine, written by whoever sends or, when the socket is full, by a
// goroutine that lives until the queue is empty.
type conn struct {
	env        *Env
	handler    env.Handler
	idle       time.Duration
	maxMessage atomic.Int64
	remote     string
	local      string
	cancelDial func()
	gate       gate

	// lastWrite is env time of the last completed write; with reads it decides whether the connection is idle.
	lastWrite atomic.Int64

	mu      sync.Mutex // guards what follows
	c       net.Conn   // nil until dialled
	out     []env.Outgoing
	writing bool // a goroutine or a sender is at out
	closed  bool
	ended   bool
}

func newConn(e *Env, c net.Conn, maxMessage int, idle time.Duration) *conn {
	k := &conn{env: e, c: c, idle: idle}
	k.gate.cond.L = &k.gate.mu
	k.maxMessage.Store(int64(maxMessage))
	if c != nil {
		k.remote, k.local = c.RemoteAddr().String(), c.LocalAddr().String()
	}
	return k
}

func (k *conn) LocalAddr() string       { return k.local }
func (k *conn) RemoteAddr() string      { return k.remote }
func (k *conn) SetMaxMessage(bytes int) { k.maxMessage.Store(int64(bytes)) }
func (k *conn) Pause()                  { k.gate.set(true) }
func (k *conn) Resume()                 { k.gate.set(false) }

// opened takes the dialled connection; false if Close came first.
func (k *conn) opened(c net.Conn) bool {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		_ = c.Close() // nobody uses it
		k.end(nil)
		return false
	}
	k.c, k.local = c, c.LocalAddr().String()
	start := len(k.out) > 0
	k.writing = start
	k.mu.Unlock()
	if start {
		go k.env.guard("write to "+k.remote, k.write)
	}
	return true
}

// Close may be called from anywhere; the reader notices and ends.
func (k *conn) Close() {
	k.mu.Lock()
	already := k.closed
	k.closed = true
	c := k.c
	var dropped []env.Outgoing
	if !k.writing {
		dropped, k.out = k.out, nil
	}
	k.mu.Unlock()
	if already {
		return
	}
	if k.cancelDial != nil {
		k.cancelDial()
	}
	if c != nil {
		_ = c.Close() // the reader reports why the connection ended
	}
	k.gate.close()
	drop(dropped)
}

func drop(out []env.Outgoing) {
	for _, o := range out {
		if o.Done != nil {
			o.Done()
		}
	}
}

// end closes and tells the handler, once.
func (k *conn) end(err error) {
	k.Close()
	k.mu.Lock()
	ended := k.ended
	k.ended = true
	k.mu.Unlock()
	if !ended {
		k.handler.Closed(k, err)
	}
}

func (k *conn) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// read delivers frames until the connection ends.
func (k *conn) read() {
	r := bufio.NewReaderSize(k.c, readAhead)
	for {
		b, err := k.readFrame(r)
		if err != nil {
			if k.isClosed() || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			k.end(err)
			return
		}
		k.handler.Message(k, b)
		if !k.gate.wait() {
			k.end(nil)
			return
		}
	}
}

func (k *conn) readFrame(r *bufio.Reader) (*env.Buffer, error) {
	head, err := k.peekLength(r)
	if err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head))
	if limit := k.maxMessage.Load(); size < 0 || int64(size) > limit {
		return nil, &env.FrameError{Size: size, Limit: int(limit)}
	}
	_, _ = r.Discard(4) // just peeked
	b := env.NewBuffer(min(int(size), firstChunk))
	for got := 0; ; {
		n, err := io.ReadFull(r, b.B[got:])
		got += n
		if err != nil {
			b.Release()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got == int(size) {
			return b, nil
		}
		bigger := env.NewBuffer(min(int(size), growth*got))
		copy(bigger.B, b.B)
		b.Release()
		b = bigger
		k.extendDeadline()
	}
}

// peekLength waits for the next frame. A connection that only waits for answers is not idle while they are sent.
func (k *conn) peekLength(r *bufio.Reader) ([]byte, error) {
	if r.Buffered() >= 4 {
		return r.Peek(4)
	}
	for {
		k.extendDeadline()
		head, err := r.Peek(4)
		if err == nil {
			return head, nil
		}
		if r.Buffered() > 0 && errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		quiet := k.env.Monotonic() - time.Duration(k.lastWrite.Load())
		if errors.Is(err, os.ErrDeadlineExceeded) && quiet < k.idle && r.Buffered() == 0 {
			continue
		}
		return nil, err
	}
}

func (k *conn) extendDeadline() {
	if k.idle > 0 {
		_ = k.c.SetReadDeadline(time.Now().Add(k.idle)) // fails on a closed connection only
	}
}
