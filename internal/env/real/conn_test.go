package real

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// heldBytes is what is reachable, and for sure not what is waiting for the collector.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC() // pools keep a second generation
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAnnouncedIsNotHeld: frames of 100 MB that were announced, and of which little came, cost little. So do frames
// of which 1 MB came.
func TestAnnouncedIsNotHeld(t *testing.T) {
	e := New(Options{})
	h := newEcho()
	l := listen(t, e, env.ListenOptions{MaxMessage: 100 << 20, IdleTimeout: time.Minute}, h)
	const conns = 20
	for _, sent := range []int{0, 1, 100, 1 << 20} {
		before := heldBytes()
		var all []net.Conn
		for range conns {
			c, err := net.Dial("tcp", l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
			b := binary.BigEndian.AppendUint32(nil, 100<<20)
			if _, err := c.Write(append(b, make([]byte, sent)...)); err != nil {
				t.Fatal(err)
			}
			// Once everything has been read the server has nothing left in its socket, and closing is seen at once.
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if err := <-h.closed; !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("closed with %v", err)
			}
		}
		var r reader
		r.source = &given{size: 100 << 20, left: 4 + sent}
		for err := error(nil); err == nil; err = r.fill() {
			if _, err := r.next(100 << 20); err != nil {
				t.Fatal(err)
			}
		}
		if limit := max(firstRoom, 2*sent+headSize); len(r.frame.B) > limit {
			t.Errorf("%d bytes of a frame came and it holds %d", sent, len(r.frame.B))
		}
		r.release()
		for _, c := range all {
			_ = c.Close()
		}
		if held := heldBytes() - before; held > conns<<20 {
			t.Errorf("%d connections that sent %d bytes left %d bytes behind", conns, sent, held)
		}
	}
}

// given is a source of one frame's length and zeros.
type given struct{ size, left int }

func (g *given) read(room []byte, more bool, skip int) (int, *env.Buffer, error) {
	if g.left == 0 {
		return 0, nil, io.EOF
	}
	if len(room) == 0 {
		head := env.NewBuffer(headSize)
		n := min(headSize-skip, g.left, 1000)
		clear(head.B)
		binary.BigEndian.PutUint32(head.B, uint32(g.size))
		g.left -= n
		return n, head, nil
	}
	n := min(len(room), g.left, 100_000)
	g.left -= n
	return n, nil, nil
}

// TestAClientThatDoesNotReadIsReadNoMore: answers that nobody takes must not fill the memory.
func TestAClientThatDoesNotReadIsReadNoMore(t *testing.T) {
	e := New(Options{})
	s := &large{handled: make(chan struct{}, 1000), given: make(chan struct{}, 1000), answer: make([]byte, 1<<20)}
	l := listen(t, e, env.ListenOptions{}, s)
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const requests = 200
	go func() {
		for range requests {
			if _, err := c.Write([]byte{0, 0, 0, 1, 7}); err != nil {
				return
			}
		}
	}()
	for range 3 {
		<-s.handled
	}
	// As many as fit into the queue and the sockets' buffers are handled, and no more: wait until it stands still.
	quiet := time.NewTimer(100 * time.Millisecond)
	for waiting := true; waiting; {
		select {
		case <-s.handled:
			quiet.Reset(100 * time.Millisecond)
		case <-quiet.C:
			waiting = false
		}
	}
	if n := s.count.Load(); n > 40 {
		t.Errorf("%d answers of 1 MiB were made for a client that reads none", n)
	}
	buf := make([]byte, 1<<20+4)
	for i := range requests {
		if _, err := io.ReadFull(c, buf); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	for range requests {
		<-s.given // the last of them a little after they were read
	}
}

type large struct {
	count   atomic.Int64
	handled chan struct{}
	given   chan struct{} // back
	answer  []byte
}

func (l *large) Opened(env.Conn) {}
func (l *large) Message(c env.Conn, b *env.Buffer) {
	b.Release()
	l.count.Add(1)
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: l.answer}}, Done: func() { l.given <- struct{}{} }})
	select {
	case l.handled <- struct{}{}:
	default:
	}
}
func (l *large) Closed(env.Conn, error) {}

