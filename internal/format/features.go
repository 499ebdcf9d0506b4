package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
)

// unstable says whether levels that are not for production may be used.
func (o *Options) unstable() bool { return o.Config.Bool("unstable.feature.versions.enable") }

// release is the metadata.version that the cluster begins with.
func (o *Options) release() (metadata.Version, error) {
	level, given := o.Features[metadata.FeatureMetadata]
	v := metadata.Version(level)
	switch {
	case given && o.Release != 0:
		return 0, fmt.Errorf("Use --release-version instead of --feature %s=X to avoid ambiguity.", metadata.FeatureMetadata)
	case given && !v.Known():
		return 0, fmt.Errorf("No MetadataVersion with feature level %d. Valid feature levels are from %d to %d.", level, metadata.MinVersion, metadata.TestingVersion)
	case given:
	case o.Release != 0:
		v = o.Release
	case o.unstable():
		v = metadata.TestingVersion
	default:
		v = metadata.LatestVersion
	}
	if !v.Production() && !o.unstable() {
		return 0, fmt.Errorf("%s %s is not yet stable.", metadata.FeatureMetadata, v)
	}
	return v, nil
}

// levels are those of all features: what was asked for, else the default of the release.
func (o *Options) levels() (metadata.Version, map[string]int16, error) {
	v, err := o.release()
	if err != nil {
		return 0, nil, err
	}
	for _, name := range sortedKeys(o.Features) {
		if metadata.LookupFeature(name) == nil {
			return 0, nil, fmt.Errorf("Unsupported feature: %s. Supported features are: %s", name, strings.Join(otherFeatures(), ", "))
		}
	}
	levels := map[string]int16{metadata.FeatureMetadata: int16(v)}
	for _, name := range otherFeatures() {
		level, given := o.Features[name]
		if name == metadata.FeatureKRaft {
			if level, err = o.kraftLevel(level, given); err != nil {
				return 0, nil, err
			}
		} else if !given {
			level = metadata.LookupFeature(name).Default(v)
		}
		levels[name] = level
	}
	return v, levels, checkLevels(levels, v)
}

// kraftLevel is 1 where the voters are in the log, 0 where they are in the settings.
func (o *Options) kraftLevel(level int16, given bool) (int16, error) {
	dynamic := len(o.Config.QuorumVoters) == 0
	switch {
	case given && level == 0 && dynamic:
		return 0, fmt.Errorf("Cannot set kraft.version to %d if controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing the --feature flag for kraft.version.", level)
	case given && level != 0 && !dynamic:
		return 0, fmt.Errorf("Cannot set kraft.version to %d unless controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters.", level)
	case given:
		return level, nil
	case dynamic:
		return 1, nil
	}
	return 0, nil
}

func checkLevels(levels map[string]int16, v metadata.Version) error {
	for _, name := range otherFeatures() {
		f, level := metadata.LookupFeature(name), levels[name]
		if level < f.Min || level > f.Max {
			return fmt.Errorf("No feature:%s with feature level %d", name, level)
		}
		if needs, ok := f.Needs(level); ok && v < needs {
			return fmt.Errorf("%s could not be set to %d because it depends on %s level %d", name, level, metadata.FeatureMetadata, needs)
		}
	}
	return nil
}

// otherFeatures are the names of all features but metadata.version, sorted.
func otherFeatures() []string {
	var names []string
	for _, f := range metadata.Features {
		if f.Name != metadata.FeatureMetadata {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func sortedKeys(m map[string]int16) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// bootstrapRecords are the records of the bootstrap snapshot: metadata.version, the features that are on, credentials. kraft.version
// is in its head.
func bootstrapRecords(rnd env.Rand, levels map[string]int16, v metadata.Version, scram []string) ([]metadata.Versioned, error) {
	var out []metadata.Versioned
	for _, name := range append([]string{metadata.FeatureMetadata}, otherFeatures()...) {
		if level := levels[name]; level != 0 && name != metadata.FeatureKRaft {
			r := metadata.NewFeatureLevelRecord()
			r.Name, r.FeatureLevel = name, level
			out = append(out, metadata.Versioned{Record: r})
		}
	}
	if len(scram) > 0 && !v.Scram() {
		return nil, fmt.Errorf("SCRAM is only supported in %s %s or later.", metadata.FeatureMetadata, metadata.V3_5_IV2)
	}
	for _, text := range scram {
		r, err := parseScram(rnd, text)
		if err != nil {
			return nil, err
		}
		out = append(out, metadata.Versioned{Record: r})
	}
	return out, nil
}
