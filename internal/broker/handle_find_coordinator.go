package broker

import (
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Types of coordinators.
const (
	coordinatorGroup       int8 = 0
	coordinatorTransaction int8 = 1
	coordinatorShare       int8 = 2
)

// FindCoordinator is key 10, versions 0–6. v1: key types. v4: several keys (KIP-699). v6: share coordinators. Path: key → partition of the
// coordinator's topic, which is created if it is not there → its leader, as seen on the listener the request came in on. Errors of a
// key: 15 as long as there is no leader; 42 a share coordinator before v6. There is no transaction coordinator here: 15 for good,
// which clients answer by asking again.
func (b *Broker) FindCoordinator(ctx *rpc.Context, req *protocol.FindCoordinatorRequest, respond func(*protocol.FindCoordinatorResponse)) {
	resp := protocol.NewFindCoordinatorResponse()
	if ctx.APIVersion < 4 {
		n, err := b.coordinator(ctx, req.KeyType, req.Key)
		resp.NodeId, resp.Host, resp.Port = n.id, n.host, n.port
		if err != nil {
			resp.ErrorCode = err.Code
		}
		message := coordinatorMessage(err)
		resp.ErrorMessage = &message
		respond(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		c := protocol.NewFindCoordinatorResponseCoordinator()
		n, err := b.coordinator(ctx, req.KeyType, key)
		c.Key, c.NodeId, c.Host, c.Port = key, n.id, n.host, n.port
		if err != nil {
			c.ErrorCode = err.Code
			if req.KeyType > coordinatorShare {
				message := malformed
				c.ErrorMessage = &message
			}
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	respond(resp)
}

// coordinatorMessage is the text that goes with an answer up to v3.
func coordinatorMessage(err *kerr.Error) string {
	switch err {
	case nil:
		return "NONE"
	case kerr.CoordinatorNotAvailable:
		return "The coordinator is not available."
	}
	return malformed
}

var noNode = node{id: -1, port: -1}

func (b *Broker) coordinator(ctx *rpc.Context, keyType int8, key string) (node, *kerr.Error) {
	switch keyType {
	case coordinatorGroup:
	case coordinatorTransaction:
		return noNode, kerr.CoordinatorNotAvailable
	case coordinatorShare:
		if ctx.APIVersion >= 6 {
			return noNode, kerr.CoordinatorNotAvailable
		}
		return noNode, kerr.InvalidRequest
	default:
		return noNode, kerr.InvalidRequest
	}
	img := b.Image()
	topic := img.Topics.ByName(group.OffsetsTopic)
	if topic == nil {
		b.createTopics(nil, group.OffsetsTopic)
		return noNode, kerr.CoordinatorNotAvailable
	}
	p := topic.Partition(group.PartitionFor(key, int32(len(topic.Partitions))))
	if p == nil || p.Leader == image.NoLeader {
		return noNode, kerr.CoordinatorNotAvailable
	}
	n, ok := reachable(img.Cluster.Broker(p.Leader), ctx.Listener)
	if !ok || n.fenced {
		return noNode, kerr.CoordinatorNotAvailable
	}
	return n, nil
}
