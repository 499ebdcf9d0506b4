package examples

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step is a command that README.md shows, and what it says the command prints.
type step struct {
	command string
	output  []string
}

// TestTour takes the tour of README.md: each command prints what stands there, ids, times and numbers aside.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := readTour(string(text))
	if len(steps) < 12 {
		t.Fatalf("only %d commands were found", len(steps))
	}
	dir := t.TempDir()
	installOttla(t, dir)
	walk(t, dir, steps)
	for i, s := range steps {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out.%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		want := s.output
		lines := strings.Split(strings.TrimRight(string(got), "\n"), "\n")
		if strings.HasPrefix(s.command, "ls ") { // in columns at a terminal
			want, lines = words(want), words(lines)
		}
		if diff := cmp.Diff(constant(want), constant(lines)); diff != "" {
			t.Errorf("$ %s\n(- README.md, + here)\n%s", s.command, diff)
		}
	}
}

// readTour reads the commands below the headline of the tour: those in indented lines, and those behind a $ with their output.
func readTour(text string) (steps []step) {
	_, text, _ = strings.Cut(text, "## A tour")
	text, _, _ = strings.Cut(text, "\n## ")
	console := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		indented, isIndented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			console = !console
		case console && isCommand:
			steps = append(steps, step{command: command})
		case console:
			last := &steps[len(steps)-1]
			last.output = append(last.output, line)
		case isIndented && !strings.Contains(indented, "go build"): // which installOttla has done
			steps = append(steps, step{command: indented})
		}
	}
	return steps
}

// installOttla puts into dir what the tour calls ./ottla. It listens on free ports instead of 9092 and 9093.
func installOttla(t *testing.T, dir string) {
	t.Helper()
	binary := filepath.Join(dir, "binary")
	build := exec.Command("go", "build", "-o", binary, "../cmd/ottla")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	broker, controller := freePorts(t)
	script := fmt.Sprintf(`#!/bin/sh
case "$1" in
server) shift; exec %[1]s server --override listeners=PLAINTEXT://%[2]s,CONTROLLER://%[3]s --override controller.quorum.bootstrap.servers=%[3]s "$@" ;;
metadata-quorum) shift; exec %[1]s metadata-quorum --bootstrap-server %[2]s "$@" ;;
dump-log) exec %[1]s "$@" ;;
*) exec %[1]s "$@" --bootstrap-server %[2]s ;;
esac
`, binary, broker, controller)
	if err := os.WriteFile(filepath.Join(dir, "ottla"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func freePorts(t *testing.T) (broker, controller string) {
	t.Helper()
	var addresses [2]string
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // together, so that they differ
		addresses[i] = l.Addr().String()
	}
	return addresses[0], addresses[1]
}

// walk runs the commands one after the other in one shell; the output of each goes to a file of its own.
func walk(t *testing.T, dir string, steps []step) {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -m\ntrap 'kill -9 $(jobs -p)' EXIT\n")
	for i, s := range steps {
		if folder, ok := strings.CutPrefix(s.command, "ls "); ok { // leader epochs are written behind
			fmt.Fprintf(&script, "until [ -e %s/leader-epoch-checkpoint ]; do sleep 0.1; done\n", folder)
		}
		fmt.Fprintf(&script, "{ %s\n} >out.%d 2>&1\n", s.command, i)
		if job, ok := strings.CutPrefix(s.command, "kill -9 "); ok { // it holds folder and ports until it is gone
			fmt.Fprintf(&script, "wait %s\n", job)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Dir, shell.WaitDelay = dir, time.Second
	if out, err := shell.CombinedOutput(); ctx.Err() != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
}

var changing = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`.*: line \d+: .*Killed .*`), ""}, // the shell speaks of its job
	{regexp.MustCompile(`(localhost|127\.0\.0\.1):\d+`), "HOST"},
	{regexp.MustCompile(`\b[\w-]{22}\b`), "ID"},
	{regexp.MustCompile(`\d+`), "N"},
}

// constant is what the same command prints on any day.
func constant(lines []string) (out []string) {
	for _, line := range lines {
		for _, c := range changing {
			line = c.what.ReplaceAllString(line, c.to)
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

func words(lines []string) []string {
	w := strings.Fields(strings.Join(lines, " "))
	slices.Sort(w)
	return w
}
