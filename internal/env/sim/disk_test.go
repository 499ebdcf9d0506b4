package sim

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// outcomes runs a program on a fresh machine with many seeds, crashes it, and counts what the next life finds.
func outcomes(t *testing.T, o Options, program func(env.FS), look func(env.FS) string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for seed := range uint64(200) {
		w := NewWorld(seed, o)
		n := w.NewNode("a")
		program(n.FS())
		n.Crash()
		found[look(n.Restart().FS())]++
	}
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func create(fsys env.FS, name, data string) env.File {
	f, err := fsys.Open(name, os.O_CREATE|os.O_RDWR, 0o644)
	must(err)
	_, err = f.WriteAt([]byte(data), 0)
	must(err)
	return f
}

func read(fsys env.FS, name string) string {
	b, err := env.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "missing"
	}
	must(err)
	return string(b)
}

func wantOnly(t *testing.T, found map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if found[w] == 0 {
			t.Errorf("%q never happened: %v", w, found)
		}
		delete(found, w)
	}
	if len(found) > 0 {
		t.Errorf("unexpected outcomes %v", found)
	}
}

func TestASyncedFileWithASyncedNameSurvives(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(create(fsys, "/f", "data").Sync())
		must(fsys.SyncDir("/"))
	}, func(fsys env.FS) string { return read(fsys, "/f") })
	wantOnly(t, found, "data")
}

func TestANameThatWasNotSyncedMayBeLost(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(create(fsys, "/f", "data").Sync())
	}, func(fsys env.FS) string { return read(fsys, "/f") })
	wantOnly(t, found, "data", "missing")
}

func TestAFileInAFolderThatWasNotSyncedMayBeLost(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(fsys.MkdirAll("/d", 0o755))
		must(create(fsys, "/d/f", "data").Sync())
		must(fsys.SyncDir("/d"))
	}, func(fsys env.FS) string { return read(fsys, "/d/f") })
	wantOnly(t, found, "data", "missing")
}

func TestBytesThatWereNotSyncedMayBeLostInAnyPart(t *testing.T) {
	old, fresh := strings.Repeat("o", 3*pageSize), strings.Repeat("n", 3*pageSize)
	found := outcomes(t, Options{}, func(fsys env.FS) {
		f := create(fsys, "/f", old)
		must(f.Sync())
		must(fsys.SyncDir("/"))
		_, err := f.WriteAt([]byte(fresh), 0)
		must(err)
	}, func(fsys env.FS) string {
		s := read(fsys, "/f")
		return string([]byte{s[0], s[pageSize], s[2*pageSize], s[3*pageSize-1]})
	})
	wantOnly(t, found, "oooo", "nooo", "nnoo", "nnnn", "onoo", "oonn", "onnn", "nonn")
}

func TestTornAndGarbledPages(t *testing.T) {
	found := outcomes(t, Options{Disk: DiskFaults{Torn: 0.3, Garbled: 0.3}}, func(fsys env.FS) {
		f := create(fsys, "/f", strings.Repeat("o", pageSize))
		must(f.Sync())
		must(fsys.SyncDir("/"))
		_, err := f.WriteAt(bytes.Repeat([]byte("n"), pageSize), 0)
		must(err)
	}, func(fsys env.FS) string {
		s := read(fsys, "/f")
		switch {
		case strings.Trim(s, "o") == "":
			return "old"
		case strings.Trim(s, "n") == "":
			return "new"
		case strings.Trim(s, "no") == "" && strings.HasPrefix(s, "n") && strings.HasSuffix(s, "o"):
			return "torn"
		case len(s) == pageSize:
			return "garbled"
		}
		return "another size"
	})
	wantOnly(t, found, "old", "new", "torn", "garbled")
}

func TestAnAppendMayEndAnywhere(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		f := create(fsys, "/f", "synced")
		must(f.Sync())
		must(fsys.SyncDir("/"))
		_, err := f.WriteAt([]byte("more"), 6)
		must(err)
	}, func(fsys env.FS) string { return strings.ReplaceAll(read(fsys, "/f"), "\x00", "0") })
	// A page that was lost behind a size that was not reads as zeros.
	wantOnly(t, found, "synced", "syncedm", "syncedmo", "syncedmor", "syncedmore", "synced0", "synced00", "synced000", "synced0000")
}

