package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is one of the two, on folders of its own.
type server struct {
	name       string
	properties string
	data       string
	addr       string
	format     []string // command lines
	command    []string
	listTool   []string

	cmd *exec.Cmd
}

func build(dir string) (string, error) {
	path := filepath.Join(dir, "ottla")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/ottla")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
}

func newOttla(dir, binary string) *server {
	s := &server{name: "Ottla"}
	s.configure(dir)
	s.format = []string{binary, "storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", s.properties, "--standalone"}
	s.command = []string{binary, "server", s.properties}
	s.listTool = []string{binary, "topics", "--bootstrap-server", s.addr, "--list"}
	return s
}

func newKafka(dir, libs string) *server {
	s := &server{name: "Kafka"}
	s.configure(dir)
	quiet := filepath.Join(dir, "log4j2.yaml")
	_ = os.WriteFile(quiet, []byte("Configuration:\n  Loggers:\n    Root:\n      level: ERROR\n"), 0o644)
	java := func(heap []string, args ...string) []string {
		return slices.Concat([]string{"java"}, heap, []string{"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dlog4j2.configurationFile=" + quiet, "-cp", libs + "/*"}, args)
	}
	tool := []string{"-Xmx256m"}
	s.format = java(tool, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", s.properties, "--standalone")
	s.command = java([]string{"-Xms1g", "-Xmx1g"}, "kafka.Kafka", s.properties) // as kafka-server-start.sh
	s.listTool = java(tool, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", s.addr, "--list")
	return s
}

// configure writes server.properties for free ports.
func (s *server) configure(dir string) {
	s.properties = filepath.Join(dir, s.name+".properties")
	s.data = filepath.Join(dir, s.name)
	var ports []int
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	s.addr = fmt.Sprintf("127.0.0.1:%d", ports[0])
	_ = os.WriteFile(s.properties, fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
`, ports[0], ports[1], s.data), 0o644)
}

// start formats the folder, starts the server and returns how long it took to answer Metadata.
func (s *server) start() (time.Duration, error) {
	_ = os.RemoveAll(s.data)
	if out, err := exec.Command(s.format[0], s.format[1:]...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("format: %w\n%s", err, out)
	}
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return 0, err
	}
	for time.Since(begin) < time.Minute {
		if metadataAnswers(s.addr) {
			return time.Since(begin), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, errors.New("no answer within a minute")
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.data)
}

// metadataAnswers asks for Metadata, version 1, without topics, and reports whether a broker is in the answer.
func metadataAnswers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	req := []byte{0, 0, 0, 17, 0, 3, 0, 1, 0, 0, 0, 1, 0, 3, 'b', 'm', 'k', 0, 0, 0, 0}
	if _, err := c.Write(req); err != nil {
		return false
	}
	var answer [12]byte
	n := 0
	for n < len(answer) {
		m, err := c.Read(answer[n:])
		if err != nil {
			return false
		}
		n += m
	}
	return answer[11] > 0 // number of brokers
}

// residentMB is the resident memory of the process.
func (s *server) residentMB() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// cpu is the processor time, user and system, that the process used.
func (s *server) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100
}

// list runs the tool that lists topics.
func (s *server) list() (time.Duration, error) {
	begin := time.Now()
	out, err := exec.Command(s.listTool[0], s.listTool[1:]...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("list topics: %w\n%s", err, out)
	}
	return time.Since(begin), nil
}
