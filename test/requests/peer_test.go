package requests

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/test/interop/servertest"
)

var kafka = flag.Bool("kafka", false, "tell the stories to Apache Kafka 4.4.0 instead")

func TestMain(m *testing.M) {
	flag.Parse()
	servertest.Main(m)
}

// node is a running server.
type node struct {
	t testing.TB
	*servertest.Cluster
	*servertest.Server
}

// start runs a node with settings, in a folder of its own.
func start(t testing.TB, settings ...string) *node {
	t.Helper()
	return run(t, servertest.New(t, settings...))
}

func run(t testing.TB, c *servertest.Cluster) *node {
	t.Helper()
	c.Format(t)
	if *kafka {
		return &node{t, c, c.StartKafka(t)}
	}
	return &node{t, c, c.Start(t)}
}

// peer is a client that knows no more than how to write a request and to read its answer.
type peer struct {
	t testing.TB
	net.Conn
	correlation int32
}

// patience is how long an answer may take before the test fails.
const patience = 60 * time.Second

func dial(t testing.TB, addr string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &peer{t: t, Conn: c}
}

func (n *node) dial() *peer { return dial(n.t, n.Bootstrap) }

// framed is a message with its length in front.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// encoded is a request as it goes over the connection.
func encoded(t testing.TB, version int16, correlation int32, req protocol.Request) []byte {
	t.Helper()
	client := "peer"
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = req.APIKey(), version, correlation, &client
	b, err := h.Encode(nil, protocol.RequestHeaderVersion(req.APIKey(), version))
	if err == nil {
		b, err = req.Encode(b, version)
	}
	if err != nil {
		t.Fatalf("encode %T version %d: %v", req, version, err)
	}
	return framed(b)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// writeHex sends bytes that are written down as hexadecimal digits, blanks between them.
func (p *peer) writeHex(s string) {
	p.t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(b)
}

func (p *peer) send(version int16, req protocol.Request) {
	p.t.Helper()
	p.correlation++
	p.write(encoded(p.t, version, p.correlation, req))
}

// frame reads an answer.
func (p *peer) frame() []byte {
	p.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(p, size[:]); err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p, b); err != nil {
		p.t.Fatalf("half an answer: %v", err)
	}
	return b
}

// receive reads the answer to the last request.
func receive[P protocol.Response](p *peer, version int16) P {
	p.t.Helper()
	b := p.frame()
	var out P
	resp := protocol.NewResponse(out.APIKey())
	d := wire.NewDecoder(b)
	var h protocol.ResponseHeader
	err := h.Decode(d, protocol.ResponseHeaderVersion(out.APIKey(), version))
	if err == nil {
		err = resp.Decode(d, version)
	}
	if err != nil || d.Remaining() > 0 || h.CorrelationId != p.correlation {
		p.t.Fatalf("%T version %d: %v, %d bytes left, correlation %d of %d: %x", out, version, err, d.Remaining(), h.CorrelationId, p.correlation, b)
	}
	return resp.(P)
}

// ask sends a request and reads its answer.
func ask[P protocol.Response](p *peer, version int16, req protocol.Request) P {
	p.t.Helper()
	p.send(version, req)
	return receive[P](p, version)
}

// closed waits until the node has closed the connection without a byte.
func (p *peer) closed(what string) {
	p.t.Helper()
	n, err := p.Read(make([]byte, 1))
	var timeout net.Error
	if n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Fatalf("%s: the connection was not closed: %d bytes, %v", what, n, err)
	}
}

// open finds out that the connection is still good.
func (p *peer) open(what string) {
	p.t.Helper()
	if r := ask[*protocol.ApiVersionsResponse](p, 0, protocol.NewApiVersionsRequest()); r.ErrorCode != 0 {
		p.t.Fatalf("%s: error %d of ApiVersions", what, r.ErrorCode)
	}
}

// is compares.
func is[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func text(s string) *string { return &s }

// proc is a number of /proc/PID/status, kilobytes or a count.
func (n *node) proc(name string) int {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.PID()))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			value, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				n.t.Fatal(err)
			}
			return value
		}
	}
	n.t.Fatalf("no %s in /proc", name)
	return 0
}
