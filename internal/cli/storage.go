package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

func newStorage(s *streams) *cobra.Command {
	// What kafka-storage.sh offers, in its words; scripts compare them. Ottla's own commands stand in the help.
	const choices = "'info', 'format', 'version-mapping', 'feature-dependencies', 'random-uuid'"
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Format the directories of a node, and look at them",
		Long: `Format the log directories of a node before it runs for the first time, as kafka-storage.sh does: give them the
cluster's and the node's id, and write down which controllers the cluster begins with.`,
		Example: `  ottla storage format --cluster-id $(ottla storage random-uuid) --config server.properties --standalone
  ottla storage info --config server.properties`,
		Annotations: map[string]string{dialectKey: string(argparse)},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("invalid choice: '%s' (choose from %s)", args[0], choices)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return usageError{"too few arguments"} },
	}
	info := &cobra.Command{
		Use: "info --config FILE", Short: "Show what the directories of a node say about themselves", Args: argparseNoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return storageInfo(s, cmd) },
	}
	info.Flags().StringP("config", "c", "", "the configuration of the node, a `file` of properties")
	random := &cobra.Command{
		Use: "random-uuid", Short: "Print an id for a new cluster", Args: argparseNoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			fmt.Fprintln(s.out, uuid.Draw(func(b []byte) { _, _ = rand.Read(b) }))
			return nil
		},
	}
	cmd.AddCommand(newStorageFormat(s), info, newStorageCheck(s), newVersionMapping(s), newFeatureDependencies(s), random)
	return cmd
}

func newStorageFormat(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "format --config FILE --cluster-id ID [flags]",
		Short: "Format the directories of a node",
		Long: `Format the directories of a node. A controller whose configuration has no controller.quorum.voters needs one of
--standalone, --initial-controllers and --no-initial-controllers.`,
		Args: argparseNoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return storageFormat(s, cmd) },
	}
	f := cmd.Flags()
	f.StringP("config", "c", "", "the configuration of the node, a `file` of properties")
	f.StringP("cluster-id", "t", "", "the cluster's `id`, the same for all nodes")
	f.BoolP("standalone", "s", false, "the cluster begins with this controller alone")
	f.BoolP("no-initial-controllers", "N", false, "the cluster's controllers are known to others; this node joins")
	f.StringP("initial-controllers", "I", "", "the controllers that the cluster begins with, `id@host:port:directory-id,...`; the same for all of them")
	f.BoolP("ignore-formatted", "g", false, "skip directories that are formatted already")
	f.StringP("release-version", "r", "", "the `release` whose feature levels the cluster begins with (default "+metadata.LatestVersion.String()+")")
	f.StringArrayP("feature", "f", nil, "the level of a feature, `feature=level`; may be repeated")
	f.StringArrayP("add-scram", "S", nil, "a SCRAM `credential` that the cluster begins with, SCRAM-SHA-256=[name=alice,password=secret]; may be repeated")
	return cmd
}

// nodeConfig reads the file that --config names.
func nodeConfig(cmd *cobra.Command) (*config.Node, error) {
	path, _ := cmd.Flags().GetString("config")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return config.Load(path, text)
}

func storageFormat(s *streams, cmd *cobra.Command) error {
	f := cmd.Flags()
	if err := errors.Join(argparseOneOf(cmd, "standalone", "no-initial-controllers", "initial-controllers"), argparseRequired(cmd, "cluster-id", "config")); err != nil {
		return err
	}
	cfg, err := nodeConfig(cmd)
	if err != nil {
		return err
	}
	o := format.Options{Config: cfg}
	o.ClusterID, _ = f.GetString("cluster-id")
	o.Standalone, _ = f.GetBool("standalone")
	o.NoInitialControllers, _ = f.GetBool("no-initial-controllers")
	o.InitialControllers, _ = f.GetString("initial-controllers")
	o.IgnoreFormatted, _ = f.GetBool("ignore-formatted")
	o.Scram, _ = f.GetStringArray("add-scram")
	if err := featureFlags(cmd, &o); err != nil {
		return err
	}
	if given(cmd, "initial-controllers") && o.InitialControllers == "" {
		return errors.New("No voters given.")
	}
	e := real.New(real.Options{})
	o.Now = e.Now()
	res, err := format.Format(e.FS(), e.Rand(), o)
	printFormatted(s, res, err)
	return err
}

