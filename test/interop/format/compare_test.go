//go:build interop

package format

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// program is one of the two that are compared.
type program interface {
	// storage runs the storage tool, verify what a node does with the folders of the configuration in dir.
	storage(t *testing.T, args []string) answer
	verify(t *testing.T, dir string) answer
}

type answer struct {
	code     int
	out, err string
}

// kafkaJudge is Apache Kafka, in one process for all questions.
type kafkaJudge struct {
	to   io.WriteCloser
	from *bufio.Scanner
}

func newKafkaJudge(t *testing.T) *kafkaJudge {
	t.Helper()
	cmd := exec.Command("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", servertest.Libs(t)+"/*", "Judge.java")
	to, err1 := cmd.StdinPipe()
	from, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = to.Close()
		_ = cmd.Wait()
	})
	return &kafkaJudge{to, bufio.NewScanner(from)}
}

func (k *kafkaJudge) storage(t *testing.T, args []string) answer {
	if len(args) == 0 {
		args = []string{""}
	}
	return k.ask(t, append([]string{""}, args...)...)
}

func (k *kafkaJudge) verify(t *testing.T, dir string) answer { return k.ask(t, dir, "verify") }

func (k *kafkaJudge) ask(t *testing.T, words ...string) answer {
	t.Helper()
	if _, err := fmt.Fprintln(k.to, strings.Join(words, "\t")); err != nil {
		t.Fatal(err)
	}
	var a answer
	for k.from.Scan() {
		kind, text, _ := strings.Cut(k.from.Text(), ":")
		switch kind {
		case "out":
			a.out += text + "\n"
		case "err":
			a.err += text + "\n"
		case "exit":
			if _, err := fmt.Sscan(text, &a.code); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatalf("no answer to %q", words)
	return a
}

// ottla is ours.
type ottla struct{ tool string }

func newOttla(t *testing.T) ottla {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "kafka-storage.sh")
	if err := os.Symlink(servertest.Binary(t), tool); err != nil {
		t.Fatal(err)
	}
	return ottla{tool}
}

func (o ottla) storage(t *testing.T, args []string) answer {
	t.Helper()
	var out, err strings.Builder
	cmd := exec.Command(o.tool, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

func (o ottla) verify(t *testing.T, dir string) answer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "server.properties"))
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := config.ParseProperties("", text)
	cfg, err := config.New(entries)
	if err == nil {
		_, err = format.Verify(real.New(real.Options{}), cfg)
	}
	if err != nil {
		return answer{1, "", err.Error() + "\n"}
	}
	return answer{}
}

const configs = `
combined
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER

controller
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER

broker
process.roles=broker
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
`

// story is a case in one program's folder.
type story struct {
	t    *testing.T
	p    program
	dir  string
	text strings.Builder // what happened
}

func newStory(t *testing.T, p program) *story {
	t.Helper()
	dir, err := os.MkdirTemp("", "format") // not t.TempDir: there may be a comma in the name, which log.dirs does not take
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &story{t: t, p: p, dir: dir}
}

// do carries out one line.
func (s *story) do(line string) {
	s.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.ReplaceAll(rest, "$D", s.dir)
	properties := filepath.Join(s.dir, "server.properties")
	switch verb {
	case "config":
		_, text, _ := strings.Cut(configs, "\n"+rest+"\n")
		text, _, _ = strings.Cut(text, "\n\n")
		s.write(properties, text+"\n")
	case "set":
		old, err := os.ReadFile(properties)
		if err != nil {
			s.t.Fatal(err)
		}
		s.write(properties, string(old)+rest+"\n")
	case "file":
		name, text, _ := strings.Cut(rest, " ")
		s.write(filepath.Join(s.dir, name), strings.ReplaceAll(text, `\n`, "\n"))
	case "mkdir":
		if err := os.MkdirAll(filepath.Join(s.dir, rest), 0o755); err != nil {
			s.t.Fatal(err)
		}
	case "run":
		s.tell(line, s.p.storage(s.t, splitWords(strings.ReplaceAll(rest, "CONF", "-c "+properties))))
	case "verify":
		s.tell(line, s.p.verify(s.t, s.dir))
	default:
		s.t.Fatalf("cases.txt: %s", line)
	}
}

