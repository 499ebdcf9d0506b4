package image

import (
	"iter"
	"maps"
	"strconv"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/metadata"
)

// Types of the resources that have settings.
const (
	ResourceTopic         int8 = 2
	ResourceBroker        int8 = 4 // name "": all brokers
	ResourceBrokerLogger  int8 = 8
	ResourceClientMetrics int8 = 16
	ResourceGroup         int8 = 32
)

// ConfigResource names something that has settings.
type ConfigResource struct {
	Type int8
	Name string
}

func (r ConfigResource) key() string { return string([]byte{byte(r.Type)}) + r.Name }

func resourceOf(key string) ConfigResource { return ConfigResource{int8(key[0]), key[1:]} }

// Configs are the settings that were set at run time, by resource.
type Configs struct {
	byResource *table[string, map[string]string]
}

// Get returns the settings of a resource; nil if none are set. The map is shared: it must not be changed.
func (c *Configs) Get(resourceType int8, name string) map[string]string {
	if c == nil {
		return nil
	}
	m, _ := c.byResource.get(ConfigResource{resourceType, name}.key())
	return m
}

// All iterates over the resources that have settings, sorted by type and name.
func (c *Configs) All() iter.Seq2[ConfigResource, map[string]string] {
	return func(yield func(ConfigResource, map[string]string) bool) {
		if c == nil {
			return
		}
		for key, m := range c.byResource.all() {
			if !yield(resourceOf(key), m) {
				return
			}
		}
	}
}

// Layers are the settings of a node with what was set for it at run time.
func (c *Configs) Layers(node *config.Node) config.Layers {
	return config.Layers{Node: node, Broker: c.Get(ResourceBroker, strconv.Itoa(int(node.NodeID))), Cluster: c.Get(ResourceBroker, "")}
}

// Topic is the effective configuration of a topic on a node.
func (c *Configs) Topic(node *config.Node, topic string) config.Topic {
	return config.Topic{Layers: c.Layers(node), Own: c.Get(ResourceTopic, topic)}
}

type configsDelta struct {
	tableDelta[string, map[string]string]
	// own are the resources whose map was made for this delta and may still be written to.
	own map[string]struct{}
}

func newConfigsDelta(base *Configs) *configsDelta {
	d := &configsDelta{own: map[string]struct{}{}}
	if base != nil {
		d.base = base.byResource
	}
	return d
}

func (d *configsDelta) apply() *Configs { return &Configs{d.current()} }

func (d *configsDelta) replay(r *metadata.ConfigRecord) {
	key := ConfigResource{r.ResourceType, r.ResourceName}.key()
	m, _ := d.get(key)
	if _, ok := d.own[key]; !ok {
		if m = maps.Clone(m); m == nil {
			m = map[string]string{}
		}
		d.own[key] = struct{}{}
	}
	if r.Value != nil {
		m[r.Name] = *r.Value
	} else {
		delete(m, r.Name)
	}
	if len(m) > 0 {
		d.put(key, m)
		return
	}
	delete(d.own, key)
	if !d.tableDelta.delete(key) {
		d.mutable(key) // never set: the resource counts as changed all the same
	}
}

func (d *configsDelta) remove(resourceType int8, name string) {
	key := ConfigResource{resourceType, name}.key()
	delete(d.own, key)
	d.tableDelta.delete(key)
}

func (d *configsDelta) replaceBy(next *Configs) {
	if next == nil {
		next = &Configs{}
	}
	d.replace(next.byResource, func(a, b map[string]string) bool { return maps.Equal(a, b) })
}
