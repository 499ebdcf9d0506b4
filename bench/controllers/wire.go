package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// conn is a connection to a controller, one request at a time.
type conn struct {
	net.Conn
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c}, nil
}

// ask sends a request and reads its answer.
func ask[P protocol.Response](c *conn, version int16, req protocol.Request, within time.Duration) (P, error) {
	var none P
	key, client := req.APIKey(), "bench"
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = key, version, 1, &client
	b, err := h.Encode(make([]byte, 4), protocol.RequestHeaderVersion(key, version))
	if err != nil {
		return none, err
	}
	if b, err = req.Encode(b, version); err != nil {
		return none, err
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := c.Write(b); err != nil {
		return none, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return none, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, answer); err != nil {
		return none, err
	}
	d := wire.NewDecoder(answer)
	var rh protocol.ResponseHeader
	if err := rh.Decode(d, protocol.ResponseHeaderVersion(key, version)); err != nil {
		return none, err
	}
	resp := protocol.NewResponse(key)
	if err := resp.Decode(d, version); err != nil {
		return none, err
	}
	p, ok := resp.(P)
	if !ok {
		return none, fmt.Errorf("%T answers %T", resp, req)
	}
	return p, nil
}
