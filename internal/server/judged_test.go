package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/broker"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
)

// To renew testdata/kafka.txt: run Apache Kafka 4.4.0 as node 1 with both roles, freshly formatted with cluster id
// AAAAAAAAAAAAAAAAAAAAAQ, and this test with -kafka BROKER,CONTROLLER (addresses of its listeners).
var kafka = flag.String("kafka", "", "addresses of an Apache Kafka, broker and controller, whose answers become testdata/kafka.txt")

const (
	judgedFile    = "testdata/kafka.txt"
	judgedCluster = "AAAAAAAAAAAAAAAAAAAAAQ"
)

// probe is what somebody sends after connecting.
type probe struct {
	name string
	send []byte
	on   []Kind // nil: both kinds of listeners
}

// rawFrame is a request made by hand: header fields, and what follows them.
func rawFrame(key, version int16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return frame(append(append(b, 0, 0, 0, 7), rest...))
}

func askVersions(version int16, name, software string, cluster *string, node int32) []byte {
	req := protocol.NewApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterId, req.NodeId = name, software, cluster, node
	return reqFrame(req, version, 7, "x")
}

func probes() []probe {
	var out []probe
	add := func(name string, send []byte, on ...Kind) { out = append(out, probe{name, send, on}) }
	for v := int16(0); v <= 5; v++ {
		add(fmt.Sprintf("ApiVersions v%d", v), askVersions(v, "a-client", "1.0", nil, -1))
	}
	for _, v := range []int16{6, 99, 32767, -1, -32768} {
		add(fmt.Sprintf("ApiVersions v%d", v), rawFrame(18, v, 0, 1, 'x', 0, 2, 'a', 2, '1', 0))
	}
	for _, name := range []string{"", " x", "x y", "-x", "x-", "ü", "x.", "a.b-c", "x\n", "0"} {
		add(fmt.Sprintf("software name %q", name), askVersions(3, name, "1", nil, -1))
		add(fmt.Sprintf("software version %q", name), askVersions(4, "a", name, nil, -1))
	}
	right, wrong, empty := judgedCluster, "BAAAAAAAAAAAAAAAAAAAAQ", ""
	for _, c := range []struct {
		name    string
		cluster *string
	}{{"no cluster", nil}, {"right cluster", &right}, {"wrong cluster", &wrong}, {"empty cluster", &empty}} {
		for _, node := range []int32{-1, 1, 2, -2, 0} {
			add(fmt.Sprintf("ApiVersions v5 for %s, node %d", c.name, node), askVersions(5, "a", "1", c.cluster, node))
		}
	}
	add("ApiVersions v5 for the wrong cluster, bad software", askVersions(5, "-", "1", &wrong, 1))
	add("ApiVersions v4 names nobody", askVersions(4, "a", "1", &wrong, 2))

	// Headers.
	add("null client id", rawFrame(18, 3, 0xff, 0xff, 0, 2, 'a', 2, '1', 0))
	add("empty client id", rawFrame(18, 3, 0, 0, 0, 2, 'a', 2, '1', 0))
	add("client id of length -2", rawFrame(18, 3, 0xff, 0xfe, 0, 2, 'a', 2, '1', 0))
	add("client id of length -32768", rawFrame(18, 0, 0x80, 0))
	add("client id is not UTF-8", rawFrame(18, 3, 0, 2, 0xff, 0xfe, 0, 2, 'a', 2, '1', 0))
	add("client id too long", rawFrame(18, 3, 0x7f, 0xff, 'x'))
	add("unknown tag in the header", rawFrame(18, 3, 0, 1, 'x', 1, 9, 2, 'z', 'z', 2, 'a', 2, '1', 0))
	add("two tags in the header, not in order", rawFrame(18, 3, 0, 1, 'x', 2, 9, 1, 'z', 8, 1, 'z', 2, 'a', 2, '1', 0))
	add("the same tag twice in the header", rawFrame(18, 3, 0, 1, 'x', 2, 9, 1, 'z', 9, 1, 'z', 2, 'a', 2, '1', 0))
	add("a tag of the header is cut", rawFrame(18, 3, 0, 1, 'x', 1, 9, 100, 'z'))
	add("very many tags in the header", rawFrame(18, 3, 0, 1, 'x', 0xff, 0xff, 0xff, 0xff, 0x07))
	add("unknown tag in the body", rawFrame(18, 3, 0, 1, 'x', 0, 2, 'a', 2, '1', 1, 9, 2, 'z', 'z'))
	add("bytes behind the request", rawFrame(18, 3, 0, 1, 'x', 0, 2, 'a', 2, '1', 0, 1, 2, 3, 4, 5))
	add("bytes behind the request, v0", rawFrame(18, 0, 0, 1, 'x', 1, 2, 3, 4, 5))
	add("header without client id", rawFrame(18, 0))
	add("header cut after seven bytes", frame([]byte{0, 18, 0, 0, 0, 0, 0}))
	add("header cut after two bytes", frame([]byte{0, 18}))
	add("frame without bytes", frame(nil))

	// Bodies.
	add("body is missing", rawFrame(18, 3, 0, 1, 'x', 0))
	add("body is cut", rawFrame(18, 3, 0, 1, 'x', 0, 2, 'a', 9, '1'))
	add("null where none may be", rawFrame(18, 3, 0, 1, 'x', 0, 0, 2, '1', 0))
	add("2^31-1 topics", rawFrame(3, 1, 0, 1, 'x', 0x7f, 0xff, 0xff, 0xff), OnBroker)
	add("2^32-2 topics", rawFrame(3, 9, 0, 1, 'x', 0, 0xff, 0xff, 0xff, 0xff, 0x0f), OnBroker)
	add("-2 topics", rawFrame(3, 1, 0, 1, 'x', 0xff, 0xff, 0xff, 0xfe), OnBroker)
	add("a varint without end", rawFrame(3, 9, 0, 1, 'x', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), OnBroker)

	// What is not served.
	add("Produce v0", rawFrame(0, 0, 0, 1, 'x', 0, 1, 0, 0, 0, 1, 0, 0, 0, 0))
	add("Produce v2", rawFrame(0, 2, 0, 1, 'x', 0, 1, 0, 0, 0, 1, 0, 0, 0, 0))
	add("Produce v14", rawFrame(0, 14, 0, 1, 'x', 0, 0))
	add("Produce v-1", rawFrame(0, -1, 0, 1, 'x', 0, 0))
	add("Fetch v3", rawFrame(1, 3, 0, 1, 'x', 0, 0))
	add("Metadata v99", rawFrame(3, 99, 0, 1, 'x', 0, 0))
	add("InitProducerId v6", rawFrame(22, 6, 0, 1, 'x', 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	add("api key that was removed", rawFrame(4, 0, 0, 1, 'x', 0, 0))
	add("api key that does not exist", rawFrame(95, 0, 0, 1, 'x', 0, 0))
	add("api key 32767", rawFrame(32767, 0, 0, 1, 'x', 0, 0))
	add("api key -1", rawFrame(-1, 0, 0, 1, 'x', 0, 0))
	add("Vote", reqFrame(protocol.NewVoteRequest(), 0, 7, "x"), OnBroker)
	add("BrokerHeartbeat", reqFrame(protocol.NewBrokerHeartbeatRequest(), 0, 7, "x"), OnBroker)
	add("Metadata", reqFrame(protocol.NewMetadataRequest(), 9, 7, "x"), OnController)
	add("FindCoordinator", reqFrame(protocol.NewFindCoordinatorRequest(), 2, 7, "x"), OnController)

	// Envelopes that are not what they should be.
	who, inner := []byte("\x00\x00\x05User\x02a\x00\x00"), reqFrame(protocol.NewCreateTopicsRequest(), 7, 5, "x")[4:]
	envelope := func(name string, principal, address, data []byte) {
		req := protocol.NewEnvelopeRequest()
		req.RequestPrincipal, req.ClientHostAddress, req.RequestData = principal, address, data
		add("envelope: "+name, reqFrame(req, 0, 7, "x"), OnController)
	}
	home := []byte{127, 0, 0, 1}
	envelope("nobody", nil, home, inner)
	envelope("no principal", []byte{}, home, inner)
	envelope("principal of version 1", []byte("\x00\x01\x05User\x02a\x00\x00"), home, inner)
	envelope("principal is cut", who[:6], home, inner)
	envelope("no address", who, nil, inner)
	envelope("address of five bytes", who, []byte{1, 2, 3, 4, 5}, inner)
	envelope("nothing inside", who, home, nil)
	envelope("header is cut", who, home, inner[:5])
	envelope("body is cut", who, home, inner[:len(inner)-1])
	envelope("unknown api", who, home, rawFrame(95, 0, 0, 1, 'x', 0, 0)[4:])
	envelope("unknown version", who, home, rawFrame(19, 99, 0, 1, 'x', 0, 0)[4:])
	envelope("an api that is not forwarded", who, home, reqFrame(protocol.NewMetadataRequest(), 9, 5, "x")[4:])
	envelope("an api of controllers", who, home, reqFrame(protocol.NewVoteRequest(), 0, 5, "x")[4:])
	envelope("an envelope", who, home, reqFrame(protocol.NewEnvelopeRequest(), 0, 5, "x")[4:])

	// SASL where there is none.
	for v := int16(0); v <= 1; v++ {
		req := protocol.NewSaslHandshakeRequest()
		req.Mechanism = "PLAIN"
		add(fmt.Sprintf("SaslHandshake v%d", v), reqFrame(req, v, 7, "x"))
	}
	for v := int16(0); v <= 2; v++ {
		req := protocol.NewSaslAuthenticateRequest()
		req.AuthBytes = []byte("\x00a\x00b")
		add(fmt.Sprintf("SaslAuthenticate v%d", v), reqFrame(req, v, 7, "x"))
	}

	// No frames at all.
	add("HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	add("length -1", []byte{0xff, 0xff, 0xff, 0xff})
	add("length 2^31-1", []byte{0x7f, 0xff, 0xff, 0xff})
	add("length of socket.request.max.bytes + 1", []byte{0x06, 0x40, 0, 1})
	add("TLS", []byte("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"))
	large := append([]byte{0, 0}, make([]byte, 600_000)...)
	add("a first request of 600,000 bytes", rawFrame(18, 0, large...))
	return out
}

// outcome sends a probe, and ApiVersions v0 behind it, and tells what comes back up to the answer to that.
func outcome(t *testing.T, addr string, send []byte) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	last := reqFrame(protocol.NewApiVersionsRequest(), 0, 777, "x")
	_, _ = c.Write(append(slices.Clone(send), last...)) // it may be closed already
	version := int16(binary.BigEndian.Uint16(append(slices.Clone(send), make([]byte, 8)...)[6:]))
	key := int16(binary.BigEndian.Uint16(append(slices.Clone(send), make([]byte, 8)...)[4:]))
	var b strings.Builder
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("neither an answer nor the end")
			}
			return b.String() + "closed\n"
		}
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(answer) == 777 {
			return b.String() + "goes on\n"
		}
		b.WriteString(answerText(t, key, version, answer))
	}
}

