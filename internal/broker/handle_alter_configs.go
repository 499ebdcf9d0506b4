package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

type (
	incrementalResult = protocol.IncrementalAlterConfigsResponseAlterConfigsResourceResponse
	legacyResult      = protocol.AlterConfigsResponseAlterConfigsResourceResponse
)

// Operations of IncrementalAlterConfigs.
const (
	opSet      int8 = 0
	opDelete   int8 = 1
	opAppend   int8 = 2
	opSubtract int8 = 3
)

// alteration is one setting of a request; alterations are those of one resource.
type alteration struct {
	name  string
	op    int8
	value *string
}

type alterations struct {
	kind int8
	name string
	list []alteration
}

// IncrementalAlterConfigs is key 44 at a broker, versions 0–1 (KIP-339). Path: what only this broker can know to be wrong is refused → the
// rest goes to the controller → both answers, in the order of the request. Errors found here, of a resource: 42 repeated, a key twice,
// a null value, another broker, an unknown type, a setting of brokers that cannot be changed or not so, or its value; 40 a
// logger, or appending to what is no list.
func (b *Broker) IncrementalAlterConfigs(ctx *rpc.Context, req *protocol.IncrementalAlterConfigsRequest, respond func(*protocol.IncrementalAlterConfigsResponse)) {
	all := make([]alterations, len(req.Resources))
	for i, r := range req.Resources {
		all[i] = alterations{kind: r.ResourceType, name: r.ResourceName}
		for _, c := range r.Configs {
			all[i].list = append(all[i].list, alteration{c.Name, c.ConfigOperation, c.Value})
		}
	}
	failed := b.checkAlterations(all, true)
	rest := protocol.NewIncrementalAlterConfigsRequest()
	rest.ValidateOnly = req.ValidateOnly
	resp := protocol.NewIncrementalAlterConfigsResponse()
	for i, r := range req.Resources {
		one := incrementalResult{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
		if e := failed[i]; e != nil {
			one.ErrorCode, one.ErrorMessage = e.kind.Code, &e.message
		} else {
			rest.Resources = append(rest.Resources, r)
		}
		resp.Responses = append(resp.Responses, one)
	}
	if len(rest.Resources) == 0 {
		respond(resp)
		return
	}
	b.Forward(ctx, rest, func(answer protocol.Response) {
		answers := answer.(*protocol.IncrementalAlterConfigsResponse).Responses
		for i := range resp.Responses {
			one := &resp.Responses[i]
			if failed[i] != nil {
				continue
			}
			j := slices.IndexFunc(answers, func(a incrementalResult) bool {
				return a.ResourceType == one.ResourceType && a.ResourceName == one.ResourceName
			})
			if j < 0 {
				one.ErrorCode = kerr.UnknownServerError.Code
			} else {
				*one = answers[j]
			}
		}
		respond(resp)
	})
}

// AlterConfigs is key 33 at a broker, versions 0–2: the older form, in which what is not given is removed. Path and errors as
// IncrementalAlterConfigs; loggers are an unknown type here.
func (b *Broker) AlterConfigs(ctx *rpc.Context, req *protocol.AlterConfigsRequest, respond func(*protocol.AlterConfigsResponse)) {
	all := make([]alterations, len(req.Resources))
	for i, r := range req.Resources {
		all[i] = alterations{kind: r.ResourceType, name: r.ResourceName}
		for _, c := range r.Configs {
			all[i].list = append(all[i].list, alteration{c.Name, opSet, c.Value})
		}
	}
	failed := b.checkAlterations(all, false)
	rest := protocol.NewAlterConfigsRequest()
	rest.ValidateOnly = req.ValidateOnly
	resp := protocol.NewAlterConfigsResponse()
	for i, r := range req.Resources {
		one := legacyResult{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
		if e := failed[i]; e != nil {
			one.ErrorCode, one.ErrorMessage = e.kind.Code, &e.message
		} else {
			rest.Resources = append(rest.Resources, r)
		}
		resp.Responses = append(resp.Responses, one)
	}
	if len(rest.Resources) == 0 {
		respond(resp)
		return
	}
	b.Forward(ctx, rest, func(answer protocol.Response) {
		answers := answer.(*protocol.AlterConfigsResponse).Responses
		for i := range resp.Responses {
			one := &resp.Responses[i]
			if failed[i] != nil {
				continue
			}
			j := slices.IndexFunc(answers, func(a legacyResult) bool {
				return a.ResourceType == one.ResourceType && a.ResourceName == one.ResourceName
			})
			if j < 0 {
				one.ErrorCode = kerr.UnknownServerError.Code
			} else {
				*one = answers[j]
			}
		}
		respond(resp)
	})
}

// refusal is why a resource cannot be altered, with the text for the client.
type refusal struct {
	kind    *kerr.Error
	message string
}

func refuse(kind *kerr.Error, format string, args ...any) *refusal {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// checkAlterations finds what is wrong with each resource; nil: nothing that a broker could see.
func (b *Broker) checkAlterations(all []alterations, incremental bool) []*refusal {
	type key struct {
		kind int8
		name string
	}
	times := map[key]int{}
	for _, a := range all {
		times[key{a.kind, a.name}]++
	}
	out := make([]*refusal, len(all))
	for i, a := range all {
		if times[key{a.kind, a.name}] > 1 {
			out[i] = refuse(kerr.InvalidRequest, "Each resource must appear at most once.")
		} else {
			out[i] = b.checkAlteration(a, incremental)
		}
	}
	return out
}

func (b *Broker) checkAlteration(a alterations, incremental bool) *refusal {
	seen := map[string]bool{}
	var nulls []string
	for _, c := range a.list {
		if seen[c.name] {
			return refuse(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[c.name] = true
		if c.op != opDelete && c.value == nil {
			nulls = append(nulls, c.name)
		}
	}
	if len(nulls) > 0 {
		return refuse(kerr.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	switch a.kind {
	case image.ResourceTopic, image.ResourceClientMetrics, image.ResourceGroup:
		return nil
	case image.ResourceBrokerLogger:
		if incremental {
			return b.checkLogger(a)
		}
	case image.ResourceBroker:
		return b.checkBrokerConfigs(a, incremental)
	}
	return refuse(kerr.InvalidRequest, "Unknown resource type %d", a.kind)
}

// checkLogger refuses every change: there are no loggers whose level could be set one by one.
func (b *Broker) checkLogger(a alterations) *refusal {
	if id, err := strconv.ParseInt(a.name, 10, 32); err != nil {
		return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", a.name)
	} else if int32(id) != b.id {
		return refuse(kerr.InvalidRequest, "Unexpected node id. Expected %d, but received %s", b.id, a.name)
	}
	for _, c := range a.list {
		return refuse(kerr.InvalidConfig, "Logger %s does not exist!", c.name)
	}
	return nil
}

// securityKeys can be set at run time for single listeners only.
var securityKeys = []string{
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type",
	"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// checkBrokerConfigs checks the settings of brokers as they would be after the change: those of one broker, or of all.
func (b *Broker) checkBrokerConfigs(a alterations, incremental bool) *refusal {
	if a.name != "" {
		if id, err := strconv.ParseInt(a.name, 10, 32); err != nil {
			return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", a.name)
		} else if int32(id) != b.id {
			return refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", b.id, a.name)
		}
	}
	next := map[string]string{}
	if incremental {
		maps.Copy(next, b.Image().Configs.Get(image.ResourceBroker, a.name))
	}
	for _, c := range a.list {
		if r := apply(next, c); r != nil {
			return r
		}
	}
	var fixed, secure, single []string
	for _, name := range sortedKeys(next) {
		def := config.Lookup(config.ScopeNode, name)
		switch {
		case def != nil && def.Dynamic == config.ReadOnly:
			fixed = append(fixed, name)
		case slices.Contains(securityKeys, name):
			secure = append(secure, name)
		case def != nil && def.Dynamic == config.PerBroker, strings.HasPrefix(name, "listener.name."):
			single = append(single, name)
		}
	}
	switch {
	case len(fixed) > 0:
		return refuse(kerr.InvalidRequest, "Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))
	case len(secure) > 0:
		return refuse(kerr.InvalidRequest, "These security configs can be dynamically updated only per-listener using the listener prefix: [%s]", strings.Join(secure, ", "))
	}
	for _, name := range sortedKeys(next) {
		if def := brokerDef(name); def != nil {
			if _, err := def.Parse(next[name]); err != nil {
				return refuse(kerr.InvalidRequest, "%s", err)
			}
		}
	}
	if a.name == "" && len(single) > 0 {
		return refuse(kerr.InvalidRequest, "Cannot update these configs at default cluster level, broker id must be specified: [%s]", strings.Join(single, ", "))
	}
	return nil
}

// brokerDef is the declaration of a setting that brokers can have at run time; nil for one that nobody knows, which Kafka takes.
func brokerDef(name string) *config.Def {
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	if def := config.Lookup(config.ScopeNode, name); def != nil {
		return def
	}
	return config.Lookup(config.ScopeBrokerQuota, name)
}

// apply changes settings by one alteration.
func apply(next map[string]string, c alteration) *refusal {
	switch c.op {
	case opSet:
		next[c.name] = *c.value
	case opDelete:
		delete(next, c.name)
	case opAppend, opSubtract:
		verb := "append"
		if c.op == opSubtract {
			verb = "subtract"
		}
		def := config.Lookup(config.ScopeNode, c.name)
		switch {
		case def == nil:
			return refuse(kerr.InvalidConfig, "Unknown config name: %s", c.name)
		case def.Type != config.TypeList:
			return refuse(kerr.InvalidConfig, "Config value %s is not allowed for config key: %s", verb, c.name)
		}
		old, ok := next[c.name]
		if !ok {
			old = def.Default
		}
		list := slices.DeleteFunc(strings.Split(old, ","), func(s string) bool { return s == "" })
		for _, item := range strings.Split(*c.value, ",") {
			switch has := slices.Contains(list, item); {
			case c.op == opAppend && !has:
				list = append(list, item)
			case c.op == opSubtract && has:
				list = slices.DeleteFunc(list, func(s string) bool { return s == item })
			}
		}
		next[c.name] = strings.Join(list, ",")
	default:
		return refuse(kerr.InvalidRequest, "Unknown operations type %d", c.op)
	}
	return nil
}
