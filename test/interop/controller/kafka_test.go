//go:build interop

package controller

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// kafkaNode is a real node, broker and controller, and a connection to its client listener.
type kafkaNode struct {
	t    *testing.T
	dir  string
	conn net.Conn
	next int32
}

const clusterID = "Zm9vYmFyYmF6cXV4MTIzNA"

// settings are both nodes' settings that what is asked depends on.
var settings = []string{
	"process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER",
	"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
	"num.partitions=2", "default.replication.factor=1", "log.retention.hours=100", "log.segment.bytes=2000000",
	"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
}

func java(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	libs := os.Getenv("KAFKA_LIBS")
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka-clients-*.jar")); len(jars) != 1 {
		t.Fatalf("KAFKA_LIBS=%s has %d kafka-clients jars, want 1", libs, len(jars))
	}
	return exec.Command("java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-cp", libs + "/*"}, args...)...)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// startKafka formats and starts a real node and connects to it.
func startKafka(t *testing.T, extra ...string) *kafkaNode {
	t.Helper()
	dir := t.TempDir()
	client, quorum := freePort(t), freePort(t)
	file := filepath.Join(dir, "server.properties")
	text := strings.Join(append(append(settings, extra...),
		fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", quorum),
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", client, quorum),
		"log.dirs="+filepath.Join(dir, "data")), "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := java(t, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", file, "--standalone").CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	server := java(t, "kafka.Kafka", file)
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() && testing.Verbose() {
			t.Log(log.String())
		}
	})
	k := &kafkaNode{t: t, dir: dir}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", client))
		if err == nil {
			k.conn = conn
			req := protocol.NewCreateTopicsRequest()
			req.ValidateOnly = true
			req.Topics = []protocol.CreateTopicsRequestCreatableTopic{{Name: "ready", NumPartitions: 1, ReplicationFactor: 1}}
			resp, tried := k.try(req, 7)
			if tried == nil && resp.(*protocol.CreateTopicsResponse).Topics[0].ErrorCode == 0 {
				return k
			}
			err = tried
			_ = conn.Close()
		}
		if time.Now().After(deadline) {
			t.Fatalf("Kafka does not answer: %v\n%s", err, log.String())
		}
		<-time.After(200 * time.Millisecond) // another process: there is nothing to wait for but time
	}
}

// ask sends a request and returns the answer.
func (k *kafkaNode) ask(req protocol.Request, version int16) protocol.Response {
	k.t.Helper()
	resp, err := k.try(req, version)
	if err != nil {
		k.t.Fatal(err)
	}
	return resp
}

func (k *kafkaNode) try(req protocol.Request, version int16) (protocol.Response, error) {
	key := req.APIKey()
	k.next++
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId = key, version, k.next
	b, err := h.Encode(make([]byte, 4), protocol.RequestHeaderVersion(key, version))
	if err == nil {
		b, err = req.Encode(b, version)
	}
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_ = k.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := k.conn.Write(b); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(k.conn, size[:]); err != nil {
		return nil, err
	}
	b = make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(k.conn, b); err != nil {
		return nil, err
	}
	d := wire.NewDecoder(b)
	rh := protocol.NewResponseHeader()
	if err := rh.Decode(d, protocol.ResponseHeaderVersion(key, version)); err != nil {
		return nil, err
	}
	resp := protocol.NewResponse(key)
	return resp, resp.Decode(d, version)
}
