package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/timeline"
)

// Types of configuration resources, as on the wire.
const (
	resourceTopic         int8 = 2
	resourceBroker        int8 = 4
	resourceBrokerLogger  int8 = 8
	resourceClientMetrics int8 = 16
	resourceGroup         int8 = 32
)

// Operations of IncrementalAlterConfigs.
const (
	opSet      int8 = 0
	opDelete   int8 = 1
	opAppend   int8 = 2
	opSubtract int8 = 3
)

// Settings with rules of their own.
const (
	minISRKey        = "min.insync.replicas"
	uncleanKey       = "unclean.leader.election.enable"
	cordonedDirsKey  = "cordoned.log.dirs"
	maxConfigValue   = 32767 // characters; a string of Kafka's old protocol holds no more
	clusterWideName  = ""    // as a broker's name: all brokers
	fromDynamicTopic = 1     // sources of a setting, as in DescribeConfigs
	fromDynamicNode  = 2
	fromDynamicAll   = 3
	fromStatic       = 4
	fromDefault      = 5
)

// resource names what a setting belongs to.
type resource struct {
	kind int8
	name string
}

func compareResource(a, b resource) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

// String is how Kafka's log lines show a resource.
func (r resource) String() string {
	return fmt.Sprintf("ConfigResource(type=%s, name='%s')", kindText(r.kind), r.name)
}

func kindText(kind int8) string {
	switch kind {
	case resourceTopic:
		return "TOPIC"
	case resourceBroker:
		return "BROKER"
	case resourceBrokerLogger:
		return "BROKER_LOGGER"
	case resourceClientMetrics:
		return "CLIENT_METRICS"
	case resourceGroup:
		return "GROUP"
	}
	return "UNKNOWN"
}

// configs owns all dynamic settings.
type configs struct {
	log      *slog.Logger
	registry *timeline.Registry
	node     *config.Node
	nodeID   int32
	features *features
	data     *timeline.Map[resource, *timeline.Map[string, string]]
	exists   func(resource) error // whether a resource can have settings
}

func newConfigs(log *slog.Logger, node *config.Node, nodeID int32, f *features, r *timeline.Registry) *configs {
	return &configs{
		log: log, registry: r, node: node, nodeID: nodeID, features: f,
		data: timeline.NewMap[resource, *timeline.Map[string, string]](r, compareResource),
	}
}

func (c *configs) replay(r *metadata.ConfigRecord) {
	res := resource{r.ResourceType, r.ResourceName}
	own, ok := c.data.Get(res)
	switch {
	case r.Value != nil && !ok:
		own = timeline.NewOrderedMap[string, string](c.registry)
		c.data.Put(res, own)
		fallthrough
	case r.Value != nil:
		own.Put(r.Name, *r.Value)
	case ok:
		own.Delete(r.Name)
		if own.Len() == 0 {
			c.data.Delete(res)
		}
	}
	value := "null"
	switch {
	case c.isSensitive(res.kind, r.Name):
		value = "[hidden]"
	case r.Value != nil:
		value = *r.Value
	}
	c.log.Info(fmt.Sprintf("Replayed ConfigRecord for %s which set configuration %s to %s", res, r.Name, value))
}

// deleteTopic drops a topic's settings with the topic.
func (c *configs) deleteTopic(name string) { c.data.Delete(resource{resourceTopic, name}) }

func (c *configs) value(res resource, key string) (string, bool) {
	if own, ok := c.data.Get(res); ok {
		return own.Get(key)
	}
	return "", false
}

// own are the settings of a resource, as a map of the caller's.
func (c *configs) own(res resource) map[string]string {
	all := map[string]string{}
	if own, ok := c.data.Get(res); ok {
		for k, v := range own.All() {
			all[k] = v
		}
	}
	return all
}

func scopeOf(kind int8) config.Scope {
	switch kind {
	case resourceTopic:
		return config.ScopeTopic
	case resourceBroker:
		return config.ScopeNode
	case resourceGroup:
		return config.ScopeGroup
	case resourceClientMetrics:
		return config.ScopeClientMetrics
	}
	return ""
}

// isSensitive: what we do not know may be a password.
func (c *configs) isSensitive(kind int8, key string) bool {
	d := config.Lookup(scopeOf(kind), key)
	return d == nil || d.Sensitive()
}

// effective is the value that a topic setting has, and where it comes from: the topic, this node's dynamic settings,
// the cluster's, the node's file, the default.
func (c *configs) effective(d *config.Def, topic func(key string) (string, bool)) (value *string, source int8) {
	if v, ok := topic(d.Name); ok {
		return &v, fromDynamicTopic
	}
	synonyms := config.TopicSynonyms(d.Name)
	nodeRes, allRes := resource{resourceBroker, strconv.Itoa(int(c.nodeID))}, resource{resourceBroker, clusterWideName}
	for _, layer := range []struct {
		get    func(key string) (string, bool)
		source int8
	}{
		{func(key string) (string, bool) { return c.value(nodeRes, key) }, fromDynamicNode},
		{func(key string) (string, bool) { return c.value(allRes, key) }, fromDynamicAll},
		{func(key string) (string, bool) {
			e, ok := c.node.Given(key)
			return e.Value, ok
		}, fromStatic},
	} {
		for _, s := range synonyms {
			if v, ok := layer.get(s.NodeKey); ok {
				v = times(v, s.Multiplier)
				return &v, layer.source
			}
		}
	}
	if d.Null {
		return nil, fromDefault
	}
	v := d.Default
	return &v, fromDefault
}

// times turns hours or minutes into milliseconds.
func times(value string, factor int64) string {
	if factor == 1 {
		return value
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case err != nil:
		return value
	case n < 0: // -1 hours is no limit, not minus an hour
		return "-1"
	}
	return strconv.FormatInt(n*factor, 10)
}

