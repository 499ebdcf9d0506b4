package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func main() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ottla": main, "kafka-topics.sh": main, "kafka-metadata-quorum.sh": main, "kafka-storage.sh": main})
}

// The stories in testdata/script show the tools as a user meets them.
func TestScripts(t *testing.T) {
	dump, err := filepath.Abs("testdata/dump")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// envsubst puts the values of variables into files.
			"envsubst": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, name := range args {
					ts.Check(os.WriteFile(ts.MkAbs(name), []byte(os.Expand(ts.ReadFile(name), ts.Getenv)), 0o644))
				}
			},
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("DUMP", dump)
			for _, name := range []string{"PORT", "CONTROLLER_PORT", "OTHER_PORT"} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				_, port, _ := net.SplitHostPort(l.Addr().String())
				env.Setenv(name, port)
				env.Defer(func() { l.Close() })
				if name != "OTHER_PORT" { // which is in use while the story runs
					l.Close()
				}
			}
			return nil
		},
	})
}
