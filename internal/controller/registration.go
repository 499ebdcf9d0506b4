package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// broker is a registration. It is immutable: a change makes a new one.
type broker struct {
	id                   int32
	epoch                int64 // offset of the result that registered this incarnation
	incarnation          uuid.UUID
	endpoints            []metadata.RegisterBrokerRecordBrokerEndpoint
	features             []metadata.RegisterBrokerRecordBrokerFeature
	rack                 *string
	fenced               bool
	inControlledShutdown bool
	dirs                 []uuid.UUID // online log directories
	cordoned             []uuid.UUID // those that take no new partitions; nil: never reported
}

func newBroker(r *metadata.RegisterBrokerRecord) *broker {
	return &broker{
		id: r.BrokerId, epoch: r.BrokerEpoch, incarnation: r.IncarnationId,
		endpoints: r.EndPoints, features: r.Features, rack: r.Rack,
		fenced: r.Fenced, inControlledShutdown: r.InControlledShutdown,
		dirs: r.LogDirs, cordoned: r.CordonedLogDirs,
	}
}

// hasOnlineDir reports whether a partition's directory is usable: it is listed, or it is one of the ids that stand for
// "somewhere, not known yet". Lost is not.
func (b *broker) hasOnlineDir(dir uuid.UUID) bool {
	switch {
	case dir == uuid.DirUnassigned || dir == uuid.DirMigrating:
		return true
	case dir == uuid.DirLost:
		return false
	case len(b.dirs) == 0:
		return true // a broker from before directories had ids
	}
	return slices.Contains(b.dirs, dir)
}

// hasUncordonedDirs reports whether the broker takes new partitions.
func (b *broker) hasUncordonedDirs() bool {
	if len(b.dirs) == 0 || b.cordoned == nil {
		return true
	}
	return slices.ContainsFunc(b.dirs, func(dir uuid.UUID) bool { return !slices.Contains(b.cordoned, dir) })
}

// cordonChanged reports whether a heartbeat tells other cordoned directories than are known.
func (b *broker) cordonChanged(dirs []uuid.UUID) bool {
	subset := func(a, b []uuid.UUID) bool {
		return !slices.ContainsFunc(a, func(dir uuid.UUID) bool { return !slices.Contains(b, dir) })
	}
	return b.cordoned == nil || !subset(dirs, b.cordoned) || !subset(b.cordoned, dirs)
}

// supports is the range of a feature's levels; 0 to 0 if the broker does not know it.
func (b *broker) supports(feature string) (low, high int16) {
	for _, f := range b.features {
		if f.Name == feature {
			return f.MinSupportedVersion, f.MaxSupportedVersion
		}
	}
	return 0, 0
}

func (b *broker) equal(o *broker) bool {
	return b.fenced == o.fenced && b.inControlledShutdown == o.inControlledShutdown &&
		slices.Equal(b.dirs, o.dirs) && slices.Equal(b.cordoned, o.cordoned) && (b.cordoned == nil) == (o.cordoned == nil)
}

// String is how Kafka's log lines show a registration.
func (b *broker) String() string {
	var listeners, features []string
	for _, e := range b.endpoints {
		listeners = append(listeners, fmt.Sprintf("%s://%s:%d", e.Name, e.Host, e.Port))
	}
	for _, f := range slices.SortedFunc(slices.Values(b.features), func(a, b metadata.RegisterBrokerRecordBrokerFeature) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		features = append(features, fmt.Sprintf("%s: %d-%d", f.Name, f.MinSupportedVersion, f.MaxSupportedVersion))
	}
	rack := "null"
	if b.rack != nil {
		rack = *b.rack
	}
	return fmt.Sprintf("BrokerRegistration(id=%d, epoch=%d, incarnationId=%s, listeners=[%s], supportedFeatures={%s}, "+
		"rack=%s, fenced=%t, inControlledShutdown=%t, directories=%s, cordonedDirectories=%s)",
		b.id, b.epoch, b.incarnation, strings.Join(listeners, ", "), strings.Join(features, ", "),
		rack, b.fenced, b.inControlledShutdown, listText(b.dirs), listText(b.cordoned))
}

// controllerNode is the registration of a controller (KIP-919).
type controllerNode struct {
	id          int32
	incarnation uuid.UUID
	endpoints   []metadata.RegisterControllerRecordControllerEndpoint
	features    []metadata.RegisterControllerRecordControllerFeature
}

func (n *controllerNode) supports(feature string) (low, high int16) {
	for _, f := range n.features {
		if f.Name == feature {
			return f.MinSupportedVersion, f.MaxSupportedVersion
		}
	}
	return 0, 0
}