func (s *story) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

var (
	stackTrace = regexp.MustCompile(`(?m)^(\s+at |\s+\.\.\. |Caused by: |java\.\S+: ).*\n`)
	directory  = regexp.MustCompile(`directory\.id=[\w-]{22}`)
	secrets    = regexp.MustCompile(`(salt|storedKey|serverKey)=\[[^]]*\]`)
	usageError = regexp.MustCompile(`(?s)^.*kafka-storage:\s+error:\s+(.*)$`)
	formatted  = regexp.MustCompile(`(?m)(^Formatting .*\n)+`)
	already    = regexp.MustCompile(`Log directory \S+ is already`) // any of those that are
	badID      = regexp.MustCompile(`(Unable to read directory\.id as a Uuid:).*`)
)

// tell notes an answer without what must differ, what is only Java's, and the layout of the help.
func (s *story) tell(line string, a answer) {
	clean := func(text string) string {
		text = strings.ReplaceAll(text, s.dir, "$D")
		text = stackTrace.ReplaceAllString(text, "")
		text = directory.ReplaceAllString(text, "directory.id=ID")
		text = secrets.ReplaceAllString(text, "$1=[hidden]")
		text = badID.ReplaceAllString(text, "$1")
		text = strings.ReplaceAll(text, "`kafka-storage.sh`", "`ottla storage format`")
		if m := usageError.FindStringSubmatch(text); m != nil {
			text = strings.Join(strings.Fields(m[1]), "") + "\n"
		}
		text = already.ReplaceAllString(text, "Log directory … is already")
		text = formatted.ReplaceAllStringFunc(text, func(list string) string { // Kafka takes them as a hash table has them
			lines := strings.SplitAfter(list, "\n")
			slices.Sort(lines)
			return strings.Join(lines, "")
		})
		return regexp.MustCompile(`\n+`).ReplaceAllString(text, "\n")
	}
	err := clean(a.err)
	if line == "verify" && err != "" { // ours adds why a file cannot be read
		err, _, _ = strings.Cut(err, "\n")
		err, _, _ = strings.Cut(err, " read $D")
		err += "\n"
	}
	fmt.Fprintf(&s.text, "> %s\n%s%s[%d]\n%s", line, clean(a.out), err, a.code, s.files())
}

// files lists what is there.
func (s *story) files() string {
	var b strings.Builder
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "server.properties" {
			return err
		}
		info, err := e.Info()
		name, _ := filepath.Rel(s.dir, path)
		fmt.Fprintf(&b, "%s %s", info.Mode(), name)
		if strings.HasSuffix(name, ".checkpoint") {
			fmt.Fprintf(&b, " %d bytes", info.Size())
		}
		b.WriteByte('\n')
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

// splitWords cuts a line at blanks that are not between single quotes.
func splitWords(line string) []string {
	var words []string
	word, inWord, quoted := "", false, false
	for _, c := range line + " " {
		switch {
		case c == '\'':
			quoted, inWord = !quoted, true
		case c == ' ' && !quoted:
			if inWord {
				words = append(words, word)
			}
			word, inWord = "", false
		default:
			word, inWord = word+string(c), true
		}
	}
	return words
}

func TestStorageTool(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	kafka, ours := newKafkaJudge(t), newOttla(t)
	for _, c := range strings.Split(string(text), "\ncase ")[1:] {
		title, lines, _ := strings.Cut(c, "\n")
		t.Run(title, func(t *testing.T) {
			a, b := newStory(t, kafka), newStory(t, ours)
			for line := range strings.Lines(lines) {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					a.do(line)
					b.do(line)
				}
			}
			if diff := cmp.Diff(strings.Split(a.text.String(), "\n"), strings.Split(b.text.String(), "\n")); diff != "" {
				t.Errorf("Kafka's (-) and ours (+):\n%s", diff)
			}
			compareSnapshots(t, a.dir, b.dir)
		})
	}
}