// answerText is an answer in lines: of ApiVersions, of SASL and of envelopes what it says, of others that it came.
func answerText(t *testing.T, key, version int16, answer []byte) string {
	t.Helper()
	resp := protocol.NewResponse(key)
	if key == protocol.KeyApiVersions && (version < 0 || version > 5) {
		version = 0
	}
	at := 4
	if protocol.ResponseHeaderVersion(key, version) > 0 {
		at = 5
	}
	d := wire.NewDecoder(answer[at:])
	if err := resp.Decode(d, version); err != nil || d.Remaining() > 0 {
		t.Fatalf("decode %x: %v, %d bytes left", answer, err, d.Remaining())
	}
	id := binary.BigEndian.Uint32(answer)
	switch r := resp.(type) {
	case *protocol.SaslHandshakeResponse:
		return fmt.Sprintf("%d error %d mechanisms %q\n", id, r.ErrorCode, r.Mechanisms)
	case *protocol.SaslAuthenticateResponse:
		return fmt.Sprintf("%d error %d %q bytes %x lifetime %d\n", id, r.ErrorCode, *r.ErrorMessage, r.AuthBytes, r.SessionLifetimeMs)
	case *protocol.EnvelopeResponse:
		return fmt.Sprintf("%d error %d, answer of %d bytes\n", id, r.ErrorCode, len(r.ResponseData))
	case *protocol.ApiVersionsResponse:
		return fmt.Sprintf("%d error %d throttle %d epoch %t zk %t\n", id, r.ErrorCode, r.ThrottleTimeMs, r.FinalizedFeaturesEpoch >= 0, r.ZkMigrationReady) +
			rangesText(r)
	}
	return fmt.Sprintf("%d answered\n", id)
}

