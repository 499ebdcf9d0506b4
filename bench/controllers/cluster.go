package main

import (
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

// kind is how controllers are formatted and started.
type kind struct {
	name    string
	format  func(properties, voters string) []string
	command func(properties string) []string
}

const clusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

func newOttla(dir string) (kind, error) {
	binary := filepath.Join(dir, "ottla")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/ottla")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return kind{
		name: "Ottla",
		format: func(properties, voters string) []string {
			return []string{binary, "storage", "format", "-t", clusterID, "-c", properties, "--initial-controllers", voters}
		},
		command: func(properties string) []string { return []string{binary, "server", properties} },
	}, cmd.Run()
}

func newKafka(dir, libs string) kind {
	quiet := filepath.Join(dir, "log4j2.yaml")
	_ = os.WriteFile(quiet, []byte("Configuration:\n  Loggers:\n    Root:\n      level: ERROR\n"), 0o644)
	java := func(heap ...string) []string {
		return slices.Concat([]string{"java"}, heap, []string{"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dlog4j2.configurationFile=" + quiet, "-cp", libs + "/*"})
	}
	return kind{
		name: "Kafka",
		format: func(properties, voters string) []string {
			return append(java("-Xmx256m"), "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", properties, "--initial-controllers", voters)
		},
		command: func(properties string) []string { return append(java("-Xms1g", "-Xmx1g"), "kafka.Kafka", properties) }, // as kafka-server-start.sh
	}
}

// process is a controller.
type process struct {
	id         int32
	addr       string
	properties string
	kind       kind
	cmd        *exec.Cmd
}

func (p *process) start() error {
	line := p.kind.command(p.properties)
	p.cmd = exec.Command(line[0], line[1:]...)
	return p.cmd.Start()
}

func (p *process) end(how syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(how)
	_ = p.cmd.Wait()
	p.cmd = nil
}

// residentMB is the resident memory of the process.
func (p *process) residentMB() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	return kb / 1024, err
}

// start formats and starts three controllers, and waits until one of them is active.
func (k kind) start(dir string) (*cluster, error) {
	c := &cluster{}
	var voters, addresses []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		p := &process{id: int32(101 + i), addr: l.Addr().String(), kind: k, properties: filepath.Join(dir, fmt.Sprintf("%s%d.properties", k.name, i))}
		c.processes = append(c.processes, p)
		addresses = append(addresses, p.addr)
		voters = append(voters, fmt.Sprintf("%d@%s:AAAAAAAAAAAAAAAAAAAA%02d", p.id, p.addr, 10+i))
		_ = l.Close()
	}
	for _, p := range c.processes {
		text := fmt.Sprintf("process.roles=controller\nnode.id=%d\nlisteners=CONTROLLER://%s\ncontroller.listener.names=CONTROLLER\nlog.dirs=%s\n"+
			"listener.security.protocol.map=CONTROLLER:PLAINTEXT\ncontroller.quorum.bootstrap.servers=%s\n",
			p.id, p.addr, strings.TrimSuffix(p.properties, ".properties"), strings.Join(addresses, ","))
		if err := os.WriteFile(p.properties, []byte(text), 0o644); err != nil {
			return nil, err
		}
		line := k.format(p.properties, strings.Join(voters, ","))
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format: %w\n%s", err, out)
		}
	}
	for _, p := range c.processes {
		if err := p.start(); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, c.await(time.Minute)
}

func (c *cluster) stop() {
	for _, p := range c.processes {
		p.end(syscall.SIGTERM)
	}
}
