package storage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/uuid"
)

// descriptors are the files of a folder that this process has open.
func descriptors(t testing.TB, dir string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		if path, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(path, dir+"/") && filepath.Base(path) != LockFile {
			n++
		}
	}
	return n
}

// Many logs are written and read with few open files. Only what somebody holds is open above the limit, and it stays what it was.
func TestOpenFilesAreBounded(t *testing.T) {
	const logs, limit = 40, 7
	dir := t.TempDir()
	m := openManagerWith(t, dir, func(o *ManagerOptions) { o.OpenFiles = limit })
	settings := topicSettings(nodeSettings(t))("")
	var all []*Log
	for i := range logs {
		l, err := m.Open(TopicPartition{"t", int32(i)}, uuid.UUID{1}, uuid.Zero, settings)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	if n := descriptors(t, dir); n != 0 {
		t.Errorf("%d files of logs that nobody uses are open", n)
	}
	for round := range 3 {
		for i, l := range all {
			if _, err := l.AppendAsLeader(someBatch(t, fmt.Appendf(nil, "%d/%d", round, i)), 0, AppendOptions{ProduceVersion: 9}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := descriptors(t, dir); n > limit || n != m.files.Count() {
		t.Errorf("%d files are open, %d are counted, the limit is %d", n, m.files.Count(), limit)
	}
	var pins []Slice
	for _, l := range all {
		s, err := l.Read(0, 1<<20, true, l.EndOffset())
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, s)
	}
	if n := descriptors(t, dir); n < logs {
		t.Errorf("%d files are open, %d are held", n, logs)
	}
	for i, s := range pins {
		b, err := s.Bytes()
		for round := range 3 {
			if err != nil || !bytes.Contains(b, fmt.Appendf(nil, "%d/%d", round, i)) {
				t.Fatalf("log %d has %q, %v", i, b, err)
			}
		}
		s.Release()
	}
	if _, err := all[0].AppendAsLeader(someBatch(t, nil), 0, AppendOptions{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
	if err := m.Shutdown(1); err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t, dir); n != 0 || m.files.Count() != 0 {
		t.Errorf("%d files are open after the shutdown, %d are counted", n, m.files.Count())
	}
}

// Files with nothing to sync are closed before others.
func TestUnsyncedFilesAreClosedLast(t *testing.T) {
	c := NewOpenFiles(realFS(), 3)
	dir := t.TempDir()
	open := func(base int64) *lazyFile {
		s := newSegment(c, dir, base, 0)
		if err := s.create(0); err != nil {
			t.Fatal(err)
		}
		if err := s.log.use(func(o *openFile) error { _, err := o.WriteAt([]byte("x"), 0); return err }); err != nil {
			t.Fatal(err)
		}
		return &s.log
	}
	a, b, clean := open(1), open(2), open(3)
	if err := clean.use((*openFile).Sync); err != nil {
		t.Fatal(err)
	}
	d := open(4)
	if a.file == nil || b.file == nil || d.file == nil || clean.file != nil {
		t.Errorf("open: %t %t %t, and the synced one %t", a.file != nil, b.file != nil, d.file != nil, clean.file != nil)
	}
	open(5)
	if n := c.Count(); n != 3 {
		t.Errorf("%d files are open", n)
	}
}
