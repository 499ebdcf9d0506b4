package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
)

// lines are what a server logs.
type lines struct {
	mu   sync.Mutex
	b    bytes.Buffer
	came chan struct{} // has one element if something came since it was looked at
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.came <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.b.String()
	l.b.Reset()
	return s
}

// held are requests whose answers wait until the test lets them go.
type held struct {
	mu    sync.Mutex
	calls []func()
	came  chan string // the client id of each
}

func (h *held) metadata(ctx *rpc.Context, _ *protocol.MetadataRequest, respond func(*protocol.MetadataResponse)) {
	h.mu.Lock()
	h.calls = append(h.calls, func() { respond(protocol.NewMetadataResponse()) })
	h.mu.Unlock()
	h.came <- ctx.ClientID
}

// answer lets request i go.
func (h *held) answer(i int) {
	h.mu.Lock()
	call := h.calls[i]
	h.mu.Unlock()
	call()
}

// testServer is a server that knows ApiVersions, and Metadata that waits.
func testServer(t testing.TB, o Options) (s *Server, addr string, h *held, log *lines) {
	t.Helper()
	env.Poison.Store(true)
	log = &lines{came: make(chan struct{}, 1)}
	e := real.New(real.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	o.KRaftVersion = func() int16 { return 1 }
	if o.Image == nil {
		o.Image = func() *image.Image { return image.Empty }
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = 100 << 20
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight, o.MaxInFlightBytes = 32, 8<<20
	}
	s = New(e, o)
	addr, err := s.Listen("PLAINTEXT", "127.0.0.1:0", OnBroker)
	if err != nil {
		t.Fatal(err)
	}
	s.Bind(Targets{})
	h = &held{came: make(chan string, 1000)}
	s.listeners[0].table[protocol.KeyMetadata] = &api{key: protocol.KeyMetadata, min: 0, max: 13, name: "Metadata", make: func() exchange {
		return newTyped((*held).metadata).with(h)
	}}
	s.Serve("PLAINTEXT")
	t.Cleanup(s.Close)
	return s, addr, h, log
}

// peer is a client that sends bytes.
type peer struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, addr string) peer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return peer{t, c}
}

// frame is a request with its length.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// reqFrame is a request of a client with header version 1 or 2.
func reqFrame(req protocol.Request, version int16, correlation int32, clientID string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(req.APIKey()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(clientID))), clientID...)
	if protocol.RequestHeaderVersion(req.APIKey(), version) >= 2 {
		b = append(b, 0)
	}
	b, err := req.Encode(b, version)
	if err != nil {
		panic(err)
	}
	return frame(b)
}