func TestATruncationMayComeUndone(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		f := create(fsys, "/f", "abcdef")
		must(f.Sync())
		must(fsys.SyncDir("/"))
		must(f.Truncate(2))
	}, func(fsys env.FS) string { return strings.ReplaceAll(read(fsys, "/f"), "\x00", "0") })
	wantOnly(t, found, "ab", "abcdef", "ab0000")
}

func TestAtomicReplacementIsAtomic(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(env.WriteFileAtomic(fsys, "/f", []byte("old"), 0o644))
		must(create(fsys, "/f.tmp", "new").Sync())
		must(fsys.Rename("/f.tmp", "/f"))
	}, func(fsys env.FS) string { return read(fsys, "/f") })
	wantOnly(t, found, "old", "new")
	found = outcomes(t, Options{}, func(fsys env.FS) {
		must(env.WriteFileAtomic(fsys, "/f", []byte("old"), 0o644))
		must(env.WriteFileAtomic(fsys, "/f", []byte("new"), 0o644))
	}, func(fsys env.FS) string { return read(fsys, "/f") })
	wantOnly(t, found, "new")
}

func TestARemovalMayComeUndone(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(env.WriteFileAtomic(fsys, "/f", []byte("data"), 0o644))
		must(fsys.Remove("/f"))
	}, func(fsys env.FS) string { return read(fsys, "/f") })
	wantOnly(t, found, "data", "missing")
}

func TestARenameAcrossFoldersKeepsTheFile(t *testing.T) {
	found := outcomes(t, Options{}, func(fsys env.FS) {
		must(fsys.MkdirAll("/a", 0o755))
		must(fsys.MkdirAll("/b", 0o755))
		must(fsys.SyncDir("/"))
		must(create(fsys, "/a/f", "data").Sync())
		must(fsys.SyncDir("/a"))
		must(fsys.Rename("/a/f", "/b/f"))
	}, func(fsys env.FS) string { return read(fsys, "/a/f") + " " + read(fsys, "/b/f") })
	wantOnly(t, found, "data missing", "missing data")
}

// TestAFailedSyncIsFinal: a later sync succeeds and does not bring back what the failed one lost.
func TestAFailedSyncIsFinal(t *testing.T) {
	for seed := range uint64(20) {
		w := NewWorld(seed, Options{})
		n := w.NewNode("a")
		f := create(n.FS(), "/f", "old")
		must(f.Sync())
		must(n.FS().SyncDir("/"))
		_, err := f.WriteAt([]byte("new"), 0)
		must(err)
		n.Disk().SetFaults(DiskFaults{SyncError: 1})
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync gave %v", err)
		}
		n.Disk().SetFaults(DiskFaults{})
		must(f.Sync())
		if got := read(n.FS(), "/f"); got != "new" {
			t.Errorf("before the crash: %q", got)
		}
		n.Crash()
		if got := read(n.Restart().FS(), "/f"); got != "old" {
			t.Errorf("after the crash: %q", got)
		}
	}
}

func TestAKillLosesNothing(t *testing.T) {
	w := NewWorld(1, Options{})
	n := w.NewNode("a")
	create(n.FS(), "/f", "data")
	held, err := n.FS().Lock("/.lock")
	must(err)
	if _, err := n.FS().Lock("/.lock"); !errors.Is(err, env.ErrLocked) {
		t.Errorf("a second lock gave %v", err)
	}
	n.Kill()
	if _, err := n.FS().Stat("/f"); err == nil {
		t.Error("a node that was killed still reads its disk")
	}
	next := n.Restart()
	if got := read(next.FS(), "/f"); got != "data" {
		t.Errorf("after a kill: %q", got)
	}
	if _, err := next.FS().Lock("/.lock"); err != nil {
		t.Errorf("the next life cannot lock: %v", err)
	}
	must(held.Close()) // the former life's: must not take the lock away
	if _, err := next.FS().Lock("/.lock"); !errors.Is(err, env.ErrLocked) {
		t.Errorf("a late close took the lock away: %v", err)
	}
}

