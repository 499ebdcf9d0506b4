package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
)

// Finding is something about a file that is not as it should be.
type Finding struct {
	Path     string
	Position int64 // bytes; -1 if it is about the file as a whole
	Problem  string
	// Harmless findings are what a crash or a stop may leave, and the next start puts in order.
	Harmless bool
}

// Checked is what was looked at.
type Checked struct {
	Logs, Files, Batches, Records, Bytes int64
	Problems                             int64 // findings that are not harmless
}

// CheckOptions say how a directory is looked at.
type CheckOptions struct {
	// Found is told of each finding as it is made: folder by folder, by name.
	Found func(Finding)
	// Other checks a file of a log's folder that this package does not know; known is false for one that nobody does.
	Other func(path string) (known bool, err error)
}

// CheckDirectory reads every file of a log directory, changes nothing, and says what is wrong with them. Nobody may use the directory
// meanwhile. An error means that it cannot be looked at.
func CheckDirectory(fsys env.FS, dir string, o CheckOptions) (Checked, error) {
	c := &checker{fsys: fsys, o: o, dir: dir, ends: map[TopicPartition]int64{}}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return c.done, fmt.Errorf("list %s: %w", dir, err)
	}
	_, c.clean, err = ReadCleanShutdown(fsys, dir)
	if err != nil {
		return c.done, err
	}
	// What is wrong with it is told with the other checkpoints.
	c.recovery, _ = ReadOffsetCheckpoint(fsys, filepath.Join(dir, RecoveryPointCheckpoint))
	var rest []string
	for _, e := range entries {
		if e.IsDir() {
			c.folder(filepath.Join(dir, e.Name()))
		} else {
			rest = append(rest, e.Name())
		}
	}
	for _, name := range rest {
		c.topFile(name)
	}
	if !slices.Contains(rest, MetaPropertiesFile) {
		c.found(filepath.Join(dir, MetaPropertiesFile), -1, "is missing: the directory was never formatted")
	}
	return c.done, nil
}

// checker looks at one directory.
type checker struct {
	fsys  env.FS
	o     CheckOptions
	dir   string
	clean bool // it was shut down in order
	done  Checked
	ends  map[TopicPartition]int64 // of the logs

	recovery map[TopicPartition]int64 // recovery points
}

func (c *checker) found(path string, position int64, format string, args ...any) {
	c.done.Problems++
	c.o.Found(Finding{path, position, fmt.Sprintf(format, args...), false})
}

// left is something that the next start puts in order.
func (c *checker) left(path string, position int64, format string, args ...any) {
	c.o.Found(Finding{path, position, fmt.Sprintf(format, args...), true})
}

// afterCrash is a problem in a directory that was shut down in order, and else what a crash may leave.
func (c *checker) afterCrash(path string, position int64, format string, args ...any) {
	if c.clean {
		c.found(path, position, format, args...)
		return
	}
	c.left(path, position, format, args...)
}

// failed notes an error of reading a file; false if there is none.
func (c *checker) failed(path string, err error) bool {
	var damage *DamageError
	switch {
	case err == nil:
		return false
	case errors.As(err, &damage):
		c.found(damage.File, damage.Position, "%s", damage.Problem)
	default:
		c.found(path, -1, "%v", err)
	}
	return true
}

// topFile checks a file at the top of the directory.
func (c *checker) topFile(name string) {
	path := filepath.Join(c.dir, name)
	c.done.Files++
	switch name {
	case MetaPropertiesFile:
		_, err := ReadMetaProperties(c.fsys, c.dir)
		c.failed(path, err)
	case CleanShutdownFile:
		if epoch, _, err := ReadCleanShutdown(c.fsys, c.dir); !c.failed(path, err) && epoch < -1 {
			c.found(path, -1, "broker epoch %d", epoch)
		}
	case LockFile:
	case RecoveryPointCheckpoint, HighWatermarkCheckpoint, LogStartCheckpoint, CleanerCheckpoint:
		c.checkpoint(name)
	default:
		if strings.HasSuffix(name, ".tmp") {
			c.left(path, -1, "was being written when the node ended")
			return
		}
		c.left(path, -1, "is no file that a broker knows")
	}
}

// checkpoint compares the offsets in a file with the logs.
func (c *checker) checkpoint(name string) {
	path := filepath.Join(c.dir, name)
	offsets, err := ReadOffsetCheckpoint(c.fsys, path)
	if c.failed(path, err) {
		return
	}
	for _, tp := range slices.SortedFunc(maps.Keys(offsets), TopicPartition.Compare) {
		end, ok := c.ends[tp]
		switch offset := offsets[tp]; {
		case !ok:
			c.left(path, -1, "speaks of %s, whose log is not here", tp)
		case offset < 0:
			c.found(path, -1, "gives %s the offset %d", tp, offset)
		case offset > end:
			c.afterCrash(path, -1, "gives %s the offset %d, but its log ends at %d", tp, offset, end)
		}
	}
}

// folder checks the folder of a log.
func (c *checker) folder(path string) {
	name := filepath.Base(path)
	switch {
	case strings.HasSuffix(name, deleteDirSuffix):
		c.left(path, -1, "is a deleted log that is about to be removed")
		return
	case strings.HasSuffix(name, strayDirSuffix):
		c.left(path, -1, "is a stray log that nobody looks at")
		return
	}
	tp, ok := parsePartitionDir(strings.TrimSuffix(name, futureDirSuffix))
	if !ok {
		c.left(path, -1, "is no folder of a partition")
		return
	}
	l := &logCheck{checker: c, dir: path, metadata: name == metadataFolder, recovery: c.recovery[tp], files: NewOpenFiles(c.fsys, 0)}
	l.run()
	c.done.Logs++
	if !l.metadata && name == tp.String() {
		c.ends[tp] = l.end
	}
}

// exists says whether a file is there.
func (c *checker) exists(path string) bool {
	_, err := c.fsys.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