// rangesText has a line for the APIs and one for the features.
func rangesText(r *protocol.ApiVersionsResponse) string {
	line := []string{"apis"}
	for _, a := range r.ApiKeys {
		line = append(line, fmt.Sprintf("%d:%d-%d", a.ApiKey, a.MinVersion, a.MaxVersion))
	}
	var features []string
	for _, f := range r.SupportedFeatures {
		features = append(features, fmt.Sprintf("%s:%d-%d", f.Name, f.MinVersion, f.MaxVersion))
	}
	for _, f := range r.FinalizedFeatures {
		features = append(features, fmt.Sprintf("%s=%d-%d", f.Name, f.MinVersionLevel, f.MaxVersionLevel))
	}
	slices.Sort(features) // Kafka's order is that of a hash
	return strings.Join(line, " ") + "\n" + strings.Join(append([]string{"features"}, features...), " ") + "\n"
}

// served leaves of a line of APIs those that are in our table.
func served(line string, kind Kind) string {
	if !strings.HasPrefix(line, "apis ") {
		return line
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(line), func(s string) bool {
		return s != "apis" && !slices.ContainsFunc(apis, func(r row) bool { return r.kind == kind && strings.HasPrefix(s, fmt.Sprint(r.key, ":")) })
	}), " ")
}