func (p peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// read reads an answer without its length.
func (p peer) read() []byte {
	p.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(p, size[:]); err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p, b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// closed waits until the server has closed the connection, without a byte.
func (p peer) closed() {
	p.t.Helper()
	n, err := p.Read(make([]byte, 1))
	var timeout net.Error
	if n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Fatalf("the connection was not closed: %d bytes, %v", n, err)
	}
}

func apiVersions(t *testing.T, answer []byte, version int16) *protocol.ApiVersionsResponse {
	t.Helper()
	resp := protocol.NewApiVersionsResponse()
	d := wire.NewDecoder(answer[4:])
	if err := resp.Decode(d, version); err != nil || d.Remaining() > 0 {
		t.Fatalf("decode %x: %v, %d bytes left", answer, err, d.Remaining())
	}
	return resp
}

func TestApiVersions(t *testing.T) {
	_, addr, _, _ := testServer(t, Options{})
	p := dial(t, addr)
	good := func() *protocol.ApiVersionsRequest {
		req := protocol.NewApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a-client", "1.0"
		return req
	}
	// From the future: version 0, error 35, the range of ApiVersions alone. The connection stays open.
	future := reqFrame(good(), 3, 7, "x")
	binary.BigEndian.PutUint16(future[6:], 99)
	p.send(future)
	resp := apiVersions(t, p.read(), 0)
	if diff := cmp.Diff([]protocol.ApiVersionsResponseApiVersion{{ApiKey: 18, MinVersion: 0, MaxVersion: 5}}, resp.ApiKeys); diff != "" || resp.ErrorCode != 35 {
		t.Errorf("error %d, %s", resp.ErrorCode, diff)
	}
	for v := int16(0); v <= 5; v++ {
		p.send(reqFrame(good(), v, 8, "x"))
		resp := apiVersions(t, p.read(), v)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != 4 {
			t.Errorf("version %d: %+v", v, resp)
		}
		if v >= 3 && (len(resp.SupportedFeatures) == 0 || len(resp.FinalizedFeatures) != 1 || resp.FinalizedFeatures[0].Name != "kraft.version") {
			t.Errorf("version %d: features %+v %+v", v, resp.SupportedFeatures, resp.FinalizedFeatures)
		}
	}
	// Names of software that are none.
	for _, name := range []string{"", " x", "x y", "-x", "x-", "ü"} {
		req := good()
		req.ClientSoftwareName = name
		p.send(reqFrame(req, 3, 9, "x"))
		if resp := apiVersions(t, p.read(), 3); resp.ErrorCode != 42 {
			t.Errorf("name %q: error %d", name, resp.ErrorCode)
		}
	}
	// A null and an empty client id.
	for _, h := range []string{"00000010001200030000000 7ffff000241024200", "00000010 0012 0003 00000007 0000 00 02410242 00"} {
		b, err := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		p.send(b)
		if resp := apiVersions(t, p.read(), 3); resp.ErrorCode != 0 {
			t.Errorf("%s: error %d", h, resp.ErrorCode)
		}
	}
}

// Every API that is in the table is advertised with the versions of Apache Kafka 4.4.0, Produce from version 0 on.
func TestTable(t *testing.T) {
	for _, r := range apis {
		a := protocol.Lookup(r.key)
		if a == nil || r.min != a.Min || r.max != a.MaxStable() {
			t.Errorf("key %d: versions %d to %d", r.key, r.min, r.max)
		}
	}
	if got := advertised(&api{key: protocol.KeyProduce, min: 3, max: 13}); got.MinVersion != 0 || got.MaxVersion != 13 {
		t.Errorf("Produce is advertised as %+v", got)
	}
}

// Requests begin in order, before earlier ones are answered; answers come in order, whoever is ready first.
func TestOrder(t *testing.T) {
	_, addr, h, _ := testServer(t, Options{})
	p := dial(t, addr)
	for i, id := range []string{"a", "b", "c"} {
		p.send(reqFrame(protocol.NewMetadataRequest(), 1, int32(i), id))
	}
	for _, want := range []string{"a", "b", "c"} {
		if got := <-h.came; got != want {
			t.Fatalf("%s began, want %s", got, want)
		}
	}
	for _, i := range []int{2, 1, 0} {
		h.answer(i)
	}
	for want := range uint32(3) {
		if got := binary.BigEndian.Uint32(p.read()); got != want {
			t.Errorf("answer %d came, want %d", got, want)
		}
	}
}

// A client that sends and sends is not read any further than so many unanswered requests.
func TestInFlightIsBounded(t *testing.T) {
	_, addr, h, _ := testServer(t, Options{MaxInFlight: 4, MaxInFlightBytes: 1 << 20})
	p := dial(t, addr)
	for i := range 20 {
		p.send(reqFrame(protocol.NewMetadataRequest(), 1, int32(i), "x"))
	}
	most := 0
	for answered := range 20 {
		<-h.came
		h.mu.Lock()
		most = max(most, len(h.calls)-answered)
		h.mu.Unlock()
		h.answer(answered)
		if got := binary.BigEndian.Uint32(p.read()); got != uint32(answered) {
			t.Fatalf("answer %d came, want %d", got, answered)
		}
	}
	if most > 4 {
		t.Errorf("%d requests were under way", most)
	}
}

// What is no request ends the connection, with one line that names the peer.
func TestHostileInput(t *testing.T) {
	_, addr, _, log := testServer(t, Options{MaxRequest: 1 << 20})
	metadata := reqFrame(protocol.NewMetadataRequest(), 9, 1, "x")[4:]
	for name, b := range map[string][]byte{
		"http":               []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"largest length":     {0x7f, 0xff, 0xff, 0xff},
		"negative length":    {0xff, 0xff, 0xff, 0xff},
		"more than allowed":  {0, 0x10, 0, 1},
		"empty frame":        {0, 0, 0, 0},
		"short header":       frame([]byte{0, 3, 0, 9}),
		"unknown api":        frame(append([]byte{0x7f, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'x'}, 0, 0)),
		"not served here":    reqFrame(protocol.NewVoteRequest(), 0, 1, "x"),
		"version too new":    frame(append([]byte{0, 3, 0, 99}, metadata[4:]...)),
		"version too old":    frame([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 'x', 0, 0}),
		"negative version":   frame([]byte{0, 3, 0xff, 0xff, 0, 0, 0, 1, 0, 1, 'x', 0, 0}),
		"cut":                frame(metadata[:len(metadata)-3]),
		"2^31-1 topics":      frame(append([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0, 1, 'x', 0x7f, 0xff, 0xff, 0xff}, make([]byte, 85)...)),
		"client id too long": frame([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'x'}),
	} {
		t.Run(name, func(t *testing.T) {
			log.take()
			p := dial(t, addr)
			p.send(b)
			p.closed()
			<-log.came // the peer may see the end before the log does
			got := log.take()
			if strings.Count(got, "\n") != 1 || !strings.Contains(got, "Closing connection") || !strings.Contains(got, p.LocalAddr().String()) {
				t.Errorf("logged:\n%s", got)
			}
		})
	}
}

// Many who send garbage leave nothing behind, and cannot fill the log.
func TestManyHostileConnections(t *testing.T) {
	s, addr, _, log := testServer(t, Options{})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 1000 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte{0x05, 0, 0, 0, 1, 2, 3}) // 80 MB announced
		_, _ = c.Write(frame([]byte("garbage that is long enough")))
		c.Close()
	}
	for range 1000 {
		p := dial(t, addr)
		p.send(frame([]byte{0x7f, 0x7f, 0, 0, 0, 0, 0, 1}))
		p.closed()
		p.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for s.Connections() > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := s.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if n := strings.Count(log.take(), "\n"); n > 25*int(1+time.Since(deadline.Add(-10*time.Second)).Seconds())+100 {
		t.Errorf("%d lines were logged", n)
	}
}

