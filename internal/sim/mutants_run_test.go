//go:build mutants

package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutants builds the simulator with each mutant and lets clusters run in it: one of them has to break. About ten minutes:
//
//	go test -tags mutants -run 'TestMutants$' -timeout 60m -v ./internal/sim
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			out, err := m.run(t, 1000)
			if err == nil {
				t.Fatal("1,000 clusters with it were found to be in order")
			}
			found := regexp.MustCompile(`seed \d+: .{0,120}`).FindString(out)
			if found == "" {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(found)
		})
	}
}

// run builds the tests with the mutant and plays clusters.
func (m mutant) run(t *testing.T, seeds int) (string, error) {
	original, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{changed: []byte(strings.Replace(string(text), m.old, m.new, 1)), overlay: replace} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-test.run", "TestClusterSeeds$", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("OTTLA_SIM_SEEDS=%d", seeds))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
