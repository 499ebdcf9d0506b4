package storage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
)

// syncing are the names of the functions that make something durable, of the disk's as well as of ours that are made of those.
var syncing = []string{"Sync", "SyncDir", "sync", "syncRecords", "syncNames", "complete", "WriteFileAtomic"}

// syncSite is a place in the code where something is made durable.
type syncSite struct {
	name string // function, callee, and which of them if there are several
	file string
	line int
	to   string // the callee
}

// syncSites finds all places in the sources of this package and of the writing of small files.
func syncSites(t *testing.T) []syncSite {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sites []syncSite
	for _, path := range append(paths, filepath.Join("..", "env", "fs.go")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				sites = append(sites, syncSitesOf(set, fn)...)
			}
		}
	}
	return sites
}

func syncSitesOf(set *token.FileSet, fn *ast.FuncDecl) []syncSite {
	var sites []syncSite
	seen := map[string]int{}
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		to := ""
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			to = f.Sel.Name
		case *ast.Ident:
			to = f.Name
		}
		if slices.Contains(syncing, to) {
			at := set.Position(call.Pos())
			name := fn.Name.Name + " " + to
			if fn.Recv != nil {
				name = receiver(fn) + "." + name
			}
			if seen[name]++; seen[name] > 1 {
				name += fmt.Sprint(" ", seen[name])
			}
			sites = append(sites, syncSite{name, filepath.Base(at.Filename), at.Line, to})
		}
		return true
	})
	return sites
}

func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	return t.(*ast.Ident).Name
}

// calls reports whether the call under way came through the site.
func (s syncSite) calls(known map[uintptr]bool) bool {
	var pcs [64]uintptr
	n := runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		hit, ok := known[pc]
		if !ok {
			hit = s.isAt(pc)
			known[pc] = hit
		}
		if hit {
			return true
		}
	}
	return false
}

// isAt looks at one place of a stack, and at what the compiler has put in line there.
func (s syncSite) isAt(pc uintptr) bool {
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		f, more := frames.Next()
		if f.Line == s.line && filepath.Base(f.File) == s.file && !strings.HasSuffix(f.File, "_test.go") {
			return true
		}
		if !more {
			return false
		}
	}
}

// without is a world in which the code has no sync there.
func (s syncSite) without() func(env.Env) env.Env {
	known := map[uintptr]bool{}
	return func(e env.Env) env.Env {
		return wrappedEnv{e, siteFS{e.FS(), func() bool { return s.calls(known) }}}
	}
}

type wrappedEnv struct {
	env.Env
	fsys env.FS
}

func (e wrappedEnv) FS() env.FS { return e.fsys }

type siteFS struct {
	env.FS
	left func() bool // this sync is left out
}

func (f siteFS) SyncDir(name string) error {
	if f.left() {
		return nil
	}
	return f.FS.SyncDir(name)
}

func (f siteFS) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	file, err := f.FS.Open(name, flag, perm)
	if err == nil {
		file = siteFile{file, f.left}
	}
	return file, err
}

type siteFile struct {
	env.File
	left func() bool
}

func (f siteFile) Sync() error {
	if f.left() {
		return nil
	}
	return f.File.Sync()
}

// rareSyncs matter so seldom that it takes a long run to see it: see seeds.
var rareSyncs = []string{
	"Log.cut syncNames", "Log.removeLast syncNames", "Log.removeLast syncNames 2", "Log.replace SyncDir", "Log.seal syncNames", "copyFile Sync",
	"RemoveCleanShutdown SyncDir", "segment.cutFile Sync",
}

// swapOrder is why the syncs of a swap are there of which no history has shown yet that it needs them.
const swapOrder = "keeps the steps of a swap in order, whatever the folder would make of them; no history has shown that it must"

// otherSyncs are not what histories are about, for the reason that is given.
var otherSyncs = map[string]string{
	"WriteMetaProperties WriteFileAtomic": "no history formats a directory",
	"Log.moveTo SyncDir":                  "a log whose deletion comes undone is deleted again when the metadata says so",
	"loading.dropBehindCut syncNames":     "only a log that may not have gaps needs it, and that of the histories may",
	"Log.restartAt syncNames":             "the removal before it is durable already, and an empty segment holds nothing",
	"Log.finishSwaps syncNames":           swapOrder,
	"Log.removeFiles syncNames":           swapOrder,
	"Log.unmark syncNames":                swapOrder,
	"Log.replace SyncDir 2":               swapOrder,
	"Log.replace SyncDir 3":               swapOrder,
	"Log.replace SyncDir 4":               swapOrder,
	"segment.complete SyncDir":            swapOrder,
}

// breaks is what goes wrong with a sync left out, with some of the seeds.
func (s syncSite) breaks(node *config.Node, seeds iter.Seq[uint64]) (err error) {
	defer func() {
		if p := recover(); p != nil { // the world tells who died of what
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	wrap := s.without()
	for seed := range seeds {
		err = historyOf(seed, node, wrap).run(historySteps)
		if err == nil {
			err = newCompactHistory(seed, node, wrap).run(historySteps)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Without any one of the syncs in the code, histories come to grief.
func TestEverySyncCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of histories; TestHistoriesNeedEverySync takes fewer")
	}
	node := nodeSettings(t)
	sites := syncSites(t)
	names := map[string]bool{}
	for _, s := range sites {
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			if otherSyncs[s.name] != "" || *seedCount == 0 && slices.Contains(rareSyncs, s.name) {
				return
			}
			t.Parallel()
			err := s.breaks(node, seeds(30))
			if err == nil {
				t.Fatalf("%s:%d: nothing goes wrong without it", s.file, s.line)
			}
			t.Log(err)
		})
	}
	for _, name := range slices.Concat(rareSyncs, slices.Sorted(maps.Keys(otherSyncs))) {
		if !names[name] {
			t.Errorf("there is no %s any more", name)
		}
	}
}
