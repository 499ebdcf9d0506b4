// Package rpc owns what goes with one request: the context that handlers see, and the client side of a connection to
// another node.
//
// Called by server (which makes contexts), by every handler, and by whoever talks to another node.
//
// Never decodes a body that its caller did not ask for.
package rpc

import (
	"net/netip"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
)

// Context is one request as its handler sees it.
type Context struct {
	ClientID      string
	APIKey        int16
	APIVersion    int16
	CorrelationID int32
	Listener      string // name of the listener it came in on
	Principal     string // "User:ANONYMOUS" without authentication
	Forwarded     bool   // it came in an envelope of a broker, which has looked at it before (KIP-590)
	RemoteAddr    string
	LocalAddr     string
	ConnID        uint64 // unique within the node's life

	ClientSoftwareName    string // from ApiVersions v3, KIP-511
	ClientSoftwareVersion string

	// CloseConn ends the connection after a request that cannot be answered. Set by server.
	CloseConn func(reason string)
}

// ClientHost is the peer's address as Java prints an address without a name: a slash, and IPv6 with all its zeros. Group
// records and descriptions have it.
func (c *Context) ClientHost() string {
	remote := c.RemoteAddr
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "/" + remote
	}
	a := ap.Addr().Unmap()
	if a.Is4() {
		return "/" + a.String()
	}
	b := a.As16()
	out := []byte{'/'}
	const digits = "0123456789abcdef"
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		v := uint16(b[i])<<8 | uint16(b[i+1])
		started := false
		for shift := 12; shift >= 0; shift -= 4 {
			d := v >> shift & 15
			if d != 0 || started || shift == 0 {
				out, started = append(out, digits[d]), true
			}
		}
	}
	return string(out)
}

// FetchReply is the answer to Fetch. Records of partitions may lie in files: External has one entry for each partition of
// the response, in its order; the region to send as its records, or an empty part where the response has them itself. The
// response is not looked at any more when the respond function has returned, External not after Release, which is called when
// everything was sent or dropped.
type FetchReply struct {
	Response *protocol.FetchResponse
	External []env.Part
	Release  func()
}

// HostBytes is the peer's address in 4 or 16 bytes, as brokers pass it on (KIP-590). A peer without an address is of this machine.
func (c *Context) HostBytes() []byte {
	if ap, err := netip.ParseAddrPort(c.RemoteAddr); err == nil {
		return ap.Addr().Unmap().AsSlice()
	}
	if a, err := netip.ParseAddr(c.RemoteAddr); err == nil {
		return a.Unmap().AsSlice()
	}
	return []byte{127, 0, 0, 1}
}

// IsAddress reports whether a host is one without a question to a name server, for which nobody here waits: an address, or
// localhost.
func IsAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}
