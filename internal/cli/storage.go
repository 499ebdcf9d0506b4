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
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

func newStorage(s *streams) *cobra.Command {
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
				return usagef("invalid choice: '%s' (choose from 'info', 'format', 'random-uuid')", args[0])
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
			fmt.Fprintln(s.out, randomUUID())
			return nil
		},
	}
	cmd.AddCommand(newStorageFormat(s), info, random)
	return cmd
}

func newStorageFormat(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "format --config FILE --cluster-id ID [flags]",
		Short: "Format the directories of a node",
		Args:  argparseNoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return storageFormat(s, cmd) },
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
	f.StringArrayP("add-scram", "S", nil, "a SCRAM `credential`; not supported yet")
	return cmd
}

// nodeConfig reads the file that --config names.
func nodeConfig(cmd *cobra.Command) (*config.Node, error) {
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		return nil, usageError{"argument --config/-c is required"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	entries, problems := config.ParseProperties(path, text)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return config.New(entries)
}

func storageFormat(s *streams, cmd *cobra.Command) error {
	f := cmd.Flags()
	cfg, err := nodeConfig(cmd)
	if err != nil {
		return err
	}
	o := format.Options{Config: cfg, Version: metadata.LatestVersion}
	if o.ClusterID, _ = f.GetString("cluster-id"); o.ClusterID == "" {
		return usageError{"argument --cluster-id/-t is required"}
	}
	if scram, _ := f.GetStringArray("add-scram"); len(scram) > 0 {
		return errors.New("--add-scram: SCRAM is not supported by this version of Ottla; format the directory with Kafka's tool")
	}
	o.Standalone, _ = f.GetBool("standalone")
	o.NoInitialControllers, _ = f.GetBool("no-initial-controllers")
	o.IgnoreFormatted, _ = f.GetBool("ignore-formatted")
	voters, _ := f.GetString("initial-controllers")
	if err := onlyOne(o.Standalone, o.NoInitialControllers, voters != ""); err != nil {
		return err
	}
	if voters != "" {
		if o.InitialControllers, err = parseVoters(voters, cfg); err != nil {
			return err
		}
	}
	if err := featureFlags(cmd, &o); err != nil {
		return err
	}
	e := real.New(real.Options{})
	o.Now = e.Now()
	res, err := format.Format(e.FS(), e.Rand(), o)
	if err != nil {
		return err
	}
	if len(res.Formatted) == 0 {
		fmt.Fprintln(s.out, "All of the log directories are already formatted.")
		return nil
	}
	fmt.Fprintln(s.out, bootstrapText(res.Records))
	version := o.Version
	if level, ok := o.Features[metadata.FeatureMetadata]; ok {
		version = metadata.Version(level)
	}
	for _, d := range res.Formatted {
		fmt.Fprintf(s.out, "Formatting %s %s with metadata.version %s.\n", d.Kind, d.Path, version)
	}
	return nil
}

// onlyOne refuses flags that exclude one another, in argparse4j's words.
func onlyOne(standalone, none, initial bool) error {
	names := []string{}
	for _, f := range []struct {
		set  bool
		name string
	}{{standalone, "--standalone/-s"}, {none, "--no-initial-controllers/-N"}, {initial, "--initial-controllers/-I"}} {
		if f.set {
			names = append(names, f.name)
		}
	}
	if len(names) > 1 {
		return usagef("argument %s: not allowed with argument %s", names[1], names[0])
	}
	return nil
}

// parseVoters reads id@host:port:directory-id,... The endpoint of this node may be one of several listeners.
func parseVoters(text string, cfg *config.Node) ([]raft.Voter, error) {
	var out []raft.Voter
	for item := range strings.SplitSeq(text, ",") {
		at, colon := strings.IndexByte(item, '@'), strings.LastIndexByte(item, ':')
		bad := func(why string) error {
			return fmt.Errorf("--initial-controllers: %s is not id@host:port:directory-id: %s", item, why)
		}
		if at < 0 || colon < at {
			return nil, bad("a part is missing")
		}
		id, err := strconv.ParseInt(item[:at], 10, 32)
		if err != nil || id < 0 {
			return nil, bad("the id is not a number")
		}
		address, err := config.ParseHostPort(item[at+1 : colon])
		if err != nil {
			return nil, bad(err.Error())
		}
		dir, err := uuid.Parse(item[colon+1:])
		if err != nil {
			return nil, bad(err.Error())
		}
		listener := "CONTROLLER"
		if len(cfg.ControllerListeners) > 0 {
			listener = cfg.ControllerListeners[0]
		}
		out = append(out, raft.Voter{
			Key:       raft.ReplicaKey{ID: int32(id), DirectoryID: dir},
			Endpoints: []raft.Endpoint{{Name: listener, Host: address.Host, Port: uint16(address.Port)}}, MaxKRaft: raft.MaxKRaftVersion,
		})
	}
	return out, nil
}

// featureFlags reads --release-version and --feature.
func featureFlags(cmd *cobra.Command, o *format.Options) error {
	release, _ := cmd.Flags().GetString("release-version")
	if release != "" {
		v, err := metadata.ParseVersion(release)
		if err != nil || !v.Production() {
			var names []string
			for v := metadata.MinVersion; v <= metadata.LatestVersion; v++ {
				names = append(names, v.String())
			}
			return fmt.Errorf("Unknown metadata.version '%s'. Supported metadata.version are: %s", release, strings.Join(names, ", ")) //nolint:staticcheck // Kafka's words
		}
		o.Version = v
	}
	features, _ := cmd.Flags().GetStringArray("feature")
	for _, text := range features {
		name, number, ok := strings.Cut(text, "=")
		level, err := strconv.ParseInt(strings.TrimSpace(number), 10, 16)
		if !ok || err != nil {
			return fmt.Errorf("Can't parse feature=level string %s: equals sign or number not found.", text) //nolint:staticcheck // in Kafka's style
		}
		if o.Features == nil {
			o.Features = map[string]int16{}
		}
		o.Features[strings.TrimSpace(name)] = int16(level)
	}
	return nil
}

// bootstrapText is how Kafka prints the records of a bootstrap snapshot.
func bootstrapText(records []metadata.Versioned) string {
	var items []string
	level := int16(0)
	for _, v := range records {
		r, ok := v.Record.(*metadata.FeatureLevelRecord)
		if !ok {
			continue
		}
		if r.Name == metadata.FeatureMetadata {
			level = r.FeatureLevel
		}
		items = append(items, fmt.Sprintf("ApiMessageAndVersion(FeatureLevelRecord(name='%s', featureLevel=%d) at version %d)", r.Name, r.FeatureLevel, v.Version))
	}
	return fmt.Sprintf("Bootstrap metadata: BootstrapMetadata(records=[%s], metadataVersionLevel=%d, source=format command)", strings.Join(items, ", "), level)
}

func storageInfo(s *streams, cmd *cobra.Command) error {
	cfg, err := nodeConfig(cmd)
	if err != nil {
		return err
	}
	info := format.ReadInfo(real.New(real.Options{}).FS(), cfg)
	if len(info.Found) > 0 {
		printList(s, "Found log director", info.Found)
	}
	if len(info.Metadata) > 0 {
		for _, p := range info.Metadata[1:] {
			if p.ClusterID != info.Metadata[0].ClusterID || p.NodeID != info.Metadata[0].NodeID {
				info.Problems = append(info.Problems, "Metadata for the directories did not match: "+metaText(info.Metadata[0])+" and "+metaText(p))
			}
		}
		fmt.Fprintf(s.out, "Found metadata: %s\n\n", metaText(info.Metadata[0]))
	}
	if len(info.Problems) == 0 {
		return nil
	}
	word := "Found problem"
	if len(info.Problems) > 1 {
		word += "s"
	}
	fmt.Fprintf(s.out, "%s:\n", word)
	for _, p := range info.Problems {
		fmt.Fprintf(s.out, "  %s\n", p)
	}
	fmt.Fprintln(s.out)
	return exitError{1}
}

func printList(s *streams, word string, items []string) {
	ending := "y"
	if len(items) > 1 {
		ending = "ies"
	}
	fmt.Fprintf(s.out, "%s%s:\n", word, ending)
	for _, item := range items {
		fmt.Fprintf(s.out, "  %s\n", item)
	}
	fmt.Fprintln(s.out)
}

// metaText is how Kafka prints meta.properties.
func metaText(p storage.MetaProperties) string {
	fields := []string{"cluster.id=" + p.ClusterID, "node.id=" + strconv.Itoa(int(p.NodeID)), "version=" + strconv.Itoa(p.Version)}
	if !p.DirectoryID.IsZero() {
		fields = append(fields, "directory.id="+p.DirectoryID.String())
	}
	slices.Sort(fields)
	return "{" + strings.Join(fields, ", ") + "}"
}

func randomUUID() uuid.UUID {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		if id, ok := uuid.FromRandom(b); ok {
			return id
		}
	}
}
