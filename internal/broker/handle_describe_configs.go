package broker

import (
	"fmt"
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
	describedResource = protocol.DescribeConfigsResponseDescribeConfigsResult
	describedConfig   = protocol.DescribeConfigsResponseDescribeConfigsResourceResult
	configSynonym     = protocol.DescribeConfigsResponseDescribeConfigsSynonym
)

// Where a value comes from.
const (
	sourceTopic         int8 = 1
	sourceBroker        int8 = 2 // set for this broker at run time
	sourceCluster       int8 = 3 // set for all brokers at run time
	sourceStatic        int8 = 4 // the properties file
	sourceDefault       int8 = 5
	sourceClientMetrics int8 = 7
	sourceGroup         int8 = 8
)

// malformed is Kafka's text for a request that makes no sense.
const malformed = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// Configs answers questions about settings, as a broker and as a controller.
type Configs struct {
	cfg   *config.Node
	image func() *image.Image
}

// NewConfigs returns the answers of a node: its own settings, and those of an image. Any goroutine.
func NewConfigs(cfg *config.Node, image func() *image.Image) *Configs { return &Configs{cfg, image} }

// DescribeConfigs is key 32, versions 1–4. v1: synonyms (KIP-226). v3: types and documentation (KIP-569; we have no texts: null). Path: one image → the
// settings of a resource, all or those named, with where they come from, strongest first. Values of passwords are null. Errors of a
// resource: 3 unknown topic, 17 its name is illegal, 42 another broker's settings, an empty name, an unknown type.
func (c *Configs) DescribeConfigs(_ *rpc.Context, req *protocol.DescribeConfigsRequest, respond func(*protocol.DescribeConfigsResponse)) {
	resp := protocol.NewDescribeConfigsResponse()
	d := describer{cfg: c.cfg, img: c.image(), synonyms: req.IncludeSynonyms}
	d.layers = d.img.Configs.Layers(c.cfg)
	for _, r := range req.Resources {
		one := protocol.NewDescribeConfigsResponseDescribeConfigsResult()
		one.ResourceType, one.ResourceName = r.ResourceType, r.ResourceName
		d.wanted = r.ConfigurationKeys
		d.describe(&one)
		resp.Results = append(resp.Results, one)
	}
	respond(resp)
}

// describer describes resources of one image.
type describer struct {
	cfg      *config.Node
	img      *image.Image
	layers   config.Layers
	synonyms bool
	wanted   []string // empty: all
}