// topicValue is the effective text of one setting of a topic that exists.
func (c *configs) topicValue(topic, key string) string {
	res := resource{resourceTopic, topic}
	v, _ := c.effective(config.Lookup(config.ScopeTopic, key), func(key string) (string, bool) { return c.value(res, key) })
	if v == nil {
		return ""
	}
	return *v
}

func (c *configs) minISR(topic string) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.topicValue(topic, minISRKey)))
	if err != nil {
		return 1
	}
	return n
}

func (c *configs) uncleanElection(topic string) bool {
	return strings.EqualFold(strings.TrimSpace(c.topicValue(topic, uncleanKey)), "true")
}

// staticMinISR is what the node's own file says, or the default.
func (c *configs) staticMinISR() string { return c.node.String(minISRKey) }

// alteration is one operation on one setting.
type alteration struct {
	key   string
	op    int8
	value *string
}

// alterIncremental works out the records that apply operations to one resource, or why none is applied. isNew is set
// for the settings of a topic that the same request creates.
func (c *configs) alterIncremental(res resource, alterations []alteration, isNew, forwarded bool) ([]metadata.Versioned, error) {
	var records []metadata.Versioned
	for _, a := range alterations {
		current, has := c.value(res, a.key)
		next, keep := current, has
		switch a.op {
		case opSet:
			next, keep = "", a.value != nil
			if keep {
				next = *a.value
			}
		case opDelete:
			next, keep = "", false
		case opAppend, opSubtract:
			d := config.Lookup(scopeOf(res.kind), a.key)
			if d == nil || d.Type != config.TypeList {
				verb := map[int8]string{opAppend: "APPEND", opSubtract: "SUBTRACT"}[a.op]
				return nil, fail(kerr.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", verb, a.key))
			}
			if !has && !d.Null {
				next = d.Default
			}
			next, keep = editList(next, a), true
		}
		// A broker's setting is written also unchanged: brokers reload files then (KAFKA-14136).
		if has == keep && current == next && res.kind != resourceBroker {
			continue
		}
		records = append(records, configRecord(res, a.key, next, keep))
	}
	if err := c.check(res, records, nil, isNew, forwarded); err != nil {
		return nil, err
	}
	return records, nil
}

// editList adds elements that are not there, or takes away those that are.
func editList(list string, a alteration) string {
	items := splitNonEmpty(list)
	value := ""
	if a.value != nil {
		value = *a.value
	}
	for _, item := range strings.Split(value, ",") {
		i := slices.Index(items, item)
		switch {
		case a.op == opAppend && i < 0:
			items = append(items, item)
		case a.op == opSubtract && i >= 0:
			items = slices.Delete(items, i, i+1)
		}
	}
	return strings.Join(items, ",")
}

func splitNonEmpty(list string) []string {
	var items []string
	for _, item := range strings.Split(list, ",") {
		if item != "" {
			items = append(items, item)
		}
	}
	return items
}

// alterWhole works out the records that make a resource's settings exactly the given ones (the older AlterConfigs).
func (c *configs) alterWhole(res resource, want []alteration, forwarded bool) ([]metadata.Versioned, error) {
	var explicit, implicit []metadata.Versioned
	given := map[string]bool{}
	for _, a := range want {
		given[a.key] = true
		current, has := c.value(res, a.key)
		next, keep := "", a.value != nil
		if keep {
			next = *a.value
		}
		if has != keep || current != next || res.kind == resourceBroker {
			explicit = append(explicit, configRecord(res, a.key, next, keep))
		}
	}
	if own, ok := c.data.Get(res); ok {
		for key := range own.All() {
			if !given[key] {
				implicit = append(implicit, configRecord(res, key, "", false))
			}
		}
	}
	if err := c.check(res, explicit, implicit, false, forwarded); err != nil {
		return nil, err
	}
	return append(explicit, implicit...), nil
}

func configRecord(res resource, key, value string, keep bool) metadata.Versioned {
	rec := metadata.NewConfigRecord()
	rec.ResourceType, rec.ResourceName, rec.Name, rec.Value = res.kind, res.name, key, nil
	if keep {
		rec.Value = &value
	}
	return metadata.Versioned{Record: rec}
}

// clearELR are the records that follow settings of min.insync.replicas: who is eligible depends on it.
func (c *configs) clearELR(records []metadata.Versioned) []metadata.Versioned {
	if !c.features.elrEnabled() {
		return nil
	}
	var out []metadata.Versioned
	for _, v := range records {
		r, ok := v.Record.(*metadata.ConfigRecord)
		if !ok || r.Name != minISRKey {
			continue
		}
		rec := metadata.NewClearElrRecord()
		if r.ResourceType == resourceTopic {
			rec.TopicName = r.ResourceName
		}
		out = append(out, metadata.Versioned{Record: rec})
	}
	return out
}

// elrSafety are the settings that switching ELR on needs: min.insync.replicas for the cluster, and none for single
// brokers, so that all agree on it.
func (c *configs) elrSafety() []metadata.Versioned {
	var records []metadata.Versioned
	all := resource{resourceBroker, clusterWideName}
	if _, ok := c.value(all, minISRKey); !ok {
		c.log.Info("Generating cluster-level " + minISRKey + " of " + c.staticMinISR() + ".")
		records = append(records, configRecord(all, minISRKey, c.staticMinISR(), true))
	}
	for res, own := range c.data.All() {
		if res.kind == resourceBroker && res.name != clusterWideName && own.Has(minISRKey) {
			c.log.Info("Removing broker-level "+minISRKey+".", "broker", res.name)
			records = append(records, configRecord(res, minISRKey, "", false))
		}
	}
	return records
}
