// Package internal_test holds the picture of the packages as a text, and fails when the code says otherwise.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// picture: "a < b" lets b import a and everything that a may import. NONE imports nothing of ours. A package stands on
// the right side once or several times; the rights add up. Names are below internal/ unless they begin with a slash.
// Arrows that are missing here are missing by intent: two packages that want each other lack a third noun, or the
// interface belongs to its consumer. Never loosened to fix a build.
const picture = `
NONE < uuid, kerr, timeline, env, config, acl, /schemas;
env < env/real, env/sim;
env/real < env/process;
/schemas < protocol/gen;

# bytes
uuid < protocol/wire < protocol, metadata;
protocol, metadata, /schemas < protocol/protocoltest;
kerr < record;
env, protocol < rpc;

# the log, and the quorum of the metadata log
record < storage/compaction;
env, config, uuid, storage/compaction < storage;
storage, rpc, metadata < raft;

# what is in it
raft, timeline, acl < controller;
raft < image;

# partitions, and the coordinators over them, which get their log as an interface
storage, image < replica;
env, record, protocol < coordinator;
coordinator < coordinator/memlog;
coordinator, rpc, config < coordinator/group, coordinator/txn, coordinator/share;

# one process
replica, controller, coordinator/group, coordinator/txn, coordinator/share < broker < server;
storage, raft, controller < format;
server, format < node;

# who makes processes
node, env/sim < sim;
node, env/real < cluster;
cluster, env/process < /ottlatest;
cluster, /schemas < cli;
sim, cli, /ottlatest < /cmd/ottla;
`

// cores run on queues of env: no goroutine and no channel of their own, and nothing of the outside but through env.
var cores = []string{"raft", "controller", "image", "timeline", "coordinator", "replica", "storage", "record", "metadata", "broker", "sim", "format", "node", "server", "rpc", "protocol"}

// forbidden imports, by path or by a path that ends in /..., in code that is not a test.
var forbidden = []struct {
	imports, reason string
	but             []string // packages that may
}{
	{imports: "log", reason: "logs go through the slog.Logger of env"},
	{imports: "io/ioutil", reason: "it is deprecated"},
	{imports: "unsafe", reason: "nothing was measured yet that needs it"},
	{imports: "C", reason: "the binary is static"},
	{imports: "testing", reason: "test code does not belong into the product", but: []string{"/ottlatest", "protocol/protocoltest"}},
	{imports: "os/exec", reason: "the product starts no processes"},
	{imports: "net/http", reason: "the product speaks Kafka's protocol only", but: []string{"cli", "node"}},
	{imports: "syscall", reason: "the operating system is behind env", but: []string{"env/real", "env/sim", "cli"}},
	{imports: "math/rand", reason: "randomness comes from env, by seed", but: []string{"env/real", "env/sim", "cli"}},
	{imports: "math/rand/v2", reason: "randomness comes from env, by seed", but: []string{"env/real", "env/sim", "cli", "protocol/protocoltest"}},
	{imports: "net", reason: "the network is behind env", but: []string{"config", "env/real", "cli", "/ottlatest"}},
	{imports: "github.com/twmb/franz-go/...", reason: "a client is for the tools; the server has a protocol of its own", but: []string{"cli", "/ottlatest"}},
}

// dependencies are the modules of others in the product, each with where it may be used and why.
var dependencies = map[string]struct {
	by  []string
	why string
}{
	"github.com/klauspost/compress":    {[]string{"record"}, "gzip, snappy and zstd, faster than the standard library's and with levels"},
	"github.com/pierrec/lz4/v4":        {[]string{"record"}, "lz4 frames"},
	"github.com/tidwall/btree":         {[]string{"timeline", "image"}, "copy-on-write trees"},
	"github.com/magiconair/properties": {[]string{"config"}, "Java's properties files"},
	"golang.org/x/sys":                 {[]string{"env/real"}, "fallocate, sendfile, flock"},
	"github.com/spf13/cobra":           {[]string{"cli"}, "sub-commands and help"},
	"github.com/spf13/pflag":           {[]string{"cli"}, "flags as cobra has them"},
	"github.com/twmb/franz-go":         {[]string{"cli", "/ottlatest"}, "the client of the tools"},
}

const module = "github.com/ottla-io/ottla"

// source is a package as its files say.
type source struct {
	name    string // as in the picture
	dir     string
	doc     bool
	imports map[string][]string // import path to the files, tests not counted
	threads []string            // places of go statements and channels
}

func TestPackages(t *testing.T) {
	may := parsePicture(t)
	for _, p := range load(t) {
		if !p.doc {
			t.Errorf("%s has no package comment: say what it owns, who calls it and what it never does", p.dir)
		}
		if strings.HasPrefix(p.name, "/test/") || strings.HasPrefix(p.name, "/bench") || strings.HasPrefix(p.name, "/examples") {
			continue
		}
		if _, ok := may[p.name]; !ok && p.name != "" {
			t.Errorf("%s is not in the picture at the head of internal/structure_test.go: give it its place", p.dir)
			continue
		}
		for what, files := range p.imports {
			if own, ok := ours(what); ok && !may[p.name][own] {
				t.Errorf("%s imports %s: the picture has no arrow from %s down to %s", files[0], what, p.name, own)
			}
			for _, reason := range complaints(p.name, what) {
				t.Errorf("%s imports %s: %s", files[0], what, reason)
			}
		}
		if isCore(p.name) {
			for _, place := range p.threads {
				t.Errorf("%s: a core has no goroutine and no channel: it posts to a queue of env", place)
			}
		}
	}
}

