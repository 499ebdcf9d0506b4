package format

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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
	Release         metadata.Version // 0: the latest
	Features        map[string]int16 // levels other than the default ones of the release
	Scram           []string         // credentials, MECHANISM=[name=…,password=…]

	// At most one of these: the voters in the bootstrap snapshot. A controller without controller.quorum.voters needs one.
	Standalone           bool   // this node alone
	NoInitialControllers bool   // none: others have them
	InitialControllers   string // these, id@host:port:directory-id,…
}

// Result is what Format did, in this order.
type Result struct {
	Unreadable []string // directories that were left out
	Release    metadata.Version
	Records    []metadata.Versioned // of the bootstrap snapshot; none if there was nothing to format
	Formatted  []Formatted
}

// Formatted is a directory that was formatted.
type Formatted struct{ Path, Kind string }

// Format writes meta.properties into the directories of a node and the bootstrap snapshot into that of the metadata log. A directory
// counts as formatted when it has meta.properties, which is written last. With an error comes what was done before.
func Format(fsys env.FS, rnd env.Rand, o Options) (*Result, error) {
	res := &Result{}
	voters, err := o.voters(rnd)
	if err != nil {
		return res, err
	}
	f := formatting{fsys: fsys, rnd: rnd, o: o, voters: voters}
	var levels map[string]int16
	if res.Release, levels, err = o.levels(); err != nil {
		return res, err
	}
	f.kraftVersion = levels[metadata.FeatureKRaft]
	if f.records, err = bootstrapRecords(rnd, levels, res.Release, o.Scram); err != nil {
		return res, err
	}
	dirs, err := f.choose(res)
	if err != nil || len(dirs) == 0 {
		return res, err
	}
	res.Records = f.records
	for _, dir := range dirs {
		kind, err := f.format(dir)
		res.Formatted = append(res.Formatted, Formatted{dir, kind})
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

type formatting struct {
	fsys         env.FS
	rnd          env.Rand
	o            Options
	voters       []raft.Voter // nil: not given
	kraftVersion int16
	records      []metadata.Versioned
}

// choose finds the directories to be formatted.
func (f *formatting) choose(res *Result) ([]string, error) {
	e := load(f.fsys, f.o.Config)
	if err := e.verify(f.o.ClusterID, f.o.Config.NodeID); err != nil {
		return nil, err
	}
	var empty []string
	formatted := ""
	for _, d := range e.sorted() {
		switch {
		case d.Err != nil:
			res.Unreadable = append(res.Unreadable, d.Path)
		case !d.formatted:
			empty = append(empty, d.Path)
		case formatted == "":
			formatted = d.Path
		}
	}
	switch {
	case formatted != "" && !f.o.IgnoreFormatted:
		res.Unreadable = nil
		return nil, fmt.Errorf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", formatted)
	case formatted == "" && len(empty) == 0:
		return nil, errors.New("No available log directories to format.")
	}
	return empty, nil
}

// format formats one directory and says how Kafka calls it.
func (f *formatting) format(dir string) (kind string, err error) {
	kind, id := "data directory", uuid.Draw(f.rnd.Read)
	if dir == f.o.Config.MetadataLogDir {
		kind = "metadata directory"
		if f.voters != nil {
			kind = "dynamic metadata directory"
		}
		for _, v := range f.voters {
			if v.Key.ID == f.o.Config.NodeID {
				kind, id = "dynamic metadata voter directory", v.Key.DirectoryID
			}
		}
	}
	if err := makeDir(f.fsys, dir); err != nil {
		return kind, err
	}
	if dir == f.o.Config.MetadataLogDir && f.o.Config.HasRole(config.RoleController) {
		if err := f.writeSnapshot(dir); err != nil {
			return kind, err
		}
	}
	p := storage.MetaProperties{Version: 1, ClusterID: f.o.ClusterID, NodeID: f.o.Config.NodeID, DirectoryID: id}
	if err := storage.WriteMetaProperties(f.fsys, dir, p, f.o.Now); err != nil {
		return kind, fmt.Errorf("Error while writing meta.properties file %s: %w", dir, err)
	}
	return kind, nil
}

func (f *formatting) writeSnapshot(dir string) error {
	head := raft.SnapshotHead{KRaftVersion: f.kraftVersion, LastContainedLogTime: f.o.Now.UnixMilli()}
	if f.voters != nil {
		head.Voters = raft.NewVoterSet(f.voters...)
	}
	if err := raft.WriteBootstrap(f.fsys, raft.LogDir(dir), head, f.records, f.o.Now.UnixMilli()); err != nil {
		return err
	}
	return f.fsys.SyncDir(dir)
}

// makeDir makes a folder, and those above it that are missing, so that a crash does not lose their names.
func makeDir(fsys env.FS, dir string) error {
	_, err := fsys.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make log directory: %w", err)
	}
	return fsys.SyncDir(parent)
}

// Standalone formats the directories of a node that is the only voter of a new cluster, and returns the cluster's id.
func Standalone(fsys env.FS, rnd env.Rand, now time.Time, cfg *config.Node) (clusterID string, err error) {
	clusterID = uuid.Draw(rnd.Read).String()
	_, err = Format(fsys, rnd, Options{Config: cfg, ClusterID: clusterID, Now: now, Standalone: true})
	return clusterID, err
}
