package format

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/storage"
)

// Info is what the storage tool tells of the directories of a node.
type Info struct {
	Found    []string                // directories, sorted
	Metadata *storage.MetaProperties // of the first that could be read
	Problems []string
}

// ReadInfo looks at all directories of a node.
func ReadInfo(fsys env.FS, cfg *config.Node) *Info {
	out := &Info{}
	for _, d := range load(fsys, cfg).sorted() {
		stat, err := fsys.Stat(d.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.problem("%s does not exist", d.Path)
			continue
		case err != nil:
			out.problem("%v", err)
			continue
		case !stat.IsDir():
			out.problem("%s is not a directory", d.Path)
			continue
		}
		out.Found = append(out.Found, d.Path)
		switch {
		case d.Err != nil:
			cause := errors.Unwrap(d.Err) // without the path, which stands in front
			if cause == nil {
				cause = d.Err
			}
			out.problem("Error loading %s: %v", filepath.Join(d.Path, storage.MetaPropertiesFile), cause)
		case !d.formatted:
			out.problem("%s is not formatted.", d.Path)
		case out.Metadata == nil:
			out.Metadata = &d.props
		case out.Metadata.ClusterID != d.props.ClusterID:
			out.problem("Mismatched cluster IDs between storage directories.")
		case out.Metadata.NodeID != d.props.NodeID:
			out.problem("Mismatched node IDs between storage directories.")
		}
	}
	if out.Metadata != nil && out.Metadata.Version == 0 {
		out.problem("The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for legacy mode.")
	}
	return out
}

func (i *Info) problem(format string, args ...any) {
	i.Problems = append(i.Problems, fmt.Sprintf(format, args...))
}
