package config

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write used.txt anew")

// The file says which settings the code looks at.
func TestUsedSettings(t *testing.T) {
	quoted := regexp.MustCompile(`"([a-z][a-z.]+)"`)
	used := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go") ||
			!strings.HasPrefix(path, "../../internal/") || strings.HasPrefix(path, "../../internal/cli/") || strings.HasSuffix(path, "handle_describe_configs.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			key := m[1]
			if Lookup(ScopeNode, key) != nil {
				used[key] = true
			}
			if Lookup(ScopeTopic, key) != nil {
				for _, s := range TopicSynonyms(key) {
					used[s.NodeKey] = true
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range used {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	text := strings.Join(keys, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile("used.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text != usedText && !*rewrite {
		t.Errorf("used.txt is outdated: go test ./internal/config -run UsedSettings -rewrite")
	}
}

func TestUnusedSettings(t *testing.T) {
	n, err := New([]Entry{
		{Key: "process.roles", Value: "broker"}, {Key: "node.id", Value: "1"}, {Key: "controller.quorum.bootstrap.servers", Value: "a:1"},
		{Key: "controller.listener.names", Value: "C"}, {Key: "log.retention.hours", Value: "3"}, {Key: "num.io.threads", Value: "8"}, {Key: "not.kafkas", Value: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Unused(); !slices.Equal(got, []string{"num.io.threads"}) {
		t.Errorf("unused: %v", got)
	}
}