func TestWriteFaults(t *testing.T) {
	w := NewWorld(1, Options{Disk: DiskFaults{Capacity: 2 * pageSize}})
	n := w.NewNode("a")
	f := create(n.FS(), "/f", "")
	if k, err := f.WriteAt(make([]byte, 3*pageSize), 0); k != 2*pageSize || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk took %d bytes, %v", k, err)
	}
	if _, usable, err := n.FS().Usage("/"); usable != 0 || err != nil {
		t.Errorf("%d bytes usable, %v", usable, err)
	}
	must(n.FS().Remove("/f"))
	if _, usable, _ := n.FS().Usage("/"); usable != 2*pageSize {
		t.Errorf("%d bytes usable after the removal", usable)
	}
	n.Disk().SetFaults(DiskFaults{ShortWrite: 1})
	f = create(n.FS(), "/g", "")
	if k, err := f.WriteAt(make([]byte, 100), 0); k >= 100 || !errors.Is(err, syscall.EIO) {
		t.Errorf("a short write of %d bytes, %v", k, err)
	}
	n.Disk().SetFaults(DiskFaults{WriteError: 1})
	if k, err := f.WriteAt(make([]byte, 100), 0); k != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("a failed write of %d bytes, %v", k, err)
	}
	n.Disk().SetFaults(DiskFaults{ReadError: 1})
	if k, err := f.ReadAt(make([]byte, 1), 0); k != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("a failed read of %d bytes, %v", k, err)
	}
}

func TestASlowDiskHangsTheNode(t *testing.T) {
	w := NewWorld(1, Options{Disk: DiskFaults{Slow: 1, SlowBy: time.Second}})
	n := w.NewNode("a")
	var began, ended, other time.Duration
	n.Do("sync", func() {
		f := create(n.FS(), "/f", "x")
		began = w.Now()
		must(f.Sync())
		ended = w.Now()
	})
	n.Do("other", func() { other = w.Now() })
	w.RunFor(time.Minute)
	if ended <= began || other < ended {
		t.Errorf("sync from %s to %s, the next event at %s", began, ended, other)
	}
}

func TestTheDriversHands(t *testing.T) {
	w := NewWorld(1, Options{})
	n := w.NewNode("a")
	must(n.FS().MkdirAll("/d", 0o755))
	must(n.FS().SyncDir("/"))
	must(n.Disk().WriteFile("/d/f", []byte("abc"), 0o644))
	must(n.Disk().Corrupt("/d/f", 1, 1))
	if got := read(n.FS(), "/d/f"); got[0] != 'a' || got[1] == 'b' || got[2] != 'c' {
		t.Errorf("rotten file reads %q", got)
	}
	other := w.NewNode("b")
	other.Kill()
	n.Disk().Copy(other)
	must(n.Disk().RemoveFile("/d/f"))
	if files := other.Disk().Files(); len(files) != 1 || files[0] != "/d/f" {
		t.Errorf("the copy holds %v", files)
	}
	n.Crash()
	if got := read(n.Restart().FS(), "/d/f"); got != "missing" {
		t.Errorf("a file that was removed reads %q", got)
	}
}

// TestCrashAtEveryOperation: a program that replaces a file is crashed before and after each of its steps.
func TestCrashAtEveryOperation(t *testing.T) {
	for k := 1; ; k++ {
		w := NewWorld(uint64(k), Options{})
		n := w.NewNode("a")
		must(env.WriteFileAtomic(n.FS(), "/f", []byte("old"), 0o644))
		finished := false
		n.Do("replace", func() {
			must(env.WriteFileAtomic(n.FS(), "/f", []byte("new"), 0o644))
			finished = true
		})
		n.CrashAfter(k)
		w.RunFor(time.Second)
		if finished {
			if k < 8 {
				t.Errorf("only %d places to crash", k-1)
			}
			return
		}
		if n.Alive() {
			t.Fatalf("neither finished nor crashed at operation %d", k)
		}
		if got := read(n.Restart().FS(), "/f"); got != "old" && got != "new" {
			t.Errorf("after a crash at operation %d the file holds %q", k, got)
		}
	}
}
