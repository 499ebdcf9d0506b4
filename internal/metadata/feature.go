package metadata

import "fmt"

// Names of the features.
const (
	FeatureMetadata    = "metadata.version"
	FeatureKRaft       = "kraft.version"
	FeatureTransaction = "transaction.version"
	FeatureGroup       = "group.version"
	FeatureELR         = "eligible.leader.replicas.version"
	FeatureShare       = "share.version"
	FeatureStreams     = "streams.version"
)

// Feature is a feature with the levels this release knows.
type Feature struct {
	Name     string
	Min, Max int16 // levels; for all but metadata.version Min is 0, which means: off
	// from holds for each level from 1 on the metadata.version from which a new cluster has it.
	from [2]Version
	// needs is the metadata.version that a level above 0 asks for.
	needs Version
}

// Features are all features, metadata.version first. kraft.version is stored in the control records of the
// log, never in a FeatureLevelRecord. Nobody writes to it.
var Features = [...]Feature{
	{Name: FeatureMetadata, Min: int16(MinVersion), Max: int16(LatestVersion)},
	{Name: FeatureELR, Max: 1, from: [2]Version{V4_1_IV0}, needs: V4_0_IV1},
	{Name: FeatureGroup, Max: 1, from: [2]Version{V4_0_IV0}},
	{Name: FeatureKRaft, Max: 1, from: [2]Version{V3_9_IV0}},
	{Name: FeatureShare, Max: 2, from: [2]Version{V4_2_IV0, V4_4_IV0}},
	{Name: FeatureStreams, Max: 1, from: [2]Version{V4_2_IV1}},
	{Name: FeatureTransaction, Max: 2, from: [2]Version{V4_0_IV2, V4_0_IV2}},
}

// LookupFeature returns a feature by name; nil if there is none.
func LookupFeature(name string) *Feature {
	for i := range Features {
		if Features[i].Name == name {
			return &Features[i]
		}
	}
	return nil
}

// Default is the level that a new cluster with metadata.version v has.
func (f *Feature) Default(v Version) int16 {
	if f.Name == FeatureMetadata {
		return int16(v)
	}
	for l := f.Max; l > 0; l-- {
		if v >= f.from[l-1] {
			return l
		}
	}
	return 0
}

// BootstrapVersion is the lowest metadata.version from which a new cluster has the level by default.
func (f *Feature) BootstrapVersion(level int16) Version {
	switch {
	case f.Name == FeatureMetadata:
		return Version(level)
	case level < 1 || level > f.Max:
		return MinVersion
	}
	return f.from[level-1]
}

// Needs is the metadata.version that a level asks for; ok is false if it asks for none.
func (f *Feature) Needs(level int16) (v Version, ok bool) { return f.needs, f.needs > 0 && level > 0 }

// Check says why the feature cannot be at a level in a cluster with metadata.version v; nil if it can.
func (f *Feature) Check(level int16, v Version) error {
	if level < f.Min || level > f.Max {
		return fmt.Errorf("%s %d is not supported: levels are %d to %d", f.Name, level, f.Min, f.Max)
	}
	if needs, ok := f.Needs(level); ok && v < needs {
		return fmt.Errorf("%s %d needs %s %d (%s) or higher, not %d", f.Name, level, FeatureMetadata, int16(f.needs), f.needs, int16(v))
	}
	return nil
}
