package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeAcls is key 29, versions 1–3 (KIP-140). Ottla authorizes nothing yet, and does not start with an authorizer: there is
// nothing to describe. Error: 54, always.
func (b *Broker) DescribeAcls(_ *rpc.Context, _ *protocol.DescribeAclsRequest, respond func(*protocol.DescribeAclsResponse)) {
	resp := protocol.NewDescribeAclsResponse()
	text := "No Authorizer is configured on the broker"
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, &text
	respond(resp)
}
