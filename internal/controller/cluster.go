package controller

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// cluster owns the registrations of brokers and controllers.
type cluster struct {
	log         *slog.Logger
	clusterID   string
	features    *features
	brokers     *timeline.Map[int32, *broker]
	registered  *timeline.Map[int32, int64] // offset of each broker's last registration record
	controllers *timeline.Map[int32, *controllerNode]
	dirs        *timeline.Map[uuid.UUID, int32] // whose a log directory is
	heartbeats  *heartbeats                     // nil unless active
	// local is the incarnation of the broker in this process, zero if there is none.
	local uuid.UUID
	// superseded is, of each broker, the incarnation that last lost its session to a successor; of the active controller.
	superseded map[int32]uuid.UUID
}

func newCluster(log *slog.Logger, clusterID string, f *features, r *timeline.Registry) *cluster {
	return &cluster{
		log: log, clusterID: clusterID, features: f,
		brokers:     timeline.NewOrderedMap[int32, *broker](r),
		registered:  timeline.NewOrderedMap[int32, int64](r),
		controllers: timeline.NewOrderedMap[int32, *controllerNode](r),
		dirs:        timeline.NewMap[uuid.UUID, int32](r, uuid.UUID.Compare),
	}
}

// activate starts to follow heartbeats: whoever is unfenced has a whole session to be heard of.
func (c *cluster) activate(t *tracker) {
	c.heartbeats = newHeartbeats(c.log, t)
	c.superseded = map[int32]uuid.UUID{}
	for id, b := range c.brokers.All() {
		c.heartbeats.register(id, b.fenced)
		if !b.fenced {
			t.touch(brokerEpoch{id, b.epoch})
		}
	}
}

func (c *cluster) deactivate() { c.heartbeats, c.superseded = nil, nil }

func (c *cluster) broker(id int32) *broker {
	b, _ := c.brokers.Get(id)
	return b
}

// isActive reports whether a broker is registered and neither fenced nor shutting down.
func (c *cluster) isActive(id int32) bool {
	b := c.broker(id)
	return b != nil && !b.fenced && !b.inControlledShutdown
}

// checkEpoch fails unless a request comes from the present incarnation of its broker.
func (c *cluster) checkEpoch(id int32, epoch int64) error {
	switch b := c.broker(id); {
	case b == nil:
		return fail(kerr.StaleBrokerEpoch, fmt.Sprintf("No broker registration found for broker id %d", id))
	case b.epoch != epoch:
		return fail(kerr.StaleBrokerEpoch, fmt.Sprintf("Expected broker epoch %d, but got broker epoch %d", b.epoch, epoch))
	}
	return nil
}

// usable are the brokers that may get new replicas, sorted.
func (c *cluster) usable() []usableBroker {
	var list []usableBroker
	for _, id := range c.heartbeats.ids() {
		s, b := c.heartbeats.brokers[id], c.broker(id)
		if b != nil && !s.shuttingDown() && b.hasUncordonedDirs() {
			list = append(list, usableBroker{id, b.rack, s.fenced})
		}
	}
	return list
}

// defaultDir is the directory of a new replica: the broker's only one, or it says later which.
func (c *cluster) defaultDir(id int32) uuid.UUID {
	b := c.broker(id)
	switch {
	case b == nil:
		return uuid.DirUnassigned
	case len(b.dirs) == 0:
		return uuid.DirMigrating
	case len(b.dirs) == 1:
		return b.dirs[0]
	}
	return uuid.DirUnassigned
}