func (d *describer) describe(r *describedResource) {
	name := r.ResourceName
	fail := func(e *kerr.Error, format string, args ...any) {
		message := fmt.Sprintf(format, args...)
		r.ErrorCode, r.ErrorMessage = e.Code, &message
	}
	switch r.ResourceType {
	case image.ResourceTopic:
		switch {
		case !legalTopicName(name):
			fail(kerr.InvalidTopicException, "%s", topicNameProblem(name))
		case d.img.Topics.ByName(name) == nil:
			r.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			d.topic(r)
		}
	case image.ResourceBroker, image.ResourceBrokerLogger:
		logger := r.ResourceType == image.ResourceBrokerLogger
		id, err := strconv.ParseInt(name, 10, 32)
		switch {
		case name == "" && logger:
			fail(kerr.InvalidRequest, "Broker id must not be empty")
		case name == "":
			d.cluster(r)
		case err != nil:
			fail(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
		case int32(id) != d.cfg.NodeID && logger:
			fail(kerr.InvalidRequest, "Unexpected broker id, expected %d but received %s", d.cfg.NodeID, name)
		case int32(id) != d.cfg.NodeID:
			fail(kerr.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", d.cfg.NodeID, name)
		case !logger: // there are no loggers whose level could be set one by one
			d.broker(r)
		}
	case image.ResourceClientMetrics:
		if name == "" {
			fail(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
			return
		}
		d.clientMetrics(r)
	case image.ResourceGroup:
		if name == "" {
			fail(kerr.InvalidRequest, "Group name must not be empty")
			return
		}
		d.group(r)
	default:
		fail(kerr.InvalidRequest, "%s", malformed)
	}
}

// topicNameProblem says in Kafka's words why a name is illegal.
func topicNameProblem(name string) string {
	switch {
	case name == "":
		return "Topic name is invalid: the empty string is not allowed"
	case name == "." || name == "..":
		return "Topic name is invalid: '" + name + "' is not allowed"
	case len(name) > maxTopicName:
		return fmt.Sprintf("Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	}
	return "Topic name is invalid: '" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
}

func (d *describer) topic(r *describedResource) {
	topic := d.img.Configs.Topic(d.cfg, r.ResourceName)
	for _, def := range d.defs(config.ScopeTopic) {
		var synonyms []configSynonym
		value, ok := topic.Lookup(def.Name)
		if _, own := topic.Own[def.Name]; own {
			synonyms = append(synonyms, synonym(def, def.Name, value, sourceTopic))
		}
		if keys := config.TopicSynonyms(def.Name); len(keys) > 0 {
			synonyms = append(synonyms, d.nodeSynonyms(keys[0].NodeKey)...)
		}
		d.add(r, def.Name, def, value, ok, false, synonyms)
	}
}

func (d *describer) cluster(r *describedResource) {
	for _, name := range sortedKeys(d.layers.Cluster) {
		if def := config.Lookup(config.ScopeNode, name); d.wants(name) {
			value := d.layers.Cluster[name]
			d.add(r, name, def, value, true, readOnly(def), []configSynonym{synonym(def, name, value, sourceCluster)})
		}
	}
}

func (d *describer) broker(r *describedResource) {
	names := map[string]string{}
	for _, def := range config.Defs(config.ScopeNode) {
		if !def.Internal {
			names[def.Name] = ""
		}
	}
	for _, e := range d.cfg.Originals() {
		names[e.Key] = e.Value
	}
	for _, m := range []map[string]string{d.layers.Cluster, d.layers.Broker} {
		for name, value := range m {
			names[name] = value
		}
	}
	for _, name := range sortedKeys(names) {
		if !d.wants(name) {
			continue
		}
		def := config.Lookup(config.ScopeNode, name)
		synonyms := d.nodeSynonyms(name)
		value, ok := names[name], true
		if def != nil {
			value, ok = d.layers.Lookup(name)
		}
		if name == "broker.id" { // stands for node.id, which is always given
			value, ok = strconv.Itoa(int(d.cfg.NodeID)), true
			synonyms = []configSynonym{synonym(def, name, value, sourceStatic), synonym(def, name, def.Default, sourceDefault)}
		}
		d.add(r, name, def, value, ok, readOnly(def), synonyms)
	}
}

func (d *describer) clientMetrics(r *describedResource) {
	own := d.img.Configs.Get(image.ResourceClientMetrics, r.ResourceName)
	for _, def := range d.defs(config.ScopeClientMetrics) {
		value, ok := own[def.Name]
		var synonyms []configSynonym
		if ok {
			synonyms = append(synonyms, synonym(def, def.Name, value, sourceClientMetrics))
		} else {
			value = def.Default
		}
		d.add(r, def.Name, def, value, true, false, synonyms)
	}
}

func (d *describer) group(r *describedResource) {
	own := d.img.Configs.Get(image.ResourceGroup, r.ResourceName)
	for _, def := range d.defs(config.ScopeGroup) {
		value, set := own[def.Name]
		var synonyms []configSynonym
		if set {
			synonyms = append(synonyms, synonym(def, def.Name, value, sourceGroup))
		}
		if key := groupNodeKey(def.Name); key != "" {
			if !set {
				value, _ = d.layers.Lookup(key)
			}
			synonyms = append(synonyms, d.nodeSynonyms(key)...)
		} else {
			if !set {
				value = def.Default
			}
			synonyms = append(synonyms, synonym(def, def.Name, def.Default, sourceDefault))
		}
		d.add(r, def.Name, def, value, true, false, synonyms)
	}
}

// groupNodeKey is the node setting from which a group setting takes its value; empty if there is none.
func groupNodeKey(name string) string {
	if name == "streams.assignor.name" {
		return "group.streams.assignors"
	}
	if key := "group." + name; config.Lookup(config.ScopeNode, key) != nil {
		return key
	}
	return ""
}

// defs are the settings of a scope that can be described and are wanted.
func (d *describer) defs(s config.Scope) []*config.Def {
	var out []*config.Def
	for _, def := range config.Defs(s) {
		if !def.Internal && d.wants(def.Name) {
			out = append(out, def)
		}
	}
	return out
}

func (d *describer) wants(name string) bool {
	return len(d.wanted) == 0 || slices.Contains(d.wanted, name)
}

// nodeKeyGroups are node settings that say the same in different units, each group in order of precedence.
var nodeKeyGroups = [][]string{
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
}

// nodeKeys are the settings among which a node setting's value is found.
func nodeKeys(key string) []string {
	for _, g := range nodeKeyGroups {
		if slices.Contains(g, key) {
			return g
		}
	}
	switch {
	case key == "log.flush.interval.ms":
		return []string{key, "log.flush.scheduler.interval.ms"}
	case strings.HasPrefix(key, "listener.name."):
		parts := strings.SplitN(key, ".", 4)
		if len(parts) == 4 {
			return []string{key, parts[3]}
		}
	}
	return []string{key}
}

// nodeSynonyms are all places that set a node setting, strongest first. As in Kafka what comes before the setting itself is left
// out, so that one which is not set at all has none.
func (d *describer) nodeSynonyms(key string) []configSynonym {
	var out []configSynonym
	keys := nodeKeys(key)
	add := func(get func(string) (string, bool), source int8) {
		for _, k := range keys {
			if v, ok := get(k); ok {
				out = append(out, synonym(config.Lookup(config.ScopeNode, key), k, v, source))
			}
		}
	}
	from := func(m map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
	}
	add(from(d.layers.Broker), sourceBroker)
	add(from(d.layers.Cluster), sourceCluster)
	add(func(k string) (string, bool) { e, ok := d.cfg.Given(k); return e.Value, ok }, sourceStatic)
	add(func(k string) (string, bool) {
		def := config.Lookup(config.ScopeNode, k)
		if def == nil || def.Null || def.Required {
			return "", false
		}
		return def.Default, true
	}, sourceDefault)
	i := slices.IndexFunc(out, func(s configSynonym) bool { return s.Name == key })
	if i < 0 {
		return nil
	}
	return out[i:]
}

// sensitive reports whether a value must not be shown: it is a password, or nobody knows what it is.
func sensitive(def *config.Def) bool { return def == nil || def.Sensitive() }

func readOnly(def *config.Def) bool { return def == nil || def.Dynamic == config.ReadOnly }

func synonym(def *config.Def, name, value string, source int8) configSynonym {
	s := configSynonym{Name: name, Source: source}
	if !sensitive(def) {
		s.Value = &value
	}
	return s
}

// add appends a setting. ok: its value is not null.
func (d *describer) add(r *describedResource, name string, def *config.Def, value string, ok, readOnly bool, synonyms []configSynonym) {
	c := protocol.NewDescribeConfigsResponseDescribeConfigsResourceResult()
	c.Name, c.ReadOnly, c.IsSensitive, c.ConfigSource, c.ConfigType, c.Documentation = name, readOnly, sensitive(def), sourceDefault, configType(def), nil
	if ok && !c.IsSensitive {
		c.Value = &value
	} else {
		c.Value = nil
	}
	if len(synonyms) > 0 {
		c.ConfigSource = synonyms[0].Source
	}
	if d.synonyms {
		c.Synonyms = synonyms
	}
	r.Configs = append(r.Configs, c)
}

// configType is a type's number in the protocol.
func configType(def *config.Def) int8 {
	if def == nil {
		return 0
	}
	order := []config.Type{config.TypeBoolean, config.TypeString, config.TypeInt, config.TypeShort, config.TypeLong, config.TypeDouble, config.TypeList, config.TypeClass, config.TypePassword}
	return int8(slices.Index(order, def.Type) + 1)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
