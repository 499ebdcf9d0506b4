package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are what a newcomer reads first, relative to the root of the repository.
var pages = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "examples/01-ledger/README.md"}

var (
	// codePath is a file between backquotes, from the root or from internal/. A name without a folder speaks of any such file.
	codePath = regexp.MustCompile("`([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+\\.(?:go|md|txt|sh|tsv))`")
	link     = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// TestPagesNameWhatIsThere: files and links in the pages exist.
func TestPagesNameWhatIsThere(t *testing.T) {
	n := 0
	for _, page := range pages {
		text := readPage(t, page)
		for _, m := range codePath.FindAllStringSubmatch(text, -1) {
			n++
			if !there(m[1]) && !there("internal/"+m[1]) {
				t.Errorf("%s names %s, which is neither there nor in internal", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			n++
			if !there(filepath.Join(filepath.Dir(page), m[1])) {
				t.Errorf("%s has a link to %s, which is not there", page, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d paths were found in %v", n, pages)
	}
}

// TestTableOfPackages: ARCHITECTURE.md says of each package below internal what it owns, and of no other.
func TestTableOfPackages(t *testing.T) {
	table := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `internal/([a-z]+)` \\|").FindAllStringSubmatch(readPage(t, "ARCHITECTURE.md"), -1) {
		table[m[1]] = true
		if !there("internal/" + m[1]) {
			t.Errorf("ARCHITECTURE.md has a line for internal/%s, which is not there", m[1])
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !table[e.Name()] {
			t.Errorf("internal/%s has no line in the table of ARCHITECTURE.md", e.Name())
		}
	}
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func there(path string) bool {
	_, err := os.Stat(filepath.Join("..", filepath.FromSlash(path)))
	return err == nil
}
