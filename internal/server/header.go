package server

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// header is the header of a request, version 1 or 2. Its bytes alias the frame.
type header struct {
	key, version  int16
	correlationID int32
	clientID      []byte // nil if it is null
	body          []byte
}

var errShortHeader = errors.New("request ends inside its header")

// parseHeader reads the header of a request. The client id keeps its length of two bytes in version 2, only tagged
// fields follow it there. An error for an API that does not exist has key and version set.
func parseHeader(frame []byte) (h header, err error) {
	if len(frame) < 8 {
		return h, errShortHeader
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(frame[4:]))
	v := protocol.RequestHeaderVersion(h.key, h.version)
	if v < 0 {
		return h, fmt.Errorf("unknown api key %d", h.key)
	}
	b := frame[8:]
	if len(b) < 2 {
		return h, errShortHeader
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n >= 0 {
		if n > len(b) {
			return h, errShortHeader
		}
		h.clientID, b = b[:n], b[n:]
	}
	if v >= 2 {
		if len(b) > 0 && b[0] == 0 {
			b = b[1:] // no tagged fields: nearly always
		} else {
			d := wire.NewDecoder(b)
			d.SkipTags()
			if d.Failed() {
				return h, fmt.Errorf("request header: %w", d.Err())
			}
			b = d.Rest()
		}
	}
	h.body = b
	return h, nil
}
