package controller

import (
	"fmt"
	"log/slog"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/timeline"
)

// Upgrade types of UpdateFeatures.
const (
	upgrade         int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

// features owns the finalized levels. A feature at 0 is not finalized and has no entry; kraft.version is raft's.
type features struct {
	log      *slog.Logger
	nodeID   int32
	unstable bool // levels that are not for production are allowed
	levels   *timeline.Map[string, int16]
}

func newFeatures(log *slog.Logger, nodeID int32, unstable bool, r *timeline.Registry) *features {
	return &features{log, nodeID, unstable, timeline.NewOrderedMap[string, int16](r)}
}

// version is the metadata.version; 0 before the first activation of a cluster.
func (f *features) version() metadata.Version {
	return metadata.Version(f.level(metadata.FeatureMetadata))
}

func (f *features) level(name string) int16 {
	level, _ := f.levels.Get(name)
	return level
}

func (f *features) elrEnabled() bool { return f.level(metadata.FeatureELR) >= 1 }

// finalized are all levels above 0 as of an offset.
func (f *features) finalized(offset int64) map[string]int16 {
	all := map[string]int16{}
	for name, level := range f.levels.AllAt(offset) {
		all[name] = level
	}
	return all
}

// supported is the range of levels that this controller can work with; 0 to 0 for an unknown feature.
func (f *features) supported(name string) (low, high int16) {
	known := metadata.LookupFeature(name)
	switch {
	case known == nil:
		return 0, 0
	case name == metadata.FeatureMetadata && f.unstable:
		return int16(metadata.MinVersion), int16(metadata.TestingVersion)
	}
	return known.Min, known.Max
}

// replay takes in a level. One that is not supported cannot be lived with: it says what later records mean.
func (f *features) replay(r *metadata.FeatureLevelRecord) error {
	low, high := f.supported(r.Name)
	if r.FeatureLevel < low || r.FeatureLevel > high {
		return fmt.Errorf("feature %s at level %d, but this controller only supports versions %d-%d", r.Name, r.FeatureLevel, low, high)
	}
	switch {
	case r.Name == metadata.FeatureMetadata:
		f.levels.Put(r.Name, r.FeatureLevel)
		f.log.Info("Replayed a FeatureLevelRecord setting metadata.version to " + metadata.Version(r.FeatureLevel).String())
	case r.Name == metadata.FeatureKRaft: // stored in control records
	case r.FeatureLevel == 0:
		f.levels.Delete(r.Name)
		f.log.Info("Replayed a FeatureLevelRecord removing feature " + r.Name)
	default:
		f.levels.Put(r.Name, r.FeatureLevel)
		f.log.Info(fmt.Sprintf("Replayed a FeatureLevelRecord setting feature %s to %d", r.Name, r.FeatureLevel))
	}
	return nil
}

// support is what the nodes of the cluster say they can do.
type support struct {
	cluster *cluster
	voters  []int32
}

// update works out the records of an UpdateFeatures request: all updates or none.
func (f *features) update(req *protocol.UpdateFeaturesRequest, version int16, s support, kraftVersion int16) ([]metadata.Versioned, error) {
	var records []metadata.Versioned
	proposed := f.finalized(timeline.Latest)
	for _, u := range req.FeatureUpdates {
		proposed[u.Feature] = u.MaxVersionLevel
	}
	for _, u := range req.FeatureUpdates {
		rec, err := f.updateOne(u.Feature, u.MaxVersionLevel, upgradeKind(&u, version), proposed, s, kraftVersion)
		if err != nil {
			f.log.Warn(err.message)
			return nil, err
		}
		if rec != nil {
			records = append(records, metadata.Versioned{Record: rec})
		}
	}
	return records, nil
}

// upgradeKind is which way an update goes. Version 0 only said whether it may go down.
func upgradeKind(u *protocol.UpdateFeaturesRequestFeatureUpdateKey, version int16) int8 {
	switch {
	case version > 0:
		return u.UpgradeType
	case u.AllowDowngrade:
		return safeDowngrade
	}
	return upgrade
}

func (f *features) updateOne(name string, level int16, kind int8, proposed map[string]int16, s support, kraftVersion int16) (metadata.Record, *apiError) {
	invalid := func(problem string) (metadata.Record, *apiError) {
		return nil, fail(kerr.InvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. %s", level, name, problem))
	}
	if kind < upgrade || kind > unsafeDowngrade {
		return invalid("The controller does not support the given upgrade type.")
	}
	current := f.level(name)
	if name == metadata.FeatureKRaft {
		current = kraftVersion
	}
	if level < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	if reason := f.unsupported(name, level, s); reason != "" {
		return invalid(reason)
	}
	switch {
	case level < current && kind == upgrade:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != upgrade:
		return invalid("Can't downgrade to a newer version.")
	case name == metadata.FeatureMetadata:
		return f.updateMetadataVersion(metadata.Version(level), kind == unsafeDowngrade)
	case name == metadata.FeatureKRaft && kind != upgrade && level != current:
		return invalid("Can't downgrade the version of this feature.")
	case name == metadata.FeatureKRaft: // raft's records, not ours
		return nil, nil
	}
	if metadata.LookupFeature(name) == nil {
		return invalid("Feature " + name + " not found.")
	}
	if problem := dependencyProblem(name, level, proposed); problem != "" {
		return invalid(problem)
	}
	rec := metadata.NewFeatureLevelRecord()
	rec.Name, rec.FeatureLevel = name, level
	return rec, nil
}

// dependencyProblem says which other feature a level needs, in Kafka's words.
func dependencyProblem(name string, level int16, proposed map[string]int16) string {
	v := metadata.Version(proposed[metadata.FeatureMetadata])
	if level >= 1 && v < metadata.MinVersion {
		return fmt.Sprintf("%s could not be set to %d because it depends on metadata.version=%d (%s)", name, level, int16(metadata.MinVersion), metadata.MinVersion)
	}
	if name == metadata.FeatureELR && level >= 1 && v < metadata.V4_0_IV1 {
		return fmt.Sprintf("%s could not be set to %d because it depends on metadata.version level %d", name, level, int16(metadata.V4_0_IV1))
	}
	return ""
}

func (f *features) updateMetadataVersion(v metadata.Version, unsafe bool) (metadata.Record, *apiError) {
	current := f.version()
	if v < current {
		refused := func(problem string) (metadata.Record, *apiError) {
			return nil, fail(kerr.InvalidUpdateVersion, fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", int16(current), int16(v), problem))
		}
		if !current.SafeDowngrade(v) {
			if unsafe {
				return refused("Unsafe metadata downgrade is not supported in this version.")
			}
			return refused("Refusing to perform the requested downgrade because it might delete metadata information.")
		}
		f.log.Warn(fmt.Sprintf("Downgrading metadata.version from %s to %s.", current, v))
	} else {
		f.log.Warn(fmt.Sprintf("Upgrading metadata.version from %s to %s.", current, v))
	}
	rec := metadata.NewFeatureLevelRecord()
	rec.Name, rec.FeatureLevel = metadata.FeatureMetadata, int16(v)
	return rec, nil
}

// unsupported names the first node that does not support a level, and what it does support.
func (f *features) unsupported(name string, level int16, s support) string {
	reason := func(what string, low, high int16) string {
		switch {
		case level >= low && level <= high:
			return ""
		case high == 0:
			return what + " does not support this feature."
		}
		return fmt.Sprintf("%s only supports versions %d-%d", what, low, high)
	}
	low, high := f.supported(name)
	if r := reason(fmt.Sprintf("Local controller %d", f.nodeID), low, high); r != "" {
		return r
	}
	brokers, controllers, suffix := 0, 1, ""
	for id, b := range s.cluster.brokers.All() {
		low, high := b.supports(name)
		if r := reason(fmt.Sprintf("Broker %d", id), low, high); r != "" {
			return r
		}
		brokers++
	}
	if f.version().ControllerRegistration() {
		found := map[int32]bool{f.nodeID: true}
		for id, n := range s.cluster.controllers.All() {
			if id == f.nodeID {
				continue
			}
			low, high := n.supports(name)
			if r := reason(fmt.Sprintf("Controller %d", id), low, high); r != "" {
				return r
			}
			found[id] = true
			controllers++
		}
		for _, id := range s.voters {
			if !found[id] {
				return fmt.Sprintf("controller %d has not registered, and may not support this feature", id)
			}
		}
	} else {
		suffix = " Note: unable to verify controller support in the current MetadataVersion."
	}
	f.log.Info(fmt.Sprintf("Verified that %d broker(s) and %d controller(s) supported changing %s to feature level %d.%s",
		brokers, controllers, name, level, suffix))
	return ""
}
