package requests

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// A client of the future learns in version 0 which versions of ApiVersions there are, and goes on with one of them. The answer's header has
// version 0 whatever the body has.
func TestApiVersions(t *testing.T) {
	n := start(t)
	for _, addr := range []string{n.Bootstrap, n.Controller} {
		p := dial(t, addr)
		p.writeHex("00000010 0012 0063 00000007 ffff 00 02610231 00") // version 99
		r := protocol.NewApiVersionsResponse()
		d := wire.NewDecoder(p.frame()[4:])
		if err := r.Decode(d, 0); err != nil || d.Remaining() > 0 {
			t.Fatalf("%s: %v, %d bytes left", addr, err, d.Remaining())
		}
		is(t, "error of version 99", r.ErrorCode, 35)
		if diff := cmp.Diff([]protocol.ApiVersionsResponseApiVersion{{ApiKey: 18, MinVersion: 0, MaxVersion: 5}}, r.ApiKeys); diff != "" {
			t.Errorf("ranges (-want +got):\n%s", diff)
		}
		for v := int16(0); v <= 4; v++ {
			is(t, fmt.Sprint("error of version ", v), ask[*protocol.ApiVersionsResponse](p, v, versionsRequest("a-client")).ErrorCode, 0)
		}
		for _, name := range []string{"", "a client", "-"} {
			is(t, fmt.Sprintf("error of the software name %q", name), ask[*protocol.ApiVersionsResponse](p, 3, versionsRequest(name)).ErrorCode, 42)
		}
		// A client id that is null, and one that is empty: it keeps its length of two bytes in a flexible header.
		for _, id := range []string{"ffff", "0000"} {
			p.writeHex("00000010 0012 0003 00000007" + id + "00 02410242 00")
			is(t, "answer to client id "+id, fmt.Sprintf("%x", p.frame()[:6]), "000000070000")
		}
	}
	// Produce is announced from version 0 on, or else older librdkafka sends without compression; every other API with what it serves.
	lowest := map[int16]int16{}
	for _, a := range ask[*protocol.ApiVersionsResponse](n.dial(), 0, protocol.NewApiVersionsRequest()).ApiKeys {
		lowest[a.ApiKey] = a.MinVersion
		if a.ApiKey == protocol.KeyProduce {
			is(t, "highest version of Produce", a.MaxVersion, 13)
		}
	}
	for key, want := range map[int16]int16{
		protocol.KeyProduce: 0, protocol.KeyMetadata: 0, protocol.KeyJoinGroup: 0, protocol.KeyFetch: 4, protocol.KeyListOffsets: 1, protocol.KeySaslHandshake: 0,
	} {
		is(t, fmt.Sprint("lowest version of api ", key), lowest[key], want)
	}
	// Who believes it has its connection closed.
	for v := range 3 {
		p := n.dial()
		p.writeHex(fmt.Sprintf("00000016 0000 %04x 00000007 0001 78 0001 00000001 00000000 00", v))
		p.closed(fmt.Sprint("Produce version ", v))
		n.WaitFor(t, n.logOf(p, fmt.Sprintf("version %d", v)))
	}
}

// logOf is a text that the log has once p was disconnected for a reason; Kafka has other words.
func (n *node) logOf(p *peer, reason string) string {
	if *kafka {
		return p.LocalAddr().String()
	}
	for line := range strings.Lines(n.Log()) {
		if strings.Contains(line, p.LocalAddr().String()) && !strings.Contains(line, reason) {
			n.t.Errorf("the log names %s without %q: %s", p.LocalAddr(), reason, line)
		}
	}
	return p.LocalAddr().String()
}

func versionsRequest(software string) *protocol.ApiVersionsRequest {
	r := protocol.NewApiVersionsRequest()
	r.ClientSoftwareName, r.ClientSoftwareVersion = software, "1"
	return r
}

// Who does not speak the protocol is disconnected, with one line in the log that has its address, and without memory for what it promised.
func TestStrangers(t *testing.T) {
	n := start(t, "connections.max.idle.ms=3000")
	before := n.proc("VmRSS")
	for _, s := range []struct{ name, send string }{
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"a length of 2^31-1", "\x7f\xff\xff\xff"},
		{"a length of -1", "\xff\xff\xff\xff"},
		{"2^31-1 topics in 100 bytes", "\x00\x00\x00\x64\x00\x03\x00\x01\x00\x00\x00\x07\x00\x01x\x7f\xff\xff\xff" + strings.Repeat("\x00", 85)},
		{"2^31-1 topics, flexible", "\x00\x00\x00\x64\x00\x03\x00\x09\x00\x00\x00\x07\x00\x01x\x00\xff\xff\xff\xff\x07" + strings.Repeat("\x00", 83)},
	} {
		for _, addr := range []string{n.Bootstrap, n.Controller} {
			p := dial(t, addr)
			p.write([]byte(s.send))
			p.closed(s.name)
			if *kafka {
				continue
			}
			n.WaitFor(t, p.LocalAddr().String())
			is(t, "lines about "+s.name, strings.Count(n.Log(), p.LocalAddr().String()), 1)
		}
	}
	// A length that may be, and then silence: closed when the connection was idle for too long, not at once.
	var silent []*peer
	from := time.Now()
	for range 50 {
		p := n.dial()
		p.write([]byte{0x06, 0x3f, 0xff, 0xff, 0, 18, 0, 0}) // 104857599 bytes
		silent = append(silent, p)
	}
	for _, p := range silent {
		_, err := p.Read(make([]byte, 1))
		if !errors.Is(err, io.EOF) {
			t.Fatalf("a silent connection ended with %v", err)
		}
	}
	if d := time.Since(from); d < 2500*time.Millisecond {
		t.Errorf("silent connections were closed after %v", d)
	}
	if grown := n.proc("VmRSS") - before; grown > 100_000 && !*kafka {
		t.Errorf("the process grew by %d kB through connections that promised 5 GB", grown)
	}
	n.dial().open("after all that")
}
