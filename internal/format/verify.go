package format

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
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
	Err  error // it cannot be read: it is offline
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

// Verify reads meta.properties of all directories of a node and compares them with one another and with its settings. Errors, in
// Kafka's words: none is readable; another node's; different clusters; one directory given twice; a directory that is not
// formatted among others that are.
func Verify(fsys env.FS, cfg *config.Node) (*Ensemble, error) {
	e := &Ensemble{metadataDir: cfg.MetadataLogDir}
	var found []storage.MetaProperties
	var unformatted []string
	for _, path := range directories(cfg) {
		d := Dir{Path: path}
		p, err := storage.ReadMetaProperties(fsys, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			unformatted = append(unformatted, path)
		case err != nil:
			d.Err = err
		case p.ClusterID == "":
			d.Err = fmt.Errorf("read %s: cluster.id is missing", filepath.Join(path, storage.MetaPropertiesFile))
		default:
			d.ID = p.DirectoryID
			found = append(found, p)
			if err := e.check(cfg, path, p); err != nil {
				return nil, err
			}
		}
		e.Dirs = append(e.Dirs, d)
	}
	if len(found) == 0 {
		err := errors.New("No readable meta.properties files found.") //nolint:staticcheck // Kafka's words
		for _, d := range e.Dirs {
			err = errors.Join(err, d.Err)
		}
		return nil, err
	}
	if len(unformatted) > 0 {
		return nil, fmt.Errorf("Unable to validate the meta.properties of %v: the file is missing. Format the directory with ottla storage format --ignore-formatted.", unformatted) //nolint:staticcheck // in Kafka's style
	}
	for _, d := range e.Dirs {
		if d.Path == e.metadataDir && d.Err != nil {
			return nil, fmt.Errorf("Encountered I/O error in metadata log directory %s. Cannot continue. %w", d.Path, d.Err) //nolint:staticcheck // Kafka's words
		}
	}
	return e, nil
}

// check compares a directory with what is known so far.
func (e *Ensemble) check(cfg *config.Node, path string, p storage.MetaProperties) error {
	if p.NodeID >= 0 && p.NodeID != cfg.NodeID {
		return fmt.Errorf("Stored node id %d doesn't match previous node id %d in %s. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.", //nolint:staticcheck // Kafka's words
			p.NodeID, cfg.NodeID, path)
	}
	if p.ClusterID != "" && e.ClusterID != "" && p.ClusterID != e.ClusterID {
		return fmt.Errorf("Invalid cluster.id in: %s/%s. Expected %s, but read %s", path, storage.MetaPropertiesFile, e.ClusterID, p.ClusterID) //nolint:staticcheck // Kafka's words
	}
	if e.ClusterID == "" {
		e.ClusterID = p.ClusterID
	}
	for _, d := range e.Dirs {
		if !p.DirectoryID.IsZero() && d.ID == p.DirectoryID {
			return fmt.Errorf("Found a duplicate directory.id %s. %s is the same as %s.", p.DirectoryID, path, d.Path) //nolint:staticcheck // Kafka's words
		}
	}
	return nil
}
