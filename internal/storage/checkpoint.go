package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
)

// checkpointVersion is the first line of all checkpoint files.
const checkpointVersion = "0"

// readCheckpoint reads a file of a version, a count and as many lines of words. A file that is missing, empty or ends before the
// count has no lines.
func readCheckpoint(fsys env.FS, path string, words int) ([][]string, error) {
	data, err := env.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"), "\n")
	bad := func(line int) error { return fmt.Errorf("read %s: malformed line %d", path, line+1) }
	if lines[0] != checkpointVersion {
		return nil, fmt.Errorf("read %s: unrecognized version of the checkpoint file: %.20q", path, lines[0])
	}
	if len(lines) < 2 {
		return nil, nil
	}
	count, err := strconv.Atoi(lines[1])
	if err != nil || count < 0 {
		return nil, bad(1)
	}
	if count != len(lines)-2 {
		return nil, fmt.Errorf("read %s: expected %d entries in the checkpoint file, but found %d", path, count, len(lines)-2)
	}
	out := make([][]string, 0, count)
	for i, line := range lines[2:] {
		f := strings.Fields(line)
		if len(f) != words {
			return nil, bad(i + 2)
		}
		out = append(out, f)
	}
	return out, nil
}

// writeCheckpoint replaces a checkpoint file.
func writeCheckpoint(fsys env.FS, path string, lines []string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d\n", checkpointVersion, len(lines))
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return env.WriteFileAtomic(fsys, path, b.Bytes(), 0o644)
}

// ReadOffsetCheckpoint reads one of the four files that hold an offset for each partition of a directory.
func ReadOffsetCheckpoint(fsys env.FS, path string) (map[TopicPartition]int64, error) {
	lines, err := readCheckpoint(fsys, path, 3)
	if err != nil {
		return nil, err
	}
	out := make(map[TopicPartition]int64, len(lines))
	for i, l := range lines {
		partition, err1 := strconv.ParseInt(l[1], 10, 32)
		offset, err2 := strconv.ParseInt(l[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read %s: malformed line %d: %w", path, i+3, err)
		}
		out[TopicPartition{l[0], int32(partition)}] = offset
	}
	return out, nil
}

// WriteOffsetCheckpoint replaces such a file. It is durable when nil is returned.
func WriteOffsetCheckpoint(fsys env.FS, path string, offsets map[TopicPartition]int64) error {
	keys := slices.SortedFunc(maps.Keys(offsets), TopicPartition.Compare)
	lines := make([]string, len(keys))
	for i, tp := range keys {
		lines[i] = fmt.Sprintf("%s %d %d", tp.Topic, tp.Partition, offsets[tp])
	}
	return writeCheckpoint(fsys, path, lines)
}
