package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// brokenEnv has a disk on which writes below a path fail, once it is broken.
type brokenEnv struct {
	env.Env
	broken *string
}

func (e brokenEnv) FS() env.FS { return brokenFS{e.Env.FS(), e.broken} }

type brokenFS struct {
	env.FS
	broken *string
}

func (f brokenFS) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	file, err := f.FS.Open(name, flag, perm)
	return brokenFile{file, f.broken}, err
}

type brokenFile struct {
	env.File
	broken *string
}

var errBroken = errors.New("input/output error")

func (f brokenFile) WriteAt(b []byte, at int64) (int, error) {
	if *f.broken != "" && strings.HasPrefix(f.Name(), *f.broken) {
		return 0, errBroken
	}
	return f.File.WriteAt(b, at)
}

// A directory fails: with it all logs that are there, and nothing else (KIP-112).
func TestOneDirectoryFails(t *testing.T) {
	w := sim.NewWorld(1, sim.Options{})
	node := w.NewNode("n")
	broken := ""
	n := nodeSettings(t)
	settings := topicSettings(n)("")
	dirs := []string{"/a", "/b"}
	var told []string
	var m *Manager
	do := func(fn func()) {
		node.Do("step", fn)
		w.RunFor(time.Minute)
	}
	open := func(tp TopicPartition) *Log {
		l, err := m.Open(tp, uuid.UUID{1}, uuid.DirUnassigned, settings)
		if err != nil {
			t.Errorf("open %s: %v", tp, err)
		}
		return l
	}
	var logs []*Log
	do(func() {
		o := ManagerOptionsFrom(n)
		o.Settings = topicSettings(n)
		o.OnOffline = func(id uuid.UUID, logs []TopicPartition, err error) {
			told = append(told, fmt.Sprint(id[0], logs, errors.Is(err, errBroken)))
		}
		for i, path := range dirs {
			if err := errors.Join(node.FS().MkdirAll(path, 0o755), node.FS().SyncDir("/")); err != nil {
				t.Error(err)
			}
			o.Directories = append(o.Directories, DirectoryOptions{Path: path, ID: uuid.UUID{byte(i + 1)}})
		}
		var err error
		if m, err = OpenManager(brokenEnv{node, &broken}, o); err != nil {
			t.Error(err)
		}
	})
	do(func() {
		m.Load(func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	})
	do(func() {
		for i := range int32(4) { // by turns in both
			logs = append(logs, open(TopicPartition{"t", i}))
		}
	})
	add := func(i int) error {
		_, err := logs[i].AppendAsLeader(someBatch(t, []byte("v")), 0, AppendOptions{ProduceVersion: 9})
		return err
	}
	do(func() {
		for i := range logs {
			if err := add(i); err != nil {
				t.Errorf("append to %d: %v", i, err)
			}
		}
		broken = "/a/"
		if err := add(0); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("append to a broken disk: %v", err)
		}
	})
	if want := []string{"1 [t-0 t-2] true"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	do(func() {
		for i, l := range logs {
			_, readErr := l.Read(0, 1000, true, 1)
			inA := i%2 == 0
			if err := add(i); errors.Is(err, kerr.KafkaStorageError) != inA || errors.Is(readErr, kerr.KafkaStorageError) != inA {
				t.Errorf("log %d: append %v, read %v", i, err, readErr)
			}
			if (m.Log(l.TopicPartition()) == nil) != inA {
				t.Errorf("log %d is there: %t", i, inA)
			}
		}
		if got := m.DirectoryIDs(); !slices.Equal(got, []uuid.UUID{{2}}) {
			t.Errorf("online: %v", got)
		}
		d := m.Directories()
		if !errors.Is(d[0].Err, errBroken) || len(d[0].Logs) != 0 || d[1].Err != nil || len(d[1].Logs) != 2 {
			t.Errorf("directories: %+v", d)
		}
		open(TopicPartition{"u", 0})
		// A log that the metadata knows to be in the failed directory is not made anew in another.
		for _, dir := range []uuid.UUID{{1}, {9}, uuid.DirLost} {
			if _, err := m.Open(TopicPartition{"t", 0}, uuid.UUID{1}, dir, settings); !errors.Is(err, kerr.KafkaStorageError) {
				t.Errorf("open a log of directory %s: %v", dir, err)
			}
		}
		if got := m.Directories()[1].Logs; len(got) != 3 {
			t.Errorf("a new log is not in the directory that is left: %v", got)
		}
		if err := m.Shutdown(7); err != nil {
			t.Errorf("shut down: %v", err)
		}
		for i, path := range dirs {
			if _, clean, err := ReadCleanShutdown(node.FS(), path); err != nil || clean != (i == 1) {
				t.Errorf("%s is marked: %t, %v", path, clean, err)
			}
		}
	})
}

// Loading says how far it has come, whoever of several loads a log, and what is wrong with one is the end of its directory.
func TestLoadingSaysHowFarItIs(t *testing.T) {
	good, bad := t.TempDir(), t.TempDir()
	for _, dir := range []string{good, bad} {
		m := openManager(t, dir)
		for i := range int32(7) {
			if _, err := m.Open(TopicPartition{"t" + filepath.Base(dir), i}, uuid.UUID{1}, uuid.Zero, topicSettings(nodeSettings(t))("")); err != nil {
				t.Fatal(err)
			}
		}
		m.Abandon()
	}
	broken := filepath.Join(bad, "t"+filepath.Base(bad)+"-3", PartitionMetadataFile)
	if err := os.WriteFile(broken, []byte("what is this\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var lines lineWriter
	e := real.New(real.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	n := nodeSettings(t)
	o := ManagerOptionsFrom(n)
	o.RecoveryThreads, o.Settings = 3, topicSettings(n)
	o.Directories = []DirectoryOptions{{Path: good, ID: uuid.UUID{1}}, {Path: bad, ID: uuid.UUID{2}}}
	m, err := OpenManager(e, o)
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	m.Load(func(err error) { loaded <- err })
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if got := m.DirectoryIDs(); !slices.Equal(got, []uuid.UUID{{1}}) {
		t.Errorf("online: %v", got)
	}
	if got := len(m.Directories()[0].Logs); got != 7 {
		t.Errorf("%d logs", got)
	}
	if err := m.Shutdown(1); err != nil {
		t.Error(err)
	}
	text := lines.String()
	for i := range 7 {
		line := fmt.Sprintf(`Completed load of log t\d+-\d with 1 segments, local-log-start-offset 0 and log-end-offset 0 in \d+ms \(%d/7 completed in %s\)`, i+1, good)
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	for _, line := range []string{`Error while loading logs in ` + filepath.Dir(broken) + ` in \d+ms \(\d/7 completed`, `Stopping serving logs in dir ` + bad,
		`Loaded \d+ logs in \d+ms \(unclean log dirs = \[` + good + ", " + bad + `\]\)`, `Closed 7 logs in ` + good} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

// lineWriter is a strings.Builder for several.
type lineWriter struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *lineWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
