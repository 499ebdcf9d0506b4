package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFresh proves that the generated files are what the schemas say, and that none is left over.
func TestFresh(t *testing.T) {
	out, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	root := "../../.."
	for path, want := range out {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./...", path)
		}
	}
	for _, dir := range []string{"internal/protocol", "internal/metadata"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_gen.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("list %s: %d files, %v", dir, len(files), err)
		}
		for _, f := range files {
			rel, _ := filepath.Rel(root, f)
			if out[rel] == nil {
				t.Errorf("%s comes from no schema", rel)
			}
		}
	}
}
