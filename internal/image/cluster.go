package image

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Cluster are the registered nodes.
type Cluster struct {
	brokers     *table[int32, *Broker]
	controllers *table[int32, *Controller]
}

// Endpoint is an advertised listener of a node.
type Endpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// FeatureRange are the levels of a feature that a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Broker is the registration of a broker. It is immutable.
type Broker struct {
	ID                   int32
	Epoch                int64
	IncarnationID        uuid.UUID
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	IsMigratingZkBroker  bool // only in logs that a 3.x controller wrote
	Directories          []uuid.UUID
	CordonedDirs         []uuid.UUID // nil: never reported
}

// Controller is the registration of a controller. It is immutable.
type Controller struct {
	ID               int32
	IncarnationID    uuid.UUID
	ZkMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// Broker returns a registered broker, fenced or not; nil if there is none.
func (c *Cluster) Broker(id int32) *Broker {
	if c == nil {
		return nil
	}
	b, _ := c.brokers.get(id)
	return b
}

// Brokers iterates over the registered brokers, sorted by id.
func (c *Cluster) Brokers() iter.Seq[*Broker] {
	return func(yield func(*Broker) bool) {
		if c == nil {
			return
		}
		for _, b := range c.brokers.all() {
			if !yield(b) {
				return
			}
		}
	}
}

// Controller returns a registered controller; nil if there is none.
func (c *Cluster) Controller(id int32) *Controller {
	if c == nil {
		return nil
	}
	ctrl, _ := c.controllers.get(id)
	return ctrl
}

// Controllers iterates over the registered controllers, sorted by id.
func (c *Cluster) Controllers() iter.Seq[*Controller] {
	return func(yield func(*Controller) bool) {
		if c == nil {
			return
		}
		for _, ctrl := range c.controllers.all() {
			if !yield(ctrl) {
				return
			}
		}
	}
}

// Endpoint returns the endpoint of a listener; false if the broker has no such listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	return findEndpoint(b.Endpoints, listener)
}

// Endpoint returns the endpoint of a listener; false if the controller has no such listener.
func (c *Controller) Endpoint(listener string) (Endpoint, bool) {
	return findEndpoint(c.Endpoints, listener)
}

func findEndpoint(all []Endpoint, listener string) (Endpoint, bool) {
	for _, e := range all {
		if e.Name == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

type clusterDelta struct {
	brokers     tableDelta[int32, *Broker]
	controllers tableDelta[int32, *Controller]
}

func newClusterDelta(base *Cluster) *clusterDelta {
	d := &clusterDelta{}
	if base != nil {
		d.brokers.base, d.controllers.base = base.brokers, base.controllers
	}
	return d
}

func (d *clusterDelta) apply() *Cluster {
	return &Cluster{brokers: d.brokers.current(), controllers: d.controllers.current()}
}

func (d *clusterDelta) replace(next *Cluster) {
	if next == nil {
		next = &Cluster{}
	}
	d.brokers.replace(next.brokers, func(a, b *Broker) bool { return reflect.DeepEqual(a, b) })
	d.controllers.replace(next.controllers, func(a, b *Controller) bool { return reflect.DeepEqual(a, b) })
}

func (d *clusterDelta) registerBroker(r *metadata.RegisterBrokerRecord) {
	b := &Broker{
		ID: r.BrokerId, Epoch: r.BrokerEpoch, IncarnationID: r.IncarnationId, Rack: r.Rack, Fenced: r.Fenced,
		InControlledShutdown: r.InControlledShutdown, IsMigratingZkBroker: r.IsMigratingZkBroker,
		Directories: orNil(r.LogDirs), CordonedDirs: r.CordonedLogDirs,
	}
	for _, e := range r.EndPoints {
		b.Endpoints = append(b.Endpoints, Endpoint{e.Name, e.Host, e.Port, e.SecurityProtocol})
	}
	for _, f := range r.Features {
		b.Features = append(b.Features, FeatureRange{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
	}
	d.brokers.put(b.ID, b)
}

func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// changeBroker replaces a registration by what change makes of it. As in Kafka a record of another epoch is a fault.
func (d *clusterDelta) changeBroker(id int32, epoch int64, change func(*Broker)) error {
	old, ok := d.brokers.get(id)
	if !ok {
		return fmt.Errorf("broker %d is not registered", id)
	}
	if old.Epoch != epoch {
		return fmt.Errorf("broker %d is registered with epoch %d, not %d", id, old.Epoch, epoch)
	}
	b := *old
	change(&b)
	d.brokers.put(id, &b)
	return nil
}

func (d *clusterDelta) replayRegistrationChange(r *metadata.BrokerRegistrationChangeRecord) error {
	if r.Fenced < -1 || r.Fenced > 1 || r.InControlledShutdown < 0 || r.InControlledShutdown > 1 {
		return fmt.Errorf("broker %d: fenced %d, inControlledShutdown %d", r.BrokerId, r.Fenced, r.InControlledShutdown)
	}
	return d.changeBroker(r.BrokerId, r.BrokerEpoch, func(b *Broker) {
		if r.Fenced != 0 {
			b.Fenced = r.Fenced > 0
		}
		if r.InControlledShutdown != 0 {
			b.InControlledShutdown = true
		}
		if len(r.LogDirs) > 0 {
			b.Directories = r.LogDirs
		}
		if r.CordonedLogDirs != nil {
			b.CordonedDirs = r.CordonedLogDirs
		}
	})
}

func (d *clusterDelta) unregisterBroker(r *metadata.UnregisterBrokerRecord) error {
	if !d.brokers.delete(r.BrokerId) {
		return fmt.Errorf("broker %d is not registered", r.BrokerId)
	}
	return nil
}

func (d *clusterDelta) registerController(r *metadata.RegisterControllerRecord) {
	c := &Controller{ID: r.ControllerId, IncarnationID: r.IncarnationId, ZkMigrationReady: r.ZkMigrationReady}
	for _, e := range r.EndPoints {
		c.Endpoints = append(c.Endpoints, Endpoint{e.Name, e.Host, e.Port, e.SecurityProtocol})
	}
	for _, f := range r.Features {
		c.Features = append(c.Features, FeatureRange{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
	}
	d.controllers.put(c.ID, c)
}

func (d *clusterDelta) unregisterController(r *metadata.UnregisterControllerRecord) error {
	if !d.controllers.delete(r.ControllerId) {
		return fmt.Errorf("controller %d is not registered", r.ControllerId)
	}
	return nil
}
