package servertest

import (
	"bufio"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// JVM is one JVM in which Kafka's command line tools run one after the other, and its servers, if a test starts some. What it saves is the
// start of a JVM for each call. Not for several goroutines at once.
type JVM struct {
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *watchedLog
}

// Output is what a tool left behind.
type Output struct {
	Code     int
	Out, Err string
}

// StartJVM starts the JVM; it ends with the test.
func StartJVM(t testing.TB) *JVM {
	t.Helper()
	config := filepath.Join(t.TempDir(), "log4j2.yaml")
	quiet := strings.NewReplacer("name: STDOUT", "name: STDOUT\n      target: SYSTEM_ERR", "level: INFO", "level: ERROR").Replace(log4j)
	if err := os.WriteFile(config, []byte(quiet), 0o644); err != nil {
		t.Fatal(err)
	}
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("java", "-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile="+config,
		"-cp", Libs(t)+"/*", filepath.Join(filepath.Dir(here), "Tools.java"))
	j := &JVM{stderr: newWatchedLog()}
	cmd.Stderr = j.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if j.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j.out = bufio.NewReader(out)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the JVM:\n%s", tail(j.stderr.text(), 40))
		}
	})
	return j
}

// Run runs the main method of a class as a process of its own would, up to its exit.
func (j *JVM) Run(t testing.TB, class string, args ...string) Output {
	t.Helper()
	return j.ask(t, "run", append([]string{"", class}, args...))
}

// StartKafka runs the server of a configuration in the JVM; it is back when that serves clients.
func (j *JVM) StartKafka(t testing.TB, c *Cluster) {
	t.Helper()
	if o := j.ask(t, "start", []string{c.Properties}); o.Code != 0 {
		t.Fatalf("start %s: %s", c.Properties, o.Err)
	}
}

func (j *JVM) ask(t testing.TB, verb string, words []string) Output {
	t.Helper()
	line := verb
	for _, w := range words {
		line += " -" + base64.StdEncoding.EncodeToString([]byte(w)) // never an empty word
	}
	if _, err := io.WriteString(j.in, line+"\n"); err != nil {
		t.Fatalf("ask the JVM: %v\n%s", err, tail(j.stderr.text(), 40))
	}
	answer, err := j.out.ReadString('\n')
	fields := strings.Fields(answer)
	if err != nil || len(fields) != 3 {
		t.Fatalf("the JVM answered %q (%v)\n%s", answer, err, tail(j.stderr.text(), 40))
	}
	var o Output
	if o.Code, err = strconv.Atoi(fields[0]); err != nil {
		t.Fatalf("the JVM answered %q", answer)
	}
	for i, to := range []*string{&o.Out, &o.Err} {
		text, err := base64.StdEncoding.DecodeString(fields[1+i][1:])
		if err != nil {
			t.Fatalf("the JVM answered %q: %v", answer, err)
		}
		*to = string(text)
	}
	return o
}
