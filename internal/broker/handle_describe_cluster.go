package broker

import (
	"fmt"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Types of endpoints that DescribeCluster can be asked for.
const (
	endpointBroker     int8 = 1
	endpointController int8 = 2
)

// DescribeCluster is key 60 at a broker, versions 0–2 (KIP-700). v1: endpoint types (KIP-919). v2: fenced brokers. Path: one image → brokers
// that have the listener the request came in on. Errors: 115 unknown endpoint type, 114 controllers asked for.
func (b *Broker) DescribeCluster(ctx *rpc.Context, req *protocol.DescribeClusterRequest, respond func(*protocol.DescribeClusterResponse)) {
	resp := protocol.NewDescribeClusterResponse()
	switch req.EndpointType {
	case endpointBroker:
	case endpointController:
		respond(failedCluster(resp, kerr.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"))
		return
	default:
		respond(failedCluster(resp, kerr.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType)))
		return
	}
	img := b.Image()
	for broker := range img.Cluster.Brokers() {
		n, ok := reachable(broker, ctx.Listener)
		if !ok || n.fenced && !(ctx.APIVersion >= 2 && req.IncludeFencedBrokers) {
			continue
		}
		resp.Brokers = append(resp.Brokers, protocol.DescribeClusterResponseDescribeClusterBroker{BrokerId: n.id, Host: n.host, Port: n.port, Rack: n.rack, IsFenced: n.fenced})
	}
	id := b.someBroker(img)
	if slices.ContainsFunc(resp.Brokers, func(n protocol.DescribeClusterResponseDescribeClusterBroker) bool { return n.BrokerId == id }) {
		resp.ControllerId = id
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	resp.ClusterId, resp.EndpointType = b.clusterID, endpointBroker
	respond(resp)
}

func failedCluster(resp *protocol.DescribeClusterResponse, e *kerr.Error, message string) *protocol.DescribeClusterResponse {
	resp.ErrorCode, resp.ErrorMessage = e.Code, &message
	return resp
}
