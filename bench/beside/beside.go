// Package beside starts nodes of Ottla and of Apache Kafka 4.4.0 the same way, and measures their processes.
package beside

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

// Kind is how nodes are formatted and started.
type Kind struct {
	Name    string
	format  func(args ...string) []string
	command func(properties string) []string
}

// ClusterID is the id of every cluster that is measured.
const ClusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

// Ottla builds the binary into a folder.
func Ottla(dir string) (*Kind, error) {
	binary := filepath.Join(dir, "ottla")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/ottla")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return &Kind{
		Name:    "Ottla",
		format:  func(args ...string) []string { return append([]string{binary, "storage", "format"}, args...) },
		command: func(properties string) []string { return []string{binary, "server", properties} },
	}, cmd.Run()
}

// Kafka is run from a folder of jars, with the heap and the collector that its start script gives it.
func Kafka(dir, libs string) *Kind {
	quiet := filepath.Join(dir, "log4j2.yaml")
	_ = os.WriteFile(quiet, []byte("Configuration:\n  Loggers:\n    Root:\n      level: ERROR\n"), 0o644)
	java := func(heap ...string) []string {
		return slices.Concat([]string{"java"}, heap, []string{"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dlog4j2.configurationFile=" + quiet, "-cp", libs + "/*"})
	}
	return &Kind{
		Name: "Kafka",
		format: func(args ...string) []string {
			return append(append(java("-Xmx256m"), "kafka.tools.StorageTool", "format"), args...)
		},
		command: func(properties string) []string { return append(java("-Xms1g", "-Xmx1g"), "kafka.Kafka", properties) },
	}
}

// Node is one process of a cluster, on a folder of its own.
type Node struct {
	ID   int32
	Addr string // host and port of its listener
	Data string // folder

	kind       *Kind
	properties string
	format     []string
	cmd        *exec.Cmd
}

// NewNode writes server.properties: settings, and the node's id and folder. format are more flags of storage format.
func (k *Kind) NewNode(dir string, id int32, addr string, settings []string, format ...string) (*Node, error) {
	base := filepath.Join(dir, fmt.Sprintf("%s-%d", k.Name, id))
	n := &Node{ID: id, Addr: addr, Data: base, kind: k, properties: base + ".properties"}
	n.format = append([]string{"-t", ClusterID, "-c", n.properties}, format...)
	lines := append([]string{fmt.Sprintf("node.id=%d", id), "log.dirs=" + n.Data}, settings...)
	return n, os.WriteFile(n.properties, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// Format empties the folder and formats it.
func (n *Node) Format() error {
	if err := os.RemoveAll(n.Data); err != nil {
		return err
	}
	line := n.kind.format(n.format...)
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("format: %w\n%s", err, out)
	}
	return nil
}

// Start starts the process.
func (n *Node) Start() error {
	line := n.kind.command(n.properties)
	n.cmd = exec.Command(line[0], line[1:]...)
	return n.cmd.Start()
}

// Signal sends a signal to the process.
func (n *Node) Signal(s syscall.Signal) error { return n.cmd.Process.Signal(s) }

// End sends a signal that ends the process and waits for its end.
func (n *Node) End(how syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(how)
	_ = n.cmd.Wait()
	n.cmd = nil
}

// ResidentMB is the resident memory of the process.
func (n *Node) ResidentMB() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	return kb / 1024, err
}

// CPU is the processor time, user and system, that the process has used.
func (n *Node) CPU() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100
}

// FreeAddrs are addresses of loopback that nobody listens on.
func FreeAddrs(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}
