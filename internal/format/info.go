package format

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/storage"
)

// Info is what the storage tool tells of the directories of a node.
type Info struct {
	Found    []string // directories
	Metadata []storage.MetaProperties
	Problems []string
}

// ReadInfo looks at all directories of a node.
func ReadInfo(fsys env.FS, cfg *config.Node) Info {
	var out Info
	for _, dir := range directories(cfg) {
		stat, err := fsys.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Problems = append(out.Problems, dir+" does not exist")
			continue
		case err != nil:
			out.Problems = append(out.Problems, err.Error())
			continue
		case !stat.IsDir():
			out.Problems = append(out.Problems, dir+" is not a directory")
			continue
		}
		out.Found = append(out.Found, dir)
		p, err := storage.ReadMetaProperties(fsys, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Problems = append(out.Problems, dir+" is not formatted.")
		case err != nil:
			out.Problems = append(out.Problems, fmt.Sprintf("Error loading %s/%s: %v", dir, storage.MetaPropertiesFile, err))
		default:
			out.Metadata = append(out.Metadata, p)
		}
	}
	return out
}
