package broker

import (
	"slices"
	"strconv"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// listedTypes are the types of resources that can be listed, in the order in which they are.
var listedTypes = []int8{image.ResourceGroup, image.ResourceClientMetrics, image.ResourceBrokerLogger, image.ResourceBroker, image.ResourceTopic}

// ListConfigResources is key 74, versions 0–1. v0 lists the subscriptions of client metrics (KIP-714), v1 the names of resources
// of the given types, all types if none is given (KIP-1142): topics and brokers that are there, groups and subscriptions that have
// settings. Error: 35 for a type that cannot be listed.
func (b *Broker) ListConfigResources(ctx *rpc.Context, req *protocol.ListConfigResourcesRequest, respond func(*protocol.ListConfigResourcesResponse)) {
	resp := protocol.NewListConfigResourcesResponse()
	types := req.ResourceTypes
	switch {
	case ctx.APIVersion == 0:
		types = []int8{image.ResourceClientMetrics}
	case len(types) == 0:
		types = listedTypes
	}
	for _, t := range types {
		if !slices.Contains(listedTypes, t) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			respond(resp)
			return
		}
	}
	img := b.Image()
	add := func(kind int8, name string) {
		resp.ConfigResources = append(resp.ConfigResources, protocol.ListConfigResourcesResponseConfigResource{ResourceName: name, ResourceType: kind})
	}
	for _, kind := range listedTypes {
		if !slices.Contains(types, kind) {
			continue
		}
		switch kind {
		case image.ResourceTopic:
			for t := range img.Topics.All() {
				add(kind, t.Name)
			}
		case image.ResourceBroker, image.ResourceBrokerLogger:
			for broker := range img.Cluster.Brokers() {
				add(kind, strconv.Itoa(int(broker.ID)))
			}
		default:
			for r := range img.Configs.All() {
				if r.Type == kind {
					add(kind, r.Name)
				}
			}
		}
	}
	respond(resp)
}