// complaints says what is wrong with the import of something that is not ours.
func complaints(name, what string) (reasons []string) {
	for _, f := range forbidden {
		prefix, tree := strings.CutSuffix(f.imports, "/...")
		hit := what == f.imports || tree && strings.HasPrefix(what, prefix+"/")
		if hit && !slices.Contains(f.but, name) {
			reasons = append(reasons, f.reason)
		}
	}
	first, _, _ := strings.Cut(what, "/")
	if _, own := ours(what); own || !strings.Contains(first, ".") {
		return reasons
	}
	for m, d := range dependencies {
		if what == m || strings.HasPrefix(what, m+"/") {
			if !slices.Contains(d.by, name) {
				reasons = append(reasons, fmt.Sprintf("%s is only for %s (%s)", m, strings.Join(d.by, ", "), d.why))
			}
			return reasons
		}
	}
	return append(reasons, "a new dependency needs a line with its reason in internal/structure_test.go")
}

// The rules of this file can fail.
func TestComplaints(t *testing.T) {
	for _, c := range []struct {
		name, what string
		want       int
	}{
		{"raft", "net", 1}, {"config", "net", 0}, {"raft", "github.com/twmb/franz-go/pkg/kgo", 2}, {"cli", "github.com/twmb/franz-go/pkg/kgo", 0},
		{"record", "github.com/klauspost/compress/zstd", 0}, {"raft", "github.com/klauspost/compress/zstd", 1}, {"raft", "example.com/new", 1}, {"raft", "fmt", 0},
	} {
		if got := complaints(c.name, c.what); len(got) != c.want {
			t.Errorf("%s imports %s: %v", c.name, c.what, got)
		}
	}
	may := parsePicture(t)
	for _, c := range []struct {
		upper, lower string
		want         bool
	}{
		{"raft", "storage", true}, {"storage", "raft", false}, {"raft", "uuid", true}, {"image", "controller", false}, {"replica", "broker", false}, {"/cmd/ottla", "uuid", true},
	} {
		if may[c.upper][c.lower] != c.want {
			t.Errorf("%s may import %s: %t", c.upper, c.lower, !c.want)
		}
	}
}

func isCore(name string) bool {
	return slices.ContainsFunc(cores, func(c string) bool { return name == c || strings.HasPrefix(name, c+"/") })
}

// ours is the name in the picture of an import path of this module.
func ours(importPath string) (string, bool) {
	if importPath != module && !strings.HasPrefix(importPath, module+"/") {
		return "", false
	}
	return nameOf(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")), true
}

func nameOf(dir string) string {
	if inner, ok := strings.CutPrefix(dir, "internal/"); ok {
		return inner
	}
	return "/" + dir
}

// parsePicture gives, for each package, what it may import: all that is below it.
func parsePicture(t *testing.T) map[string]map[string]bool {
	t.Helper()
	var lines []string
	for line := range strings.Lines(picture) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	may := map[string]map[string]bool{}
	for rule := range strings.SplitSeq(strings.Join(lines, " "), ";") {
		levels := strings.Split(rule, "<")
		for i := 1; i < len(levels); i++ {
			for _, upper := range names(levels[i]) {
				if may[upper] == nil {
					may[upper] = map[string]bool{}
				}
				for _, lower := range names(levels[i-1]) {
					if lower == "NONE" {
						continue
					}
					if may[lower] == nil {
						t.Fatalf("the picture uses %q before it says what that may import", lower)
					}
					may[upper][lower] = true
					for below := range may[lower] {
						may[upper][below] = true
					}
				}
				if may[upper][upper] {
					t.Fatalf("the picture lets %q import itself", upper)
				}
			}
		}
	}
	return may
}

func names(list string) []string {
	var out []string
	for n := range strings.SplitSeq(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// load reads all packages of the module.
func load(t *testing.T) []*source {
	t.Helper()
	root := ".."
	packages := map[string]*source{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (base == "testdata" || base == "tools" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		p := packages[dir]
		if p == nil {
			p = &source{name: nameOf(dir), dir: dir, imports: map[string][]string{}}
			packages[dir] = p
		}
		return p.add(name, filepath.ToSlash(rel))
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 20 {
		t.Fatalf("only %d packages found", len(packages))
	}
	delete(packages, "internal") // this test
	var all []*source
	for _, p := range packages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *source) int { return strings.Compare(a.dir, b.dir) })
	return all
}

func (p *source) add(name, rel string) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.doc = p.doc || f.Doc != nil && len(strings.TrimSpace(f.Doc.Text())) > 20
	if strings.HasSuffix(rel, "_test.go") {
		return nil
	}
	for _, i := range f.Imports {
		what, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		p.imports[what] = append(p.imports[what], rel)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			p.threads = append(p.threads, fmt.Sprintf("%s:%d", rel, files.Position(n.Pos()).Line))
		}
		return true
	})
	return nil
}
