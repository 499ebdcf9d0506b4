package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cluster is the configuration and the folders of a node, which a server can be started on again and again.
type Cluster struct {
	Dir        string // of everything
	Properties string // path of server.properties
	Data       string // log.dirs
	Bootstrap  string // host:port
	Controller string // host:port of the controllers' listener
	ID         int32
	how        []string // to format it: the last arguments
}

// ClusterID is the id of every cluster here.
const ClusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

// New makes a configuration on free ports; nothing is formatted. Settings are added to it.
func New(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	ports := FreePorts(t, 2)
	c := &Cluster{Dir: dir, Properties: filepath.Join(dir, "server.properties"), Data: filepath.Join(dir, "data"), Bootstrap: fmt.Sprintf("127.0.0.1:%d", ports[0]), Controller: fmt.Sprintf("127.0.0.1:%d", ports[1]), ID: 1, how: []string{"--standalone"}}
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.num.partitions=5
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
%[4]s
`, ports[0], ports[1], c.Data, strings.Join(settings, "\n"))
	if err := os.WriteFile(c.Properties, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

// Set adds settings to the configuration; the last one of a key counts.
func (c *Cluster) Set(t testing.TB, settings ...string) {
	t.Helper()
	f, err := os.OpenFile(c.Properties, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FreePorts finds ports that nobody listens on.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// Format formats the folders with our tool.
func (c *Cluster) Format(t testing.TB) {
	t.Helper()
	if out, err := Ottla(t, append([]string{"storage", "format", "-t", ClusterID, "-c", c.Properties}, c.how...)...); err != nil {
		t.Fatalf("storage format: %v\n%s", err, out)
	}
}

// FormatByKafka formats the folders with Kafka's tool.
func (c *Cluster) FormatByKafka(t testing.TB) {
	t.Helper()
	Kafka(t, "kafka.tools.StorageTool", append([]string{"format", "-t", ClusterID, "-c", c.Properties}, c.how...)...)
}

// built is the folder of the binary, once there is one.
var built string

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ottla-interop")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "ottla")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/ottla")
	_, here, _, _ := runtime.Caller(0)
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..", "..") // the tests may be of another module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ottla: %w\n%s", err, out)
	}
	return path, nil
})

// Binary is the path of ottla, built for this run.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is the TestMain of packages that use Binary: it takes away what was built.
func Main(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// Server is a process.
type Server struct {
	cmd  *exec.Cmd
	log  *watchedLog
	done chan struct{}
}

// Started is what a server says when it serves.
const Started = "Kafka Server started"

// Start runs Ottla and waits until it serves clients.
func (c *Cluster) Start(t testing.TB) *Server {
	t.Helper()
	s := c.Launch(t)
	s.WaitFor(t, Started)
	return s
}

// Launch is Start that does not wait.
func (c *Cluster) Launch(t testing.TB) *Server {
	t.Helper()
	return launch(t, exec.Command(Binary(t), "server", c.Properties))
}

// StartKafka runs Apache Kafka and waits until it serves clients.
func (c *Cluster) StartKafka(t testing.TB) *Server {
	t.Helper()
	s := c.LaunchKafka(t)
	s.WaitFor(t, Started)
	return s
}

// LaunchKafka is StartKafka that does not wait.
func (c *Cluster) LaunchKafka(t testing.TB) *Server {
	t.Helper()
	config := filepath.Join(c.Dir, "log4j2.yaml")
	if err := os.WriteFile(config, []byte(log4j), 0o644); err != nil {
		t.Fatal(err)
	}
	return launch(t, exec.Command("java", "-Xmx512m", "-Dlog4j2.configurationFile="+config, "-cp", Libs(t)+"/*", "kafka.Kafka", c.Properties))
}

const log4j = `Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: STDOUT
`

func launch(t testing.TB, cmd *exec.Cmd) *Server {
	t.Helper()
	s := &Server{cmd: cmd, log: newWatchedLog(), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	// Of the environment Kafka's settings are read as well.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KAFKA_") })
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		if s.Running() {
			s.Kill()
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(cmd.Path), tail(s.Log(), 100))
		}
	})
	return s
}

// WaitFor waits until the log has a text.
func (s *Server) WaitFor(t testing.TB, text string) {
	t.Helper()
	select {
	case <-s.log.has(text):
	case <-s.done:
		t.Fatalf("the server ended (%s) before it said %q:\n%s", s.cmd.ProcessState, text, tail(s.Log(), 60))
	case <-time.After(90 * time.Second):
		t.Fatalf("the server did not say %q:\n%s", text, tail(s.Log(), 60))
	}
}

// PID is the id of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the process wrote so far.
func (s *Server) Log() string { return s.log.text() }

// Running reports whether the process is there.
func (s *Server) Running() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Stop ends the process in order.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(60 * time.Second):
		s.Kill()
		t.Fatalf("the server did not stop:\n%s", tail(s.Log(), 60))
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("the server exited with %d after SIGTERM, not 143", code)
	}
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// Kill ends the process as kill -9 does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// watchedLog keeps what a process writes, and tells when a text comes.
type watchedLog struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	waiters map[string]chan struct{}
}

func newWatchedLog() *watchedLog { return &watchedLog{waiters: map[string]chan struct{}{}} }

func (w *watchedLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	w.tell()
	return len(p), nil
}

// tell wakes those whose text is there. mu is held.
func (w *watchedLog) tell() {
	for text, ch := range w.waiters {
		if bytes.Contains(w.buf.Bytes(), []byte(text)) {
			close(ch)
			delete(w.waiters, text)
		}
	}
}

func (w *watchedLog) has(text string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := w.waiters[text]
	if ch == nil {
		ch = make(chan struct{})
		w.waiters[text] = ch
	}
	w.tell()
	return ch
}

func (w *watchedLog) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
