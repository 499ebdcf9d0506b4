package format

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Options say how to format the directories of a node.
type Options struct {
	Config    *config.Node
	ClusterID string
	Now       time.Time
	// IgnoreFormatted leaves directories alone that are formatted already, instead of refusing.
	IgnoreFormatted bool
	Version         metadata.Version
	Features        map[string]int16 // levels other than the default ones of Version

	// At most one of these, and none with controller.quorum.voters: the voters in the bootstrap snapshot.
	Standalone           bool         // this node alone
	NoInitialControllers bool         // none: others have them
	InitialControllers   []raft.Voter // these, each with its directory id
}

// Result is what Format did.
type Result struct {
	Records   []metadata.Versioned // of the bootstrap snapshot
	Formatted []Formatted
}

// Formatted is a directory that was formatted.
type Formatted struct{ Path, Kind string }

// Format writes meta.properties into the directories of a node and the bootstrap snapshot into that of the metadata log. Errors, in
// Kafka's words: a directory that is formatted already, or for another cluster or node; a combination of options that cannot be;
// features that do not exist.
func Format(fsys env.FS, rnd env.Rand, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dirs, err := o.unformatted(fsys)
	if err != nil {
		return nil, err
	}
	res := &Result{}
	if res.Records, err = bootstrapRecords(o.Version, o.Features); err != nil || len(dirs) == 0 {
		return res, err
	}
	for _, dir := range dirs {
		id := randomID(rnd)
		kind := "data directory"
		if dir == o.Config.MetadataLogDir {
			kind, id = o.metadataKind(id)
			if err := o.writeSnapshot(fsys, id, res.Records); err != nil {
				return nil, err
			}
		}
		if err := fsys.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make log directory: %w", err)
		}
		p := storage.MetaProperties{Version: 1, ClusterID: o.ClusterID, NodeID: o.Config.NodeID, DirectoryID: id}
		if err := storage.WriteMetaProperties(fsys, dir, p, o.Now); err != nil {
			return nil, err
		}
		res.Formatted = append(res.Formatted, Formatted{dir, kind})
	}
	return res, nil
}

// check refuses combinations that cannot be.
func (o *Options) check() error {
	dynamic := o.Standalone || len(o.InitialControllers) > 0
	switch {
	case len(o.Config.QuorumVoters) > 0 && dynamic:
		return errors.New("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.") //nolint:staticcheck // Kafka's words
	case len(o.Config.QuorumVoters) == 0 && !dynamic && !o.NoInitialControllers && o.Config.HasRole(config.RoleController):
		return errors.New("Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.") //nolint:staticcheck // Kafka's words
	case dynamic && !o.Config.HasRole(config.RoleController):
		return errors.New("You can only use --standalone or --initial-controllers on a controller.") //nolint:staticcheck // in Kafka's style
	}
	if len(o.InitialControllers) > 0 {
		for _, v := range o.InitialControllers {
			if v.Key.ID == o.Config.NodeID {
				return nil
			}
		}
		return fmt.Errorf("You cannot specify a --initial-controllers that does not include this node, %d.", o.Config.NodeID) //nolint:staticcheck // in Kafka's style
	}
	return nil
}

// unformatted are the directories to be formatted.
func (o *Options) unformatted(fsys env.FS) ([]string, error) {
	var out []string
	for _, dir := range directories(o.Config) {
		p, err := storage.ReadMetaProperties(fsys, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, dir)
		case err != nil:
			return nil, fmt.Errorf("I/O error trying to read log directory %s: %w", dir, err)
		case !o.IgnoreFormatted:
			return nil, fmt.Errorf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", dir) //nolint:staticcheck // Kafka's words
		case p.ClusterID != "" && p.ClusterID != o.ClusterID:
			return nil, fmt.Errorf("Invalid cluster.id in: %s/%s. Expected %s, but read %s", dir, storage.MetaPropertiesFile, o.ClusterID, p.ClusterID) //nolint:staticcheck // Kafka's words
		case p.NodeID >= 0 && p.NodeID != o.Config.NodeID:
			return nil, fmt.Errorf("Stored node id %d doesn't match previous node id %d in %s/%s", p.NodeID, o.Config.NodeID, dir, storage.MetaPropertiesFile) //nolint:staticcheck // Kafka's words
		}
	}
	return out, nil
}