// registerBroker works out the record of a registration. epoch is what the broker gets if it is a new incarnation: the
// offset of the result's first record. shutdown adds what its last incarnation leaves behind.
func (c *cluster) registerBroker(req *protocol.BrokerRegistrationRequest, epoch int64, kraftVersion int16, detectClean bool,
	shutdown func(id int32, clean bool) []metadata.Versioned) (Result[int64], error) {
	if req.ClusterId != c.clusterID {
		return Result[int64]{}, fail(kerr.InconsistentClusterId, fmt.Sprintf("Expected cluster ID %s, but got cluster ID %s", c.clusterID, req.ClusterId))
	}
	id := req.BrokerId
	existing := c.broker(id)
	sameIncarnation := existing != nil && existing.incarnation == req.IncarnationId
	if existing != nil && !sameIncarnation && c.hasSession(existing) && !c.supersedes(existing, req) {
		return Result[int64]{}, fail(kerr.DuplicateBrokerRegistration, "Another broker is registered with that broker id. If the "+
			"broker was recently restarted this should self-resolve once the heartbeat manager expires the broker's session.")
	}
	if req.IsMigratingZkBroker {
		return Result[int64]{}, fail(kerr.BrokerIdNotRegistered, "Controller does not support registering ZK brokers.")
	}
	v := c.features.version()
	if v.DirectoryAssignment() {
		if err := c.checkDirs(id, req.LogDirs); err != nil {
			return Result[int64]{}, err
		}
	}
	rec := metadata.NewRegisterBrokerRecord()
	rec.BrokerId, rec.IncarnationId, rec.Rack = id, req.IncarnationId, req.Rack
	for _, l := range req.Listeners {
		rec.EndPoints = append(rec.EndPoints, metadata.RegisterBrokerRecordBrokerEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	if err := c.checkFeatures(req.Features, kraftVersion); err != nil {
		return Result[int64]{}, err
	}
	for _, f := range req.Features {
		rec.Features = append(rec.Features, metadata.RegisterBrokerRecordBrokerFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion,
		})
	}
	if v.DirectoryAssignment() {
		rec.LogDirs = req.LogDirs
	}
	var records []metadata.Versioned
	if sameIncarnation {
		c.log.Info(fmt.Sprintf("Amending registration of broker %d, incarnation ID %s. Broker epoch remains %d.", id, req.IncarnationId, existing.epoch))
		rec.Fenced, rec.InControlledShutdown, rec.BrokerEpoch = existing.fenced, existing.inControlledShutdown, existing.epoch
	} else {
		stored := int64(-2) // nothing that a broker would send
		if existing != nil {
			stored = existing.epoch
		}
		clean := stored == req.PreviousBrokerEpoch
		records = shutdown(id, detectClean && clean)
		rec.BrokerEpoch = epoch
		if existing == nil {
			c.log.Info(fmt.Sprintf("No previous registration found for broker %d. New incarnation ID is %s.  Generated %d record(s) to clean up previous incarnations. New broker epoch is %d.",
				id, req.IncarnationId, len(records), epoch))
		} else {
			c.log.Info(fmt.Sprintf("Registering a new incarnation of broker %d. Previous incarnation ID was %s; new incarnation ID is %s. Generated %d record(s) to clean up previous incarnations. Broker epoch will become %d.",
				id, existing.incarnation, req.IncarnationId, len(records), epoch))
		}
	}
	records = append(records, metadata.Versioned{Record: rec, Version: v.RecordVersion(rec)})
	return Result[int64]{Records: records, Response: rec.BrokerEpoch}, nil
}

func (c *cluster) hasSession(b *broker) bool {
	return c.heartbeats.tracker.hasSession(brokerEpoch{b.id, b.epoch})
}

// supersedes reports whether a new incarnation shows that the last one is gone, so that nobody waits until its session is over:
//
//   - A broker holds the locks of its log directories from before it registers until its process ends, Kafka's as well as ours. Who
//     registers with every directory of the last incarnation has their locks now, so that process has ended. One that is frozen or cut off
//     keeps its locks, and its successor does not even start.
//   - A registration that is as good as a new session is dangerous only if it comes late: of an incarnation that died while its request
//     was under way, and that another one has followed since. It then takes the place of a broker that is alive, which is no more than
//     fencing it: what the partitions need happens with the registration (brokerShutdown), and requests with the epoch of before are refused. The
//     broker sees whom it lost its place to and registers again, at once: the dead one has no session.
//   - Two processes with copies of one directory would depose one another for ever. Who was deposed has to wait for the end of a
//     session, like any broker with Kafka.
func (c *cluster) supersedes(last *broker, req *protocol.BrokerRegistrationRequest) bool {
	if c.superseded[last.id] == req.IncarnationId {
		return false
	}
	if c.local != uuid.Zero && c.local == req.IncarnationId {
		return true // of this very process, which has the locks also if the registrations are too old to name directories
	}
	return len(last.dirs) > 0 && !slices.ContainsFunc(last.dirs, func(dir uuid.UUID) bool { return !slices.Contains(req.LogDirs, dir) })
}

func (c *cluster) checkDirs(id int32, dirs []uuid.UUID) error {
	if len(dirs) == 0 {
		return fail(kerr.InvalidRegistration, "No directories specified in request")
	}
	if slices.ContainsFunc(dirs, uuid.UUID.Reserved) {
		return fail(kerr.InvalidRegistration, "Reserved directory ID in request")
	}
	seen := map[uuid.UUID]bool{}
	for _, dir := range dirs {
		if seen[dir] {
			return fail(kerr.InvalidRegistration, "Duplicate directory ID in request")
		}
		seen[dir] = true
	}
	for _, dir := range dirs {
		if owner, ok := c.dirs.Get(dir); ok && owner != id {
			return fail(kerr.InvalidRegistration, fmt.Sprintf("Broker %d is already registered with directory %s", owner, dir))
		}
	}
	return nil
}

// checkFeatures fails if a finalized feature is at a level that the broker does not support. A feature that it does
// not mention is supported at 0 only.
func (c *cluster) checkFeatures(offered []protocol.BrokerRegistrationRequestFeature, kraftVersion int16) error {
	finalized := c.features.finalized(timeline.Latest)
	finalized[metadata.FeatureKRaft] = kraftVersion
	check := func(name string, low, high int16) error {
		if level := finalized[name]; level < low || level > high {
			return fail(kerr.UnsupportedVersion, fmt.Sprintf("Unable to register because the broker does not support finalized version "+
				"%d of %s. The broker wants a version between %d and %d, inclusive.", level, name, low, high))
		}
		return nil
	}
	offers := map[string]bool{}
	for _, f := range offered {
		offers[f.Name] = true
		if err := check(f.Name, f.MinSupportedVersion, f.MaxSupportedVersion); err != nil {
			return err
		}
	}
	if !offers[metadata.FeatureMetadata] {
		return fail(kerr.InvalidRegistration, "Request features do not contain 'metadata.version'")
	}
	for _, f := range metadata.Features {
		if finalized[f.Name] != 0 && !offers[f.Name] {
			if err := check(f.Name, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) registerController(req *protocol.ControllerRegistrationRequest) (Result[struct{}], error) {
	if !c.features.version().ControllerRegistration() {
		return Result[struct{}]{}, fail(kerr.UnsupportedVersion, "The current MetadataVersion is too old to support controller registrations.")
	}
	rec := metadata.NewRegisterControllerRecord()
	rec.ControllerId, rec.IncarnationId = req.ControllerId, req.IncarnationId
	for _, l := range req.Listeners {
		rec.EndPoints = append(rec.EndPoints, metadata.RegisterControllerRecordControllerEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range req.Features {
		rec.Features = append(rec.Features, metadata.RegisterControllerRecordControllerFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion,
		})
	}
	return Result[struct{}]{Records: []metadata.Versioned{{Record: rec}}, Atomic: true}, nil
}

func (c *cluster) unregisterController(id int32) (Result[struct{}], error) {
	if !c.features.version().ControllerUnregistration() {
		return Result[struct{}]{}, fail(kerr.UnsupportedVersion, "The current MetadataVersion is too old to support controller unregistration.")
	}
	if !c.controllers.Has(id) {
		return Result[struct{}]{}, fail(kerr.ControllerIdNotRegistered, fmt.Sprintf("Controller ID %d is not currently registered.", id))
	}
	rec := metadata.NewUnregisterControllerRecord()
	rec.ControllerId = id
	return Result[struct{}]{Records: []metadata.Versioned{{Record: rec}}, Atomic: true}, nil
}

func (c *cluster) replayRegisterBroker(r *metadata.RegisterBrokerRecord, offset int64) error {
	id := r.BrokerId
	prev := c.broker(id)
	c.registered.Put(id, offset)
	b := newBroker(r)
	c.brokers.Put(id, b)
	var old []uuid.UUID
	if prev != nil {
		old = prev.dirs
	}
	if err := c.updateDirs(id, old, b.dirs); err != nil {
		return err
	}
	if c.heartbeats != nil {
		if prev != nil {
			if prev.incarnation != b.incarnation && c.hasSession(prev) {
				c.superseded[id] = prev.incarnation
				c.heartbeats.tracker.forget(brokerEpoch{id, prev.epoch})
			}
			c.heartbeats.remove(id)
		}
		c.heartbeats.register(id, b.fenced)
	}
	switch {
	case prev == nil:
		c.log.Info(fmt.Sprintf("Replayed initial RegisterBrokerRecord for broker %d: %s", id, b))
	case prev.incarnation == b.incarnation:
		c.log.Info(fmt.Sprintf("Replayed RegisterBrokerRecord modifying the registration for broker %d: %s", id, b))
	default:
		c.log.Info(fmt.Sprintf("Replayed RegisterBrokerRecord establishing a new incarnation of broker %d: %s", id, b))
	}
	return nil
}

func (c *cluster) replayUnregisterBroker(r *metadata.UnregisterBrokerRecord) error {
	b, err := c.mustBe(r.BrokerId, r.BrokerEpoch)
	if err != nil {
		return err
	}
	c.registered.Delete(r.BrokerId)
	if c.heartbeats != nil {
		c.heartbeats.remove(r.BrokerId)
	}
	if err := c.updateDirs(r.BrokerId, b.dirs, nil); err != nil {
		return err
	}
	c.brokers.Delete(r.BrokerId)
	c.log.Info("Replayed UnregisterBrokerRecord.", "broker", r.BrokerId, "brokerEpoch", r.BrokerEpoch)
	return nil
}

func (c *cluster) mustBe(id int32, epoch int64) (*broker, error) {
	b := c.broker(id)
	if b == nil || b.epoch != epoch {
		return nil, fmt.Errorf("no registration of broker %d with epoch %d", id, epoch)
	}
	return b, nil
}

// registrationChange says what a record changes in a registration: -1 or 1 for fenced as in the record, 0 and nil for
// what stays.
type registrationChange struct {
	fenced, inControlledShutdown int8
	dirs, cordoned               []uuid.UUID
}

func (c *cluster) replayRegistrationChange(record string, id int32, epoch int64, change registrationChange) error {
	prev, err := c.mustBe(id, epoch)
	if err != nil {
		return err
	}
	next := *prev
	switch change.fenced {
	case 0:
	case 1:
		next.fenced = true
	case -1:
		next.fenced = false
	default:
		return fmt.Errorf("unknown value %d of fenced", change.fenced)
	}
	switch change.inControlledShutdown {
	case 0:
	case 1:
		next.inControlledShutdown = true
	default:
		return fmt.Errorf("unknown value %d of inControlledShutdown", change.inControlledShutdown)
	}
	if len(change.dirs) > 0 {
		next.dirs = change.dirs
	}
	if change.cordoned != nil {
		next.cordoned = change.cordoned
	}
	if next.equal(prev) {
		c.log.Info("Ignoring no-op registration change.", "broker", id)
	} else {
		c.brokers.Put(id, &next)
		c.log.Info(fmt.Sprintf("Replayed %s modifying the registration for broker %d: %s", record, id, &next))
	}
	if err := c.updateDirs(id, prev.dirs, next.dirs); err != nil {
		return err
	}
	if c.heartbeats != nil {
		c.heartbeats.register(id, next.fenced)
	}
	return nil
}

// updateDirs keeps whose each directory is. Two brokers with one directory cannot be.
func (c *cluster) updateDirs(id int32, from, to []uuid.UUID) error {
	for _, dir := range from {
		if owner, ok := c.dirs.Get(dir); !ok || owner != id {
			return fmt.Errorf("directory %s is not assigned to broker %d", dir, id)
		}
		if !slices.Contains(to, dir) {
			c.dirs.Delete(dir)
		}
	}
	for _, dir := range to {
		owner, ok := c.dirs.Get(dir)
		if ok && owner != id {
			return fmt.Errorf("directory %s is already assigned to broker %d", dir, owner)
		}
		if !ok {
			c.dirs.Put(dir, id)
		}
	}
	return nil
}

func (c *cluster) replayRegisterController(r *metadata.RegisterControllerRecord) {
	n := &controllerNode{r.ControllerId, r.IncarnationId, r.EndPoints, r.Features}
	c.controllers.Put(n.id, n)
	c.log.Info("Replayed RegisterControllerRecord.", "controller", n.id, "incarnationId", n.incarnation)
}

func (c *cluster) replayUnregisterController(r *metadata.UnregisterControllerRecord) error {
	if _, ok := c.controllers.Delete(r.ControllerId); !ok {
		return fmt.Errorf("no registration of controller %d", r.ControllerId)
	}
	c.log.Info("Replayed UnregisterControllerRecord.", "controller", r.ControllerId)
	return nil
}
