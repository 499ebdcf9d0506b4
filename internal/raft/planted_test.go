package raft

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// plantedBug is an entry of testdata/planted/bugs.txt.
type plantedBug struct {
	name  string
	seeds int
	edits []plantedEdit
}

type plantedEdit struct{ file, old, fresh string }

func readPlantedBugs(t *testing.T) []plantedBug {
	text, err := os.ReadFile("testdata/planted/bugs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var bugs []plantedBug
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		body, inside := strings.CutPrefix(line, "\t")
		if name, ok := strings.CutPrefix(line, "bug "); ok {
			bugs = append(bugs, plantedBug{name: name})
		}
		if !inside {
			continue
		}
		b := &bugs[len(bugs)-1]
		n := len(b.edits)
		switch {
		case strings.HasPrefix(body, "seeds "):
			if b.seeds, err = strconv.Atoi(body[len("seeds "):]); err != nil {
				t.Fatal(err)
			}
		case strings.HasSuffix(body, ".go"):
			b.edits = append(b.edits, plantedEdit{file: body})
		case strings.HasPrefix(body, "-"):
			b.edits[n-1].old = body[1:]
		case strings.HasPrefix(body, "+"):
			b.edits[n-1].fresh = body[1:]
		}
	}
	return bugs
}

// plantedSources are the files of this package with all bugs in them, each waiting for its name.
func plantedSources(t *testing.T, bugs []plantedBug) map[string]string {
	sources := map[string]string{}
	for _, b := range bugs {
		for _, e := range b.edits {
			if sources[e.file] == "" {
				text, err := os.ReadFile(e.file)
				if err != nil {
					t.Fatal(err)
				}
				sources[e.file] = string(text)
			}
			if n := strings.Count(sources[e.file], e.old); n != 1 || !strings.Contains(e.fresh, strconv.Quote(b.name)) {
				t.Errorf("%s: %s has %d times: %s", b.name, e.file, n, e.old)
			}
			sources[e.file] = strings.Replace(sources[e.file], e.old, e.fresh, 1)
		}
	}
	return sources
}

// buildPlanted compiles the tests of this package with the bugs in place of the files that ship, which stay as they are.
func buildPlanted(t *testing.T, sources map[string]string) (binary string) {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("testdata/planted/planted.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	sources["planted.go"] = string(more)
	replace := map[string]string{}
	for name, text := range sources {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "planted.test")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build with planted bugs: %v\n%s", err, out)
	}
	return binary
}

var failedSeed = regexp.MustCompile(`(?m)seed (\d+): (.*)$`)

// The simulation finds every planted bug within its seeds, and nothing when none is asked for. To see one being found:
//
//	go test ./internal/raft -run TestPlantedBugs/vote-not-synced -v
func TestPlantedBugs(t *testing.T) {
	bugs := readPlantedBugs(t)
	if len(bugs) < 12 {
		t.Errorf("there are only %d bugs", len(bugs))
	}
	sources := plantedSources(t, bugs) // in a short run too: the bugs must still fit
	if testing.Short() || t.Failed() {
		return
	}
	binary := buildPlanted(t, sources)
	run := func(bug string, seeds int) (string, error) {
		cmd := exec.Command(binary, "-test.run", "^TestSimulation$", "-seeds", fmt.Sprint(seeds), "-events", "1")
		cmd.Env = append(os.Environ(), "OTTLA_PLANTED_BUG="+bug)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("", 30); err != nil {
		t.Fatalf("without a bug: %v\n%s", err, out)
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			out, err := run(b.name, b.seeds)
			found := failedSeed.FindAllStringSubmatch(out, -1)
			if err == nil || len(found) == 0 {
				t.Fatalf("%d seeds do not find it: %v\n%s", b.seeds, err, out)
			}
			last := found[len(found)-1]
			t.Logf("seed %s: %.200s", last[1], last[2])
		})
	}
}
