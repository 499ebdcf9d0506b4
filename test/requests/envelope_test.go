package requests

import (
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// A broker hands the request of a client on to the controller in an envelope, and gets the answer back in one, its header with it.
func TestEnvelope(t *testing.T) {
	n := start(t)
	p := dial(t, n.Controller)
	inner := protocol.NewCreateTopicsRequest()
	inner.Topics, inner.TimeoutMs = []protocol.CreateTopicsRequestCreatableTopic{newTopic("a", 2), newTopic("a/b", 1)}, 60_000
	req := protocol.NewEnvelopeRequest()
	req.RequestPrincipal, req.ClientHostAddress = []byte("\x00\x00\x05User\x02a\x00\x00"), []byte{127, 0, 0, 1}
	req.RequestData = append(encoded(t, 7, 4711, inner)[4:], 1, 2, 3) // what is behind a request is nobody's
	resp := ask[*protocol.EnvelopeResponse](p, 0, req)
	is(t, "error of the envelope", resp.ErrorCode, 0)

	d := wire.NewDecoder(resp.ResponseData)
	var h protocol.ResponseHeader
	answer := protocol.NewCreateTopicsResponse()
	if err := h.Decode(d, 1); err != nil {
		t.Fatal(err)
	}
	if err := answer.Decode(d, 7); err != nil || d.Remaining() > 0 {
		t.Fatalf("%v, %d bytes left", err, d.Remaining())
	}
	is(t, "correlation id inside", h.CorrelationId, 4711)
	is(t, "results", len(answer.Topics), 2)
	for _, r := range answer.Topics {
		is(t, "error of "+r.Name, r.ErrorCode, map[string]int16{"a": 0, "a/b": 17}[r.Name])
	}
	n.eventually("a", func() bool { return topicsText(n.metadata(9, metadataRequest(false, "a"))) == "a:0:2" })
	p.open("after an envelope")
}
