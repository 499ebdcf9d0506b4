package controller

import (
	"fmt"
	"strconv"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

type (
	incrementalResult = protocol.IncrementalAlterConfigsResponseAlterConfigsResourceResponse
	legacyResult      = protocol.AlterConfigsResponseAlterConfigsResourceResponse
)

// alterRequest is what both requests that alter settings come to.
type alterRequest struct {
	resources    []resource
	alterations  [][]alteration // by resource
	validateOnly bool
	whole        bool // the older request: what is not given is removed
}

// IncrementalAlterConfigs is key 44, versions 0–1 (KIP-339). Path: alterConfigs → ConfigRecords, ClearElrRecords → stable → answer.
// Errors of a resource, nothing of which is applied then: 42 repeated, null or duplicate keys, a broker's name; 35 unknown
// type; 40 a value, an unknown topic setting, appending to what is no list; 3 no such topic; 102 no such node; 41.
func (c *Controller) IncrementalAlterConfigs(ctx *rpc.Context, req *protocol.IncrementalAlterConfigsRequest, respond func(*protocol.IncrementalAlterConfigsResponse)) {
	a := alterRequest{validateOnly: req.ValidateOnly}
	for _, r := range req.Resources {
		var list []alteration
		for _, k := range r.Configs {
			list = append(list, alteration{k.Name, k.ConfigOperation, k.Value})
		}
		a.resources = append(a.resources, resource{r.ResourceType, r.ResourceName})
		a.alterations = append(a.alterations, list)
	}
	c.alterConfigs(ctx, "incrementalAlterConfigs", a, func(errs []error) {
		resp := protocol.NewIncrementalAlterConfigsResponse()
		for i, r := range a.resources {
			one := incrementalResult{ResourceType: r.kind, ResourceName: r.name}
			one.ErrorCode, one.ErrorMessage = codeAndMessage(errs[i])
			resp.Responses = append(resp.Responses, one)
		}
		respond(resp)
	})
}

// AlterConfigs is key 33, versions 0–2. The older request: the settings given become all that the resource has. Path and
// errors as IncrementalAlterConfigs.
func (c *Controller) AlterConfigs(ctx *rpc.Context, req *protocol.AlterConfigsRequest, respond func(*protocol.AlterConfigsResponse)) {
	a := alterRequest{validateOnly: req.ValidateOnly, whole: true}
	for _, r := range req.Resources {
		var list []alteration
		for _, k := range r.Configs {
			list = append(list, alteration{k.Name, opSet, k.Value})
		}
		a.resources = append(a.resources, resource{r.ResourceType, r.ResourceName})
		a.alterations = append(a.alterations, list)
	}
	c.alterConfigs(ctx, "legacyAlterConfigs", a, func(errs []error) {
		resp := protocol.NewAlterConfigsResponse()
		for i, r := range a.resources {
			one := legacyResult{ResourceType: r.kind, ResourceName: r.name}
			one.ErrorCode, one.ErrorMessage = codeAndMessage(errs[i])
			resp.Responses = append(resp.Responses, one)
		}
		respond(resp)
	})
}

// alterConfigs does what a request asks for, each resource for itself, and tells what became of each.
func (c *Controller) alterConfigs(ctx *rpc.Context, name string, a alterRequest, done func(errs []error)) {
	forwarded := c.forwarded(ctx)
	errs := make([]error, len(a.resources))
	count := map[resource]int{}
	for _, r := range a.resources {
		count[r]++
	}
	for i, r := range a.resources {
		switch {
		case count[r] > 1:
			errs[i] = fail(kerr.InvalidRequest, "Each resource must appear at most once.")
		case kindText(r.kind) == "UNKNOWN" && forwarded: // the broker says so
			errs[i] = fail(kerr.InvalidRequest, fmt.Sprintf("Unknown resource type %d", r.kind))
		case kindText(r.kind) == "UNKNOWN":
			errs[i] = fail(kerr.UnsupportedVersion, fmt.Sprintf("Unknown resource type %d.", r.kind))
		default:
			errs[i] = checkAlterations(a.alterations[i])
		}
	}
	appendWrite(c, name, 0, func() (Result[struct{}], error) {
		var records []metadata.Versioned
		for i, r := range a.resources {
			if errs[i] != nil {
				continue
			}
			var more []metadata.Versioned
			if a.whole {
				more, errs[i] = c.state.configs.alterWhole(r, a.alterations[i], forwarded)
			} else {
				more, errs[i] = c.state.configs.alterIncremental(r, a.alterations[i], false, forwarded)
			}
			if records = append(records, more...); len(records) > maxRecordsPerUserOp {
				return Result[struct{}]{}, errTooManyRecords
			}
		}
		records = append(records, c.state.configs.clearELR(records)...)
		if a.validateOnly {
			records = nil
		}
		return Result[struct{}]{Records: records, Atomic: true}, nil
	}, nil, func(_ struct{}, err error) {
		if err != nil {
			for i := range errs {
				errs[i] = err
			}
		}
		done(errs)
	})
}

// resourceExists fails for a topic or a node that there is not. Groups and subscriptions need not exist.
func (c *Controller) resourceExists(r resource) error {
	switch r.kind {
	case resourceTopic:
		if !c.state.replication.byName.Has(r.name) {
			return fail(kerr.UnknownTopicOrPartition, "The topic '"+r.name+"' does not exist.")
		}
	case resourceBroker:
		if r.name == clusterWideName {
			return nil
		}
		n, err := strconv.ParseInt(r.name, 10, 32)
		if err != nil {
			return fail(kerr.InvalidRequest, "Invalid broker name "+r.name)
		}
		id := int32(n)
		if c.state.cluster.brokers.Has(id) || c.state.cluster.controllers.Has(id) {
			return nil
		}
		for _, voter := range c.quorum.Voters().IDs() {
			if voter == id {
				return nil
			}
		}
		return fail(kerr.BrokerIdNotRegistered, fmt.Sprintf("No node with id %d found.", id))
	}
	return nil
}
