package broker

import (
	"bytes"
	"testing"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// TestEnvelope: what a client asked is in the envelope as it came, with who it was; what comes back is its answer, or why there is none.
func TestEnvelope(t *testing.T) {
	ctx := &rpc.Context{ClientID: "app", APIKey: protocol.KeyDeleteTopics, APIVersion: 6, CorrelationID: 77, Principal: "User:anna", RemoteAddr: "10.1.2.3:4567"}
	name := "orders"
	req := protocol.NewDeleteTopicsRequest()
	req.Topics = append(req.Topics, protocol.DeleteTopicsRequestDeleteTopicState{Name: &name})
	e, err := wrap(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte("\x00\x00\x05User\x05anna\x00\x00"); !bytes.Equal(e.RequestPrincipal, want) {
		t.Errorf("principal %q, want %q", e.RequestPrincipal, want)
	}
	if want := []byte{10, 1, 2, 3}; !bytes.Equal(e.ClientHostAddress, want) {
		t.Errorf("address %v, want %v", e.ClientHostAddress, want)
	}
	body, err := req.Encode([]byte("\x00\x14\x00\x06\x00\x00\x00\x4d\x00\x03app\x00"), 6)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(e.RequestData, body) {
		t.Errorf("request %q, want %q", e.RequestData, body)
	}

	resp := protocol.NewDeleteTopicsResponse()
	resp.Responses = append(resp.Responses, protocol.DeleteTopicsResponseDeletableTopicResult{Name: &name, ErrorCode: 3})
	answer := protocol.NewEnvelopeResponse()
	if answer.ResponseData, err = resp.Encode([]byte{0, 0, 0, 77, 0}, 6); err != nil {
		t.Fatal(err)
	}
	got, err := unwrap(protocol.KeyDeleteTopics, 6, answer)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.(*protocol.DeleteTopicsResponse); len(r.Responses) != 1 || r.Responses[0].ErrorCode != 3 {
		t.Errorf("answer %+v", r)
	}
	answer.ResponseData = answer.ResponseData[:7]
	if _, err := unwrap(protocol.KeyDeleteTopics, 6, answer); err == nil {
		t.Error("half an answer was taken")
	}
	answer.ErrorCode = kerr.NotController.Code
	if _, err := unwrap(protocol.KeyDeleteTopics, 6, answer); err == nil {
		t.Error("an envelope that was refused was taken")
	}
}
