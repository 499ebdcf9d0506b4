package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/ottla-io/ottla/internal/record"
)

// finishSwaps ends what a cleaner was about to do when the last life ended, and lists the folder then. Segments are cleaned into
// files with the suffix .cleaned; those become .swap when they are complete, take the place of the segments that they were made of
// when these are gone, and lose the suffix. So what is .cleaned is of no use; what is .swap is all there is, unless it was not the
// only one to be renamed: then nothing was deleted yet.
func (l *Log) finishSwaps() ([]fs.DirEntry, error) {
	entries, err := l.readDir()
	if err != nil {
		return nil, err
	}
	incomplete := int64(math.MaxInt64)
	for _, e := range entries {
		if base, _, ok := parseSegmentFile(e.Name(), cleanedSuffix); ok {
			incomplete = min(incomplete, base)
		}
	}
	var obsolete, logs, others []string
	ranges := map[int64]int64{} // that the new segments cover
	for _, e := range entries {
		name := e.Name()
		base, suffix, ok := parseSegmentFile(name, swapSuffix)
		switch {
		case strings.HasSuffix(name, cleanedSuffix), ok && base >= incomplete:
			obsolete = append(obsolete, name)
		case !strings.HasSuffix(name, swapSuffix):
		case ok && suffix == logSuffix:
			l.logger.Info(fmt.Sprintf("Found log file %s from interrupted swap operation, which is recoverable from %s files by renaming.", l.path(name), swapSuffix))
			if ranges[base], err = l.nextOffsetIn(name, base); err != nil {
				return nil, err
			}
			logs = append(logs, name)
		default:
			others = append(others, name)
		}
	}
	if len(obsolete)+len(logs)+len(others) == 0 {
		return entries, nil
	}
	for _, e := range entries {
		if base, _, ok := parseSegmentFile(e.Name(), ""); ok && covered(ranges, base) {
			l.logger.Info(fmt.Sprintf("Deleting segment files %s that is compacted but has not been deleted yet.", e.Name()))
			obsolete = append(obsolete, e.Name())
		}
	}
	l.names++ // the last life may not have come to make .swap durable, and nothing else is left of the segments then
	if err := l.syncNames(); err != nil {
		return nil, err
	}
	if err := l.removeFiles(obsolete); err != nil {
		return nil, err
	}
	for _, names := range [][]string{logs, others} { // in this order, or the next life would remove the others
		if err := l.unmark(names); err != nil {
			return nil, err
		}
	}
	return l.readDir()
}

// parseSegmentFile reads the name of a file of a segment with something behind it.
func parseSegmentFile(name, mark string) (base int64, suffix string, ok bool) {
	name, ok = strings.CutSuffix(name, mark)
	if !ok {
		return 0, "", false
	}
	for _, suffix := range []string{logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if base, ok := parseOffsetName(name, suffix); ok {
			return base, suffix, true
		}
	}
	return 0, "", false
}

// covered says that a segment begins where a new one is. The first one it was made of always counts: an empty one has the same name.
func covered(ranges map[int64]int64, base int64) bool {
	for from, to := range ranges {
		if base == from || base > from && base < to {
			return true
		}
	}
	return false
}

// nextOffsetIn is the offset behind the batches in a file.
func (l *Log) nextOffsetIn(name string, base int64) (int64, error) {
	f, err := l.fsys.Open(l.path(name), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	next := base
	err = scanFile(f, 0, size, func(h record.Batch, _ int64) bool {
		next = h.NextOffset()
		return true
	})
	return next, err
}

// unmark renames .swap files.
func (l *Log) unmark(names []string) error {
	for _, name := range names {
		l.logger.Info(fmt.Sprintf("Recovering file %s by renaming from %s files.", name, swapSuffix))
		if err := l.fsys.Rename(l.path(name), l.path(strings.TrimSuffix(name, swapSuffix))); err != nil {
			return fmt.Errorf("finish swap of %s: %w", name, err)
		}
	}
	l.names++
	return l.syncNames()
}

// removeFiles removes files for good.
func (l *Log) removeFiles(names []string) error {
	for _, name := range names {
		if err := l.fsys.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	l.names++
	return l.syncNames()
}

func (l *Log) readDir() ([]fs.DirEntry, error) {
	entries, err := l.fsys.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.dir, err)
	}
	return entries, nil
}
