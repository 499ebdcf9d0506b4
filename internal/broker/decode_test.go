package broker

import (
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

func decoded(t *testing.T, b []byte, key, version int16) protocol.Response {
	t.Helper()
	resp := protocol.NewResponse(key)
	d := wire.NewDecoder(b)
	if err := resp.Decode(d, version); err != nil || d.Remaining() > 0 {
		t.Fatalf("decode %T v%d: %v, %d bytes left", resp, version, err, d.Remaining())
	}
	return resp
}