// TestDoneIsNotCalledInsideSend: whoever sends may hold a lock that Done takes.
func TestDoneIsNotCalledInsideSend(t *testing.T) {
	e := New(Options{})
	var mu sync.Mutex
	var done sync.WaitGroup
	client := collect{newEcho()}
	l := listen(t, e, env.ListenOptions{}, newEcho())
	c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
	for i := range 300 {
		done.Add(1)
		mu.Lock()
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: make([]byte, i*100)}}, Done: func() {
			mu.Lock()
			defer mu.Unlock()
			done.Done()
		}})
		if i == 200 {
			c.Close()
		}
		mu.Unlock()
	}
	done.Wait()
	if err := <-client.closed; err != nil {
		t.Errorf("closed with %v", err)
	}
}

// TestManySendersKeepTheirOrder: frames of one sender leave in the order of its calls.
func TestManySendersKeepTheirOrder(t *testing.T) {
	e := New(Options{})
	const senders, frames = 8, 500
	client := collect{&echo{got: make(chan []byte, senders*frames), closed: make(chan error, 1)}}
	l := listen(t, e, env.ListenOptions{}, newEcho())
	c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
	for s := range senders {
		go func() {
			for i := range frames {
				b := binary.BigEndian.AppendUint32([]byte{byte(s)}, uint32(i))
				c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b}, {Bytes: make([]byte, 1+i*7%5000)}}})
			}
		}()
	}
	var next [senders]uint32
	for range senders * frames {
		b := <-client.got
		if i := binary.BigEndian.Uint32(b[1:]); i != next[b[0]] {
			t.Fatalf("sender %d: frame %d came for %d", b[0], i, next[b[0]])
		}
		next[b[0]]++
	}
	c.Close()
}

func TestBigFramesOverTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	e := New(Options{})
	l := listen(t, e, env.ListenOptions{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}, newEcho())
	client := collect{newEcho()}
	c := e.Net().Dial(l.Addr(), env.DialOptions{TLS: &tls.Config{RootCAs: roots}}, client)
	for _, n := range []int{0, 1, 20_000, 3 << 20} {
		b := make([]byte, n)
		e.Rand().Read(b)
		c.Send(env.Outgoing{Parts: []env.Part{{Bytes: b}}})
		if got := <-client.got; string(got) != string(b) {
			t.Fatalf("a frame of %d bytes came back as %d others", n, len(got))
		}
	}
	c.Close()
	if err := <-client.closed; err != nil {
		t.Errorf("closed with %v", err)
	}
	stranger := collect{newEcho()}
	e.Net().Dial(l.Addr(), env.DialOptions{TLS: &tls.Config{}}, stranger)
	if err := <-stranger.closed; err == nil {
		t.Error("a certificate that nobody signed was taken")
	}
}

// TestAnAnswerAfterALongHandler does not wait for it.
func TestAnAnswerAfterALongHandler(t *testing.T) {
	e := New(Options{})
	release := make(chan struct{})
	conns := make(chan env.Conn, 1)
	l := listen(t, e, env.ListenOptions{}, &stuck{conns, release})
	client := collect{newEcho()}
	c := e.Net().Dial(l.Addr(), env.DialOptions{}, client)
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("x")}}})
	server := <-conns
	for len(client.got) == 0 { // the first of these may come within its patience, a later one does not
		server.Send(env.Outgoing{Parts: []env.Part{{Bytes: []byte("y")}}})
		runtime.Gosched()
	}
	close(release)
	c.Close()
}

type stuck struct {
	conns   chan env.Conn
	release chan struct{}
}

func (*stuck) Opened(env.Conn) {}
func (s *stuck) Message(c env.Conn, b *env.Buffer) {
	b.Release()
	s.conns <- c
	<-s.release
}
func (*stuck) Closed(env.Conn, error) {}