// metadataKind is how Kafka calls the directory of the metadata log, and the directory's id, which may have been given.
func (o *Options) metadataKind(id uuid.UUID) (string, uuid.UUID) {
	for _, v := range o.InitialControllers {
		if v.Key.ID == o.Config.NodeID {
			return "dynamic metadata voter directory", v.Key.DirectoryID
		}
	}
	if o.Standalone {
		return "dynamic metadata voter directory", id
	}
	return "metadata directory", id
}

// writeSnapshot writes the bootstrap snapshot, which a node that is only a broker does not have.
func (o *Options) writeSnapshot(fsys env.FS, directoryID uuid.UUID, records []metadata.Versioned) error {
	if !o.Config.HasRole(config.RoleController) {
		return nil
	}
	var head raft.SnapshotHead
	switch {
	case o.Standalone:
		head = raft.SnapshotHead{KRaftVersion: raft.MaxKRaftVersion, Voters: raft.NewVoterSet(raft.Voter{
			Key: raft.ReplicaKey{ID: o.Config.NodeID, DirectoryID: directoryID}, Endpoints: raft.ControllerEndpoints(o.Config), MaxKRaft: raft.MaxKRaftVersion,
		})}
	case len(o.InitialControllers) > 0:
		head = raft.SnapshotHead{KRaftVersion: raft.MaxKRaftVersion, Voters: raft.NewVoterSet(o.InitialControllers...)}
	case o.NoInitialControllers:
		head.KRaftVersion = raft.MaxKRaftVersion
	}
	if err := fsys.MkdirAll(o.Config.MetadataLogDir, 0o755); err != nil {
		return fmt.Errorf("make metadata log directory: %w", err)
	}
	if err := raft.WriteBootstrap(fsys, raft.LogDir(o.Config.MetadataLogDir), head, records, o.Now.UnixMilli()); err != nil {
		return err
	}
	return fsys.SyncDir(o.Config.MetadataLogDir)
}

// bootstrapRecords are the feature levels of a new cluster.
func bootstrapRecords(v metadata.Version, levels map[string]int16) ([]metadata.Versioned, error) {
	if level, ok := levels[metadata.FeatureMetadata]; ok {
		v = metadata.Version(level)
	}
	for name, level := range levels {
		f := metadata.LookupFeature(name)
		if f == nil {
			return nil, fmt.Errorf("Unsupported feature: %s. Supported features are: %s", name, strings.Join(featureNames(), ", ")) //nolint:staticcheck // Kafka's words
		}
		if level < f.Min || level > f.Max {
			return nil, fmt.Errorf("No feature:%s with feature level %d", name, level) //nolint:staticcheck // Kafka's words
		}
		if err := f.Check(level, v); err != nil {
			return nil, err
		}
	}
	var out []metadata.Versioned
	for i := range metadata.Features {
		f := &metadata.Features[i]
		level, given := levels[f.Name]
		if !given {
			level = f.Default(v)
		}
		if f.Name == metadata.FeatureKRaft || level == 0 {
			continue
		}
		r := metadata.NewFeatureLevelRecord()
		r.Name, r.FeatureLevel = f.Name, level
		out = append(out, metadata.Versioned{Record: r})
	}
	return out, nil
}

func featureNames() []string {
	var names []string
	for _, f := range metadata.Features {
		names = append(names, f.Name)
	}
	return names
}

// Standalone formats the directories of a node that is the only voter of a new cluster, and returns the cluster's id.
func Standalone(fsys env.FS, rnd env.Rand, now time.Time, cfg *config.Node) (clusterID string, err error) {
	clusterID = randomID(rnd).String()
	_, err = Format(fsys, rnd, Options{Config: cfg, ClusterID: clusterID, Now: now, Version: metadata.LatestVersion, Standalone: true})
	return clusterID, err
}

// randomID draws until an id comes out that Kafka would take.
func randomID(rnd env.Rand) uuid.UUID {
	for {
		var b [16]byte
		rnd.Read(b[:])
		if id, ok := uuid.FromRandom(b); ok {
			return id
		}
	}
}