// A client that says nothing is closed after the idle time.
func TestIdle(t *testing.T) {
	_, addr, _, _ := testServer(t, Options{IdleTimeout: 50 * time.Millisecond})
	dial(t, addr).closed()
	p := dial(t, addr)
	p.send([]byte{0, 0, 0, 100, 1}) // a frame that never ends
	p.closed()
}

// Requests that come before the listener serves wait for it.
func TestServe(t *testing.T) {
	s, _, h, _ := testServer(t, Options{})
	addr, err := s.Listen("LATER", "127.0.0.1:0", OnBroker)
	if err != nil {
		t.Fatal(err)
	}
	s.listeners[1].table = s.listeners[0].table
	p := dial(t, addr)
	p.send(reqFrame(protocol.NewMetadataRequest(), 1, 5, "early"))
	q := dial(t, s.listeners[0].l.Addr())
	q.send(reqFrame(protocol.NewMetadataRequest(), 1, 6, "in time"))
	if got := <-h.came; got != "in time" {
		t.Fatalf("%s was served", got)
	}
	s.Serve("LATER")
	if got := <-h.came; got != "early" {
		t.Fatalf("%s was served", got)
	}
	h.answer(1)
	if got := binary.BigEndian.Uint32(p.read()); got != 5 {
		t.Errorf("answer %d", got)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(reqFrame(protocol.NewMetadataRequest(), 9, 1, "x")[4:])
	f.Add(reqFrame(protocol.NewApiVersionsRequest(), 3, 1, "x")[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err == nil && (len(h.body) > len(b) || len(h.clientID) > len(b)) {
			t.Errorf("%x: body of %d bytes", b, len(h.body))
		}
	})
}
