package real

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// echo answers each frame with itself, or with a region of a file.
type echo struct {
	file   env.File
	got    chan []byte
	closed chan error
}

func newEcho() *echo { return &echo{got: make(chan []byte, 100), closed: make(chan error, 10)} }

func (e *echo) Opened(env.Conn) {}

func (e *echo) Message(c env.Conn, b *env.Buffer) {
	if e.file != nil {
		size, _ := e.file.Size()
		b.Release()
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("head")}, {File: e.file, Offset: 10, Length: size - 20}, {Bytes: []byte("tail")}}})
		return
	}
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b.B}}, Done: b.Release})
}

func (e *echo) Closed(_ env.Conn, err error) { e.closed <- err }

// collect keeps what a dialled connection receives.
type collect struct{ *echo }

func (c collect) Message(_ env.Conn, b *env.Buffer) {
	c.got <- bytes.Clone(b.B)
	b.Release()
}

func listen(t *testing.T, e *Env, o env.ListenOptions, h env.Handler) env.Listener {
	t.Helper()
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	l, err := e.Net().Listen("127.0.0.1:0", o, func(env.Conn) env.Handler { return h })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestFramesOfEverySizeComeBackInOrder(t *testing.T) {
	env.Poison.Store(true)
	defer env.Poison.Store(false)
	e := New(Options{})
	l := listen(t, e, env.ListenOptions{}, newEcho())
	client := collect{newEcho()}
	c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
	sizes := []int{0, 1, 4095, 4096, 4097, firstRoom - 1, firstRoom + 1, 1 << 20, 3<<20 + 7, 20 << 20}
	var want [][]byte
	for _, n := range sizes {
		b := make([]byte, n)
		e.Rand().Read(b)
		want = append(want, b)
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b[:n/2]}, {Bytes: b[n/2:]}}})
	}
	for i := range want {
		if got := <-client.got; !bytes.Equal(got, want[i]) {
			t.Fatalf("frame %d of %d bytes came back with %d other bytes", i, len(want[i]), len(got))
		}
	}
	c.Close()
	if err := <-client.closed; err != nil {
		t.Errorf("closing in order reported %v", err)
	}
}

func TestRegionsOfFiles(t *testing.T) {
	for _, size := range []int{100, int(smallRegion), 5 << 20} {
		e := New(Options{})
		data := make([]byte, size)
		e.Rand().Read(data)
		name := filepath.Join(t.TempDir(), "segment")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := e.FS().Open(name, os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		server := newEcho()
		server.file = f
		l := listen(t, e, env.ListenOptions{}, server)
		client := collect{newEcho()}
		c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
		for range 3 {
			c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("x")}}})
		}
		want := "head" + string(data[10:size-10]) + "tail"
		for i := range 3 {
			if got := <-client.got; string(got) != want {
				t.Fatalf("region of %d bytes, answer %d: got %d other bytes", size, i, len(got))
			}
		}
		c.Close()
	}
}

// TestLengthsThatLie: a negative or huge length ends the connection with a FrameError, half a frame with an error.
func TestLengthsThatLie(t *testing.T) {
	e := New(Options{})
	for name, input := range map[string][]byte{
		"negative":  {0xff, 0xff, 0xff, 0xff},
		"huge":      {0x7f, 0xff, 0xff, 0xff},
		"HTTP":      []byte("GET / HTTP/1.1\r\n\r\n"),
		"cut":       {0, 0, 0, 9, 1, 2},
		"cut early": {0, 0},
	} {
		h := newEcho()
		l := listen(t, e, env.ListenOptions{MaxMessage: 1 << 20}, h)
		c, err := net.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(input); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		err = <-h.closed
		var frame *env.FrameError
		switch name {
		case "cut", "cut early":
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: ended with %v", name, err)
			}
		default:
			if !errors.As(err, &frame) {
				t.Errorf("%s: ended with %v", name, err)
			}
		}
		_ = c.Close()
	}
}

func TestSilenceEndsAConnection(t *testing.T) {
	e := New(Options{})
	h := newEcho()
	l := listen(t, e, env.ListenOptions{IdleTimeout: 50 * time.Millisecond}, h)
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(binary.BigEndian.AppendUint32(nil, 1000)); err != nil { // a length, then nothing
		t.Fatal(err)
	}
	if err := <-h.closed; !errors.Is(err, env.ErrIdle) {
		t.Errorf("ended with %v", err)
	}
}

func TestDialFailureIsReported(t *testing.T) {
	e := New(Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	client := collect{newEcho()}
	done := make(chan struct{})
	c := e.Net().Dial(addr, env.DialOptions{}, client)
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("x")}}, Done: func() { close(done) }})
	if err := <-client.closed; err == nil {
		t.Error("no error from a port where nobody listens")
	}
	<-done
}

func TestPauseHoldsFramesBack(t *testing.T) {
	e := New(Options{})
	server := &pausing{echo: newEcho()}
	l := listen(t, e, env.ListenOptions{}, server)
	client := collect{newEcho()}
	c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("a")}}})
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("b")}}})
	first := <-server.got
	select {
	case b := <-server.got:
		t.Fatalf("%q came while the connection was paused after %q", b, first)
	case <-time.After(30 * time.Millisecond):
	}
	server.conn.Resume()
	if b := <-server.got; string(b) != "b" {
		t.Errorf("after resuming came %q", b)
	}
	c.Close()
}

type pausing struct {
	*echo
	conn env.Conn
}

func (p *pausing) Message(c env.Conn, b *env.Buffer) {
	if p.conn == nil {
		p.conn = c
		c.Pause()
	}
	p.got <- bytes.Clone(b.B)
	b.Release()
}

func TestQueueOrderAndTimers(t *testing.T) {
	e := New(Options{})
	q := e.NewQueue("test")
	var got []int
	for i := range 1000 {
		q.Post("n", func() { got = append(got, i) })
	}
	fired := make(chan bool, 2)
	q.After(time.Millisecond, "timer", func() { fired <- true })
	stopped := q.After(time.Hour, "never", func() { fired <- false })
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must succeed once")
	}
	if !<-fired {
		t.Error("a stopped timer ran")
	}
	done := make(chan struct{})
	q.Post("last", func() { got = append(got, -1) })
	q.Close(func() { close(done) })
	q.Post("too late", func() { t.Error("ran after Close") })
	<-done
	for i, n := range got[:1000] {
		if n != i {
			t.Fatalf("function %d ran at place %d", n, i)
		}
	}
	if len(got) != 1001 {
		t.Errorf("%d functions ran", len(got))
	}
}

func TestPanicIsReported(t *testing.T) {
	reasons := make(chan any, 1)
	e := New(Options{OnPanic: func(_ string, reason any, _ []byte) { reasons <- reason }})
	q := e.NewQueue("test")
	q.Post("bad", func() { panic("broken") })
	if r := <-reasons; r != "broken" {
		t.Errorf("reason %v", r)
	}
	q.Close(nil)
}

func TestLockExcludesAnotherOwner(t *testing.T) {
	fsys := New(Options{}).FS()
	name := filepath.Join(t.TempDir(), ".lock")
	held, err := fsys.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Lock(name); !errors.Is(err, env.ErrLocked) {
		t.Errorf("a second lock gave %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := fsys.Lock(name)
	if err != nil {
		t.Fatalf("after the first owner left: %v", err)
	}
	_ = again.Close()
}

func TestWriteFileAtomic(t *testing.T) {
	fsys := New(Options{}).FS()
	name := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"first", "second and longer", ""} {
		if err := env.WriteFileAtomic(fsys, name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := env.ReadFile(fsys, name); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
}
