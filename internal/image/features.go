package image

import (
	"iter"

	"github.com/ottla-io/ottla/internal/metadata"
)

// Features are the finalized feature levels. kraft.version is not among them: the quorum has it.
type Features struct{ levels *table[string, int16] }

// Level is the level of a feature; 0 if it is not finalized.
func (f *Features) Level(name string) int16 {
	if f == nil {
		return 0
	}
	l, _ := f.levels.get(name)
	return l
}

// MetadataVersion is the finalized metadata.version; 0 as long as none is known.
func (f *Features) MetadataVersion() metadata.Version {
	return metadata.Version(f.Level(metadata.FeatureMetadata))
}

// All iterates over the finalized features, sorted by name.
func (f *Features) All() iter.Seq2[string, int16] {
	if f == nil {
		return (*table[string, int16])(nil).all()
	}
	return f.levels.all()
}

type featuresDelta struct{ tableDelta[string, int16] }

func newFeaturesDelta(base *Features) *featuresDelta {
	d := &featuresDelta{}
	if base != nil {
		d.base = base.levels
	}
	return d
}

func (d *featuresDelta) apply() *Features { return &Features{d.current()} }

func (d *featuresDelta) replay(r *metadata.FeatureLevelRecord) {
	if r.FeatureLevel != 0 {
		d.put(r.Name, r.FeatureLevel)
	} else {
		d.delete(r.Name)
	}
}

func (d *featuresDelta) replaceBy(next *Features) {
	if next == nil {
		next = &Features{}
	}
	d.replace(next.levels, func(a, b int16) bool { return a == b })
}
