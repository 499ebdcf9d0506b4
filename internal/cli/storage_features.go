package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ottla-io/ottla/internal/metadata"
)

// mappedFeatures is the order in which Kafka lists features.
var mappedFeatures = []string{
	metadata.FeatureKRaft, metadata.FeatureTransaction, metadata.FeatureGroup, metadata.FeatureELR, metadata.FeatureShare, metadata.FeatureStreams,
}

func newVersionMapping(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version-mapping [flags]", Short: "Show the feature levels of a release", Args: argparseNoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return versionMapping(s, cmd) },
	}
	cmd.Flags().StringP("release-version", "r", metadata.LatestVersion.String(), "the `release`, or metadata.version, such as 3.9 or 4.0-IV3")
	return cmd
}

func versionMapping(s *streams, cmd *cobra.Command) error {
	release, _ := cmd.Flags().GetString("release-version")
	v, err := parseRelease(release, metadata.TestingVersion)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s=%d (%s)\n", metadata.FeatureMetadata, v, release)
	for _, name := range mappedFeatures {
		fmt.Fprintf(s.out, "%s=%d\n", name, metadata.LookupFeature(name).Default(v))
	}
	return nil
}

// parseRelease reads a release, or a metadata.version up to last.
func parseRelease(text string, last metadata.Version) (metadata.Version, error) {
	v, err := metadata.ParseVersion(text)
	if err == nil && v <= last {
		return v, nil
	}
	var names []string
	for v := metadata.MinVersion; v <= last; v++ {
		names = append(names, v.String())
	}
	return 0, fmt.Errorf("Unknown metadata.version '%s'. Supported metadata.version are: %s", text, strings.Join(names, ", "))
}

func newFeatureDependencies(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "feature-dependencies --feature FEATURE=LEVEL [flags]", Short: "Show what the level of a feature needs", Args: argparseNoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return featureDependencies(s, cmd) },
	}
	cmd.Flags().StringArrayP("feature", "f", nil, "the level of a feature, `feature=level`; may be repeated")
	return cmd
}

func featureDependencies(s *streams, cmd *cobra.Command) error {
	if err := argparseRequired(cmd, "feature"); err != nil {
		return err
	}
	features, _ := cmd.Flags().GetStringArray("feature")
	for _, text := range features {
		name, number, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("Invalid feature format: %s. Expected format: 'feature=version' (e.g. 'group.version=1')", text)
		}
		level, err := strconv.ParseInt(number, 10, 16)
		if err != nil {
			return fmt.Errorf("Invalid version format: %s for feature %s", number, name)
		}
		if err := dependencies(s, name, int16(level)); err != nil {
			return err
		}
	}
	return nil
}

func dependencies(s *streams, name string, level int16) error {
	f := metadata.LookupFeature(name)
	switch v := metadata.Version(level); {
	case f == nil:
		return fmt.Errorf("Unknown feature: %s", name)
	case name == metadata.FeatureMetadata && !v.Known():
		return fmt.Errorf("Unknown %s %d", name, level)
	case name == metadata.FeatureMetadata:
		fmt.Fprintf(s.out, "%s=%d (%s) has no dependencies.\n", name, level, v)
		return nil
	case level < f.Min || level > f.Max:
		return fmt.Errorf("Feature level %d is not supported for feature %s", level, name)
	}
	needs, ok := f.Needs(level)
	if !ok {
		fmt.Fprintf(s.out, "%s=%d has no dependencies.\n", name, level)
		return nil
	}
	fmt.Fprintf(s.out, "%s=%d requires:\n    %s=%d (%s)\n", name, level, metadata.FeatureMetadata, needs, needs)
	return nil
}