var kindNames = []string{OnBroker: "broker", OnController: "controller"}

// TestJudgedByKafka sends what clients and strangers may send, and compares with what Apache Kafka 4.4.0 did.
func TestJudgedByKafka(t *testing.T) {
	addrs := strings.Split(*kafka, ",")
	judged := map[string]string{}
	if *kafka == "" {
		addrs = judgedServer(t)
		data, err := os.ReadFile(judgedFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strings.Split(string(data), "## ")[1:] {
			name, text, _ := strings.Cut(s, "\n")
			kind := OnBroker
			if strings.HasPrefix(name, kindNames[OnController]) {
				kind = OnController
			}
			lines := strings.Split(text, "\n")
			for i := range lines {
				lines[i] = served(lines[i], kind)
			}
			judged[name] = strings.Join(lines, "\n")
		}
	}
	var out bytes.Buffer
	first := map[string]string{} // by kind and outcome the first probe that had it
	for _, p := range probes() {
		for _, kind := range []Kind{OnBroker, OnController} {
			if p.on != nil && !slices.Contains(p.on, kind) {
				continue
			}
			name := kindNames[kind] + ": " + p.name
			got := outcome(t, addrs[kind], p.send)
			if same, ok := first[kindNames[kind]+got]; ok && len(got) > 100 {
				got = "as " + same + "\n"
			} else {
				first[kindNames[kind]+got] = p.name
			}
			if *kafka != "" {
				fmt.Fprintf(&out, "## %s\n%s", name, got)
				continue
			}
			if diff := cmp.Diff(judged[name], got); diff != "" {
				t.Errorf("%s (-kafka +ours):\n%s", name, diff)
			}
		}
	}
	if *kafka != "" {
		if err := os.WriteFile(judgedFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// judgedServer has both listeners and the whole table; only what the server answers itself is asked.
func judgedServer(t *testing.T) []string {
	s, _, _, _ := testServer(t, Options{ClusterID: judgedCluster, NodeID: 1, Image: func() *image.Image { return judgedImage }})
	var addrs []string
	for _, kind := range []Kind{OnBroker, OnController} {
		addr, err := s.Listen(kindNames[kind], "127.0.0.1:0", kind)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr)
	}
	s.Bind(Targets{Broker: new(broker.Broker), Groups: new(group.Service), Controller: new(controller.Controller), Quorum: new(raft.Quorum), Configs: new(broker.Configs)})
	s.listeners[1].table[protocol.KeyMetadata] = &api{key: protocol.KeyMetadata, min: 0, max: 13, name: "Metadata", make: func() exchange {
		return newTyped((*testMetadata).answer).with(nil)
	}}
	for _, name := range kindNames {
		s.Serve(name)
	}
	return addrs
}

// testMetadata stands for a handler.
type testMetadata struct{}

func (*testMetadata) answer(_ *rpc.Context, _ *protocol.MetadataRequest, respond func(*protocol.MetadataResponse)) {
	respond(protocol.NewMetadataResponse())
}

// judgedImage has the features of a cluster that was formatted by 4.4.0.
var judgedImage = func() *image.Image {
	d := image.NewDelta(image.Empty)
	for _, f := range metadata.Features {
		if level := f.Default(metadata.LatestVersion); level > 0 && f.Name != metadata.FeatureKRaft {
			if err := d.Replay(&metadata.FeatureLevelRecord{Name: f.Name, FeatureLevel: level}); err != nil {
				panic(err)
			}
		}
	}
	return d.Apply(image.Provenance{Offset: 7, Epoch: 1})
}()
