package format

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Ensemble is what the directories of a node say together.
type Ensemble struct {
	ClusterID string
	Dirs      []Dir // those of log.dirs in their order, then metadata.log.dir if it is another

	metadataDir string
}

// Dir is one directory.
type Dir struct {
	Path string
	ID   uuid.UUID
	Err  error // its meta.properties cannot be read: it is offline

	formatted bool
	props     storage.MetaProperties
}

// MetadataID is the id of the directory of the metadata log.
func (e *Ensemble) MetadataID() uuid.UUID {
	for _, d := range e.Dirs {
		if d.Path == e.metadataDir {
			return d.ID
		}
	}
	return uuid.Zero
}

// directories are all directories of a node.
func directories(cfg *config.Node) []string {
	dirs := slices.Clone(cfg.LogDirs)
	if !slices.Contains(dirs, cfg.MetadataLogDir) {
		dirs = append(dirs, cfg.MetadataLogDir)
	}
	return dirs
}

// load reads the meta.properties of all directories.
func load(fsys env.FS, cfg *config.Node) *Ensemble {
	e := &Ensemble{metadataDir: cfg.MetadataLogDir}
	for _, path := range directories(cfg) {
		d := Dir{Path: path}
		var err error
		d.props, err = storage.ReadMetaProperties(fsys, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			d.Err = err
		default:
			d.formatted, d.ID = true, d.props.DirectoryID
		}
		e.Dirs = append(e.Dirs, d)
	}
	return e
}

// sorted are the directories by their paths, the order in which Kafka looks at them.
func (e *Ensemble) sorted() []*Dir {
	var out []*Dir
	for i := range e.Dirs {
		out = append(out, &e.Dirs[i])
	}
	slices.SortFunc(out, func(a, b *Dir) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// ErrOtherCluster says that a directory belongs to another cluster than was asked for, or than the others.
var ErrOtherCluster = errors.New("Invalid cluster.id") //nolint:staticcheck // Kafka's words

// verify compares the directories with one another, with the node, and with the cluster unless that is empty.
func (e *Ensemble) verify(clusterID string, nodeID int32) error {
	expectCluster := clusterID != ""
	seen := map[uuid.UUID]string{}
	for _, d := range e.sorted() {
		if !d.formatted {
			continue
		}
		path := filepath.Join(d.Path, storage.MetaPropertiesFile)
		hasCluster := d.props.Version > 0 || d.props.ClusterID != ""
		switch {
		case hasCluster && !expectCluster:
			clusterID, expectCluster = d.props.ClusterID, true
		case hasCluster && d.props.ClusterID != clusterID:
			return fmt.Errorf("%w in: %s. Expected %s, but read %s", ErrOtherCluster, path, clusterID, d.props.ClusterID)
		}
		if id := d.props.NodeID; id != -1 && id != nodeID {
			return fmt.Errorf("Stored node id %d doesn't match previous node id %d in %s. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.", id, nodeID, path)
		}
		if d.ID.IsZero() {
			continue
		}
		if before, ok := seen[d.ID]; ok {
			return fmt.Errorf("Duplicate directory ID Optional[%s] found. It was the ID of %s, but also of %s", d.ID, before, d.Path)
		}
		seen[d.ID] = d.Path
	}
	e.ClusterID = clusterID
	return nil
}

// Verify reads meta.properties of all directories of a node, and compares them with one another and with its settings. A directory
// without an id is given one. Those that cannot be read are offline, as long as others can and the metadata log is in none of them.
func Verify(world env.Env, cfg *config.Node) (*Ensemble, error) {
	fsys := world.FS()
	e := load(fsys, cfg)
	if !slices.ContainsFunc(e.Dirs, func(d Dir) bool { return d.formatted }) {
		return nil, e.unreadable()
	}
	if err := e.verify("", cfg.NodeID); err != nil {
		return nil, err
	}
	for _, d := range e.sorted() {
		if err := e.usable(fsys, d); err != nil {
			return nil, err
		}
	}
	return e, e.giveIDs(world)
}

// ErrNotFormatted says that none of a node's directories was formatted.
var ErrNotFormatted = errors.New("No readable meta.properties files found.") //nolint:staticcheck // Kafka's words

// unreadable is ErrNotFormatted, or why the files that are there cannot be read.
func (e *Ensemble) unreadable() error {
	var why []string
	for _, d := range e.Dirs {
		if d.Err != nil {
			why = append(why, d.Err.Error())
		}
	}
	if why == nil {
		return ErrNotFormatted
	}
	return fmt.Errorf("No readable meta.properties files found: %s", strings.Join(why, "; ")) //nolint:staticcheck // Kafka's words
}

// usable says why a node cannot run with the directory.
func (e *Ensemble) usable(fsys env.FS, d *Dir) error {
	switch {
	case d.Err != nil && d.Path == e.metadataDir:
		return fmt.Errorf("Encountered I/O error in metadata log directory %s. Cannot continue. %w", d.Path, d.Err)
	case d.Err != nil:
		return nil
	case !d.formatted:
		return fmt.Errorf("No `meta.properties` found in %s (have you run `ottla storage format` to format the directory?)", d.Path)
	case d.props.NodeID == -1:
		return fmt.Errorf("Error: node ID not found in %s", d.Path)
	case d.props.Version == 0 && d.props.ClusterID == "":
		return fmt.Errorf("Error: cluster ID not found in %s", d.Path)
	}
	if d.Path == e.metadataDir {
		return nil
	}
	if log := raft.LogDir(d.Path); exists(fsys, log) {
		return fmt.Errorf("Found unexpected metadata location in data directory `%s` (the configured metadata directory is %s).", log, e.metadataDir)
	}
	return nil
}

func exists(fsys env.FS, path string) bool {
	_, err := fsys.Stat(path)
	return err == nil
}

// giveIDs gives an id to each directory that was formatted when there were none (KIP-858).
func (e *Ensemble) giveIDs(world env.Env) error {
	for _, d := range e.sorted() {
		if !d.formatted || !d.ID.IsZero() {
			continue
		}
		world.Logger().Info("Rewriting " + filepath.Join(d.Path, storage.MetaPropertiesFile))
		d.ID = uuid.Draw(world.Rand().Read)
		d.props.DirectoryID = d.ID
		if err := storage.WriteMetaProperties(world.FS(), d.Path, d.props, world.Now()); err != nil {
			return err
		}
	}
	return nil
}
