package storage

import (
	"flag"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
)

// historySteps is how long a history is.
const historySteps = 200

// A log keeps what was flushed, and of the rest a prefix, whatever a crash takes; it says of itself what its batches say.
func TestHistories(t *testing.T) {
	node := nodeSettings(t)
	counts := map[string]int{}
	for seed := range seeds(400) {
		h := historyOf(seed, node, func(e env.Env) env.Env { return e })
		if err := h.run(historySteps); err != nil {
			h.w.Report(t.Output(), 40)
			t.Fatal(err)
		}
		for _, what := range marks {
			counts[what] += h.w.Counted(what)
		}
	}
	for _, what := range marks {
		if counts[what] == 0 {
			t.Errorf("nothing of the kind has happened: %s", what)
		}
	}
}

// marks are what all histories together must have come to.
var marks = []string{
	"kill", "crash while opening", "disk error", "page torn at a crash", "page garbled at a crash", "name lost at a crash",
	"crash at truncate", "crash at rename", "crash at sync", "crash at syncdir",
}

func historyOf(seed uint64, node *config.Node, wrap func(env.Env) env.Env) *history {
	faults := sim.DiskFaults{Torn: 0.3, Garbled: 0.3}
	if seed%4 == 3 {
		faults.WriteError, faults.ShortWrite, faults.SyncError = 0.002, 0.002, 0.002
	}
	return newHistory(seed, node, faults, wrap)
}

var (
	firstSeed = flag.Uint64("seed", 0, "the first seed of histories and sweeps")
	seedCount = flag.Uint64("seeds", 0, "how many seeds to take of each kind; 0: some, as time allows")
)

// seeds are those that a test takes: n of them, a tenth of that in a short run, or what the flags say. A long run:
//
//	go test ./internal/storage -run 'Histories$|TestCrashAt|TestEverySync' -seed 1000 -seeds 5000 -timeout 0
func seeds(n uint64) iter.Seq[uint64] {
	if testing.Short() {
		n = max(n/10, 1)
	}
	if *seedCount > 0 {
		n = *seedCount
	}
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(*firstSeed + i) {
				return
			}
		}
	}
}

// Without any one sort of sync the same histories come to grief: TestHistories sees what it should.
func TestHistoriesNeedEverySync(t *testing.T) {
	node := nodeSettings(t)
	for name, needless := range map[string]func(path string, dir bool) bool{
		"records":             func(path string, dir bool) bool { return strings.HasSuffix(path, logSuffix) },
		"copies of records":   func(path string, dir bool) bool { return strings.HasSuffix(path, truncatedSuffix) },
		"indexes":             func(path string, dir bool) bool { return strings.HasSuffix(path, offsetIndexSuffix) },
		"transaction indexes": func(path string, dir bool) bool { return strings.HasSuffix(path, txnIndexSuffix) },
		"checkpoints":         func(path string, dir bool) bool { return strings.HasSuffix(path, "checkpoint.tmp") },
		"folder of the log":   func(path string, dir bool) bool { return dir && path == "/logs/"+historyPartition.String() },
		"log directory":       func(path string, dir bool) bool { return dir && path == "/logs" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2000) {
				h := historyOf(seed, node, func(e env.Env) env.Env { return forgetfulEnv{e, needless} })
				if err := h.run(historySteps); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("nothing went wrong")
		})
	}
}

// forgetfulEnv has a disk that leaves out some syncs.
type forgetfulEnv struct {
	env.Env
	needless func(path string, dir bool) bool
}

func (e forgetfulEnv) FS() env.FS { return forgetfulFS{e.Env.FS(), e.needless} }

type forgetfulFS struct {
	env.FS
	needless func(path string, dir bool) bool
}

func (f forgetfulFS) SyncDir(name string) error {
	if f.needless(filepath.Clean(name), true) {
		return nil
	}
	return f.FS.SyncDir(name)
}

func (f forgetfulFS) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	file, err := f.FS.Open(name, flag, perm)
	if err == nil && f.needless(name, false) {
		file = forgetfulFile{file}
	}
	return file, err
}

type forgetfulFile struct{ env.File }

func (forgetfulFile) Sync() error { return nil }