// printFormatted says what was done, in Kafka's words.
func printFormatted(s *streams, res *format.Result, err error) {
	for _, dir := range res.Unreadable {
		fmt.Fprintf(s.out, "I/O error trying to read log directory %s. Ignoring...\n", dir)
	}
	switch {
	case len(res.Records) > 0:
		fmt.Fprintln(s.out, bootstrapText(res.Records))
	case err == nil:
		fmt.Fprintln(s.out, "All of the log directories are already formatted.")
	}
	for _, d := range res.Formatted {
		fmt.Fprintf(s.out, "Formatting %s %s with metadata.version %s.\n", d.Kind, d.Path, res.Release)
	}
}

// featureFlags reads --release-version and --feature. The last of a feature's levels counts.
func featureFlags(cmd *cobra.Command, o *format.Options) error {
	release, _ := cmd.Flags().GetString("release-version")
	if given(cmd, "release-version") {
		last := metadata.LatestVersion
		if o.Config.Bool("unstable.feature.versions.enable") {
			last = metadata.TestingVersion
		}
		var err error
		if o.Release, err = parseRelease(release, last); err != nil {
			return err
		}
	}
	features, _ := cmd.Flags().GetStringArray("feature")
	for _, text := range features {
		name, number, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("Can't parse feature=level string %s: equals sign not found.", text)
		}
		name, number = strings.TrimSpace(name), strings.TrimSpace(number)
		level, err := strconv.ParseInt(number, 10, 16)
		if err != nil {
			return fmt.Errorf("Can't parse feature=level string %s: unable to parse %s as a short.", text, number)
		}
		if o.Features == nil {
			o.Features = map[string]int16{}
		}
		o.Features[name] = int16(level)
	}
	return nil
}

// bootstrapText is how Kafka prints the records of a bootstrap snapshot, but for the keys of credentials: who can read them can try
// passwords at leisure.
func bootstrapText(records []metadata.Versioned) string {
	var items []string
	level := int16(0)
	for _, v := range records {
		text := ""
		switch r := v.Record.(type) {
		case *metadata.FeatureLevelRecord:
			if r.Name == metadata.FeatureMetadata {
				level = r.FeatureLevel
			}
			text = fmt.Sprintf("FeatureLevelRecord(name='%s', featureLevel=%d)", r.Name, r.FeatureLevel)
		case *metadata.UserScramCredentialRecord:
			text = fmt.Sprintf("UserScramCredentialRecord(name='%s', mechanism=%d, salt=[hidden], storedKey=[hidden], serverKey=[hidden], iterations=%d)", r.Name, r.Mechanism, r.Iterations)
		}
		items = append(items, fmt.Sprintf("ApiMessageAndVersion(%s at version %d)", text, v.Version))
	}
	return fmt.Sprintf("Bootstrap metadata: BootstrapMetadata(records=[%s], metadataVersionLevel=%d, source=format command)", strings.Join(items, ", "), level)
}

func storageInfo(s *streams, cmd *cobra.Command) error {
	if err := argparseRequired(cmd, "config"); err != nil {
		return err
	}
	cfg, err := nodeConfig(cmd)
	if err != nil {
		return err
	}
	info := format.ReadInfo(real.New(real.Options{}).FS(), cfg)
	printList(s, "Found log directory", "Found log directories", info.Found)
	if info.Metadata != nil {
		fmt.Fprintf(s.out, "Found metadata: %s\n\n", metaText(*info.Metadata))
	}
	printList(s, "Found problem", "Found problems", info.Problems)
	if len(info.Problems) > 0 {
		return exitError{1}
	}
	return nil
}

// printList writes a title, the items indented, and an empty line; nothing if there are none.
func printList(s *streams, one, many string, items []string) {
	switch len(items) {
	case 0:
		return
	case 1:
		many = one
	}
	fmt.Fprintf(s.out, "%s:\n", many)
	for _, item := range items {
		fmt.Fprintf(s.out, "  %s\n", item)
	}
	fmt.Fprintln(s.out)
}

// metaText is how Kafka prints meta.properties.
func metaText(p storage.MetaProperties) string {
	fields := []string{"version=" + strconv.Itoa(p.Version)}
	if p.Version > 0 {
		fields = append(fields, "node.id="+strconv.Itoa(int(p.NodeID)))
	} else if p.NodeID != -1 {
		fields = append(fields, "broker.id="+strconv.Itoa(int(p.NodeID)))
	}
	if p.Version > 0 || p.ClusterID != "" {
		fields = append(fields, "cluster.id="+p.ClusterID)
	}
	if !p.DirectoryID.IsZero() {
		fields = append(fields, "directory.id="+p.DirectoryID.String())
	}
	slices.Sort(fields)
	return "{" + strings.Join(fields, ", ") + "}"
}
