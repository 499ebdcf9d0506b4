package controller

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
)

// check says why a resource cannot have the settings that records lead to. It is all or nothing: the whole map that
// the resource would have is looked at.
func (c *configs) check(res resource, explicit, implicit []metadata.Versioned, isNew, forwarded bool) error {
	old := c.own(res)
	all := c.own(res)
	for _, v := range slices.Concat(explicit, implicit) {
		r := v.Record.(*metadata.ConfigRecord)
		if err := c.checkRecord(r, old[cordonedDirsKey], forwarded); err != nil {
			return err
		}
		if r.Value == nil {
			delete(all, r.Name)
		} else {
			all[r.Name] = *r.Value
		}
	}
	if err := c.checkAll(res, all, old); err != nil {
		return err
	}
	if !isNew {
		return c.exists(res)
	}
	return nil
}

// checkRecord holds what depends on features rather than on the setting's definition.
func (c *configs) checkRecord(r *metadata.ConfigRecord, cordoned string, forwarded bool) error {
	isBroker := r.ResourceType == resourceBroker
	switch {
	case isBroker && r.Name == minISRKey && r.ResourceName != clusterWideName && c.features.elrEnabled():
		return fail(kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
	case isBroker && r.Name == minISRKey && r.ResourceName == clusterWideName && r.Value == nil && c.features.elrEnabled():
		return fail(kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
	case isBroker && r.Name == cordonedDirsKey && !c.features.version().CordonedLogDirs():
		return fail(kerr.InvalidConfig, "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= "+metadata.V4_3_IV0.String())
	case isBroker && r.Name == cordonedDirsKey && !forwarded && r.Value != nil && !subsetOfList(*r.Value, cordoned):
		return fail(kerr.InvalidConfig, "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current configuration value.")
	case r.Value != nil && len(*r.Value) > maxConfigValue:
		return fail(kerr.InvalidConfig, "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.")
	}
	return nil
}

func subsetOfList(list, of string) bool {
	known := strings.Split(of, ",")
	for i := range known {
		known[i] = strings.TrimSpace(known[i])
	}
	for _, item := range splitNonEmpty(list) {
		if !slices.Contains(known, strings.TrimSpace(item)) {
			return false
		}
	}
	return true
}

func (c *configs) checkAll(res resource, all, old map[string]string) error {
	switch res.kind {
	case resourceTopic:
		if res.name == "" {
			return fail(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		if problem := topicNameProblem(res.name); problem != "" {
			return fail(kerr.InvalidTopicException, problem)
		}
		return c.checkTopic(all, old)
	case resourceBroker:
		if res.name == clusterWideName {
			return nil
		}
		id, err := strconv.ParseInt(res.name, 10, 32)
		switch {
		case err != nil:
			return fail(kerr.InvalidRequest, "Unable to parse broker name as a base 10 number.")
		case id < 0:
			return fail(kerr.InvalidRequest, "Invalid negative broker ID.")
		}
		return nil
	case resourceClientMetrics:
		return checkClientMetrics(res.name, all)
	case resourceGroup:
		if res.name == "" {
			return fail(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return c.checkGroup(all)
	}
	return fail(kerr.InvalidRequest, "Unknown resource type "+kindText(res.kind))
}

// parsed is a checked map: the canonical text of each setting that is set, the effective one for the others.
type parsed struct {
	set       map[string]string
	effective func(key string) string
}

func (p parsed) long(key string) int64 {
	v, ok := p.set[key]
	if !ok {
		v = p.effective(key)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

func (p parsed) text(key string) string {
	if v, ok := p.set[key]; ok {
		return v
	}
	return p.effective(key)
}

// parse checks each setting by its definition. unknown is what to say about a name that has none.
func parse(scope config.Scope, all map[string]string, unknown func(name string) error) (map[string]string, error) {
	set := map[string]string{}
	for _, name := range sortedKeys(all) {
		if config.Lookup(scope, name) == nil {
			return nil, unknown(name)
		}
	}
	for _, name := range sortedKeys(all) {
		v, err := config.Lookup(scope, name).Parse(all[name])
		if err != nil {
			return nil, fail(kerr.InvalidConfig, err.Error())
		}
		set[name] = v
	}
	return set, nil
}

func (c *configs) checkTopic(all, old map[string]string) error {
	set, err := parse(config.ScopeTopic, all, func(name string) error {
		return fail(kerr.InvalidConfig, "Unknown topic config name: "+name)
	})
	if err != nil {
		return err
	}
	p := parsed{set, func(key string) string {
		v, _ := c.effective(config.Lookup(config.ScopeTopic, key), func(string) (string, bool) { return "", false })
		if v == nil {
			return ""
		}
		return *v
	}}
	if low, high := p.long("min.compaction.lag.ms"), p.long("max.compaction.lag.ms"); low > high {
		return fail(kerr.InvalidConfig, fmt.Sprintf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", low, high))
	}
	return c.checkTiered(p, old)
}

// checkTiered holds the rules of remote storage (KIP-405, KIP-950).
func (c *configs) checkTiered(p parsed, old map[string]string) error {
	if p.text("remote.storage.enable") != "true" {
		if strings.EqualFold(old["remote.storage.enable"], "true") && p.text("remote.log.delete.on.disable") != "true" {
			return fail(kerr.InvalidConfig, "It is invalid to disable remote storage without deleting remote data. "+
				"If you want to keep the remote data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. "+
				"If you want to disable remote storage and delete all remote data, please set `remote.storage.enable=false,remote.log.delete.on.disable=true`.")
		}
		return nil
	}
	if !c.node.Bool("remote.log.storage.system.enable") {
		return fail(kerr.InvalidConfig, "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	if policy := p.text("cleanup.policy"); policy != "" && policy != "delete" {
		return fail(kerr.InvalidConfig, "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.")
	}
	for _, unit := range []string{"bytes", "ms"} {
		whole, local := p.long("retention."+unit), p.long("local.retention."+unit)
		bad := func(key string, value int64, problem string) error {
			return fail(kerr.InvalidConfig, (&config.ValueError{Name: key, Value: strconv.FormatInt(value, 10), Problem: problem}).Error())
		}
		if whole > -1 && local == -1 {
			return bad("local.retention."+unit, local, fmt.Sprintf("Value must not be -1 as retention.%s value is set as %d.", unit, whole))
		}
		if whole > -1 && local > whole {
			return bad("local.retention."+unit, local, fmt.Sprintf("Value must not be more than retention.%s property value: %d", unit, whole))
		}
		effective := local
		if local == -2 {
			effective = whole
		}
		if lag := p.long("remote.copy.lag." + unit); lag > 0 && effective >= 0 && lag > effective {
			return bad("remote.copy.lag."+unit, lag, fmt.Sprintf("Value must not exceed local.retention.%s (effective value: %d)", unit, effective))
		}
		if p.text("remote.log.copy.disable") == "true" && local != -2 && local != whole {
			return fail(kerr.InvalidConfig, fmt.Sprintf("When `remote.log.copy.disable` is set to true, the `local.retention.%s` and `retention.%s` "+
				"must be set to the identical value because there will be no more logs copied to the remote storage.", unit, unit))
		}
	}
	return nil
}

// groupRange bounds a group's setting by two settings of the node; an empty name is no bound.
type groupRange struct{ key, low, high string }

var groupRanges = []groupRange{
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
}

func (c *configs) checkGroup(all map[string]string) error {
	set, err := parse(config.ScopeGroup, all, func(name string) error {
		return fail(kerr.InvalidConfig, "Unknown group config name: "+name)
	})
	if err != nil {
		return err
	}
	if tags, ok := all["streams.rack.aware.assignment.tags"]; ok {
		items := strings.Split(tags, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
			if items[i] != "" && slices.Contains(items[:i], items[i]) {
				return fail(kerr.InvalidConfig, "streams.rack.aware.assignment.tags must not contain duplicate tag keys.")
			}
		}
	}
	p := parsed{set, func(key string) string { return c.node.String("group." + key) }}
	for _, r := range groupRanges {
		if _, ok := set[r.key]; !ok {
			continue
		}
		v := p.long(r.key)
		switch {
		case r.low == "" && v > c.node.Long(r.high):
			return fail(kerr.InvalidConfig, fmt.Sprintf("%s must be less than or equal to %d", r.key, c.node.Long(r.high)))
		case r.high == "" && v < c.node.Long(r.low):
			return fail(kerr.InvalidConfig, fmt.Sprintf("%s must be greater than or equal to %d", r.key, c.node.Long(r.low)))
		case r.low != "" && r.high != "" && (v < c.node.Long(r.low) || v > c.node.Long(r.high)):
			return fail(kerr.InvalidConfig, fmt.Sprintf("%s must be in the range %d to %d inclusive.", r.key, c.node.Long(r.low), c.node.Long(r.high)))
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		_, a := set[session]
		_, b := set[heartbeat]
		if (a || b) && p.long(session) <= p.long(heartbeat) {
			return fail(kerr.InvalidConfig, session+" must be greater than "+heartbeat)
		}
	}
	if strings.HasPrefix(set["errors.deadletterqueue.topic.name"], "__") {
		return fail(kerr.InvalidConfig, "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
	}
	return nil
}

var clientMetricsMatch = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

func checkClientMetrics(name string, all map[string]string) error {
	if name == "" {
		return fail(kerr.InvalidRequest, "Subscription name can't be empty")
	}
	set, err := parse(config.ScopeClientMetrics, all, func(name string) error {
		return fail(kerr.InvalidRequest, "Unknown client metrics configuration: "+name)
	})
	if err != nil {
		return err
	}
	if v, ok := set["interval.ms"]; ok {
		if ms, _ := strconv.Atoi(v); ms < 100 || ms > 3600000 {
			return fail(kerr.InvalidRequest, fmt.Sprintf("Invalid value %s for interval.ms, interval must be between 100 and 3600000 (1 hour)", v))
		}
	}
	for _, pattern := range splitNonEmpty(set["match"]) {
		param, value, ok := strings.Cut(pattern, "=")
		if !ok || value == "" || strings.Contains(value, "=") || !slices.Contains(clientMetricsMatch, strings.TrimSpace(param)) {
			return fail(kerr.InvalidConfig, "Illegal client matching pattern: "+pattern)
		}
		if _, err := regexp.Compile(strings.TrimSpace(value)); err != nil {
			return fail(kerr.InvalidConfig, "Illegal client matching pattern: "+pattern)
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// checkAlterations refuses what makes no sense in a request before looking at any resource.
func checkAlterations(alterations []alteration) error {
	seen := map[string]bool{}
	var nulls []string
	for _, a := range alterations {
		if seen[a.key] {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[a.key] = true
		if a.value == nil && a.op != opDelete {
			nulls = append(nulls, a.key)
		}
		if a.op < opSet || a.op > opSubtract {
			return fail(kerr.InvalidRequest, fmt.Sprintf("Unknown operations type %d", a.op))
		}
	}
	if len(nulls) > 0 {
		return fail(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	return nil
}
