package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func main() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ottla": main, "kafka-topics.sh": main, "kafka-metadata-quorum.sh": main})
}

// The stories in testdata/script show the tools as a user meets them.
func TestScripts(t *testing.T) {
	dump, err := filepath.Abs("testdata/dump")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DUMP", dump)
			return nil
		},
	})
}
