package requests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/test/interop/servertest"
)

// Each client is told the address of the listener that it came in on.
func TestListeners(t *testing.T) {
	c := servertest.New(t)
	ports := servertest.FreePorts(t, 3)
	local, container, six := ports[0], ports[1], ports[2]
	listeners := fmt.Sprintf("PLAINTEXT://0.0.0.0:%d,DOCKER://127.0.0.1:%d,SIX://[::1]:%d,CONTROLLER://%s", local, container, six, c.Controller)
	advertised := fmt.Sprintf("PLAINTEXT://localhost:%d,DOCKER://broker:%d,SIX://[::1]:%d,CONTROLLER://%s", local, container, six, c.Controller)
	c.Set(t, "listeners="+listeners, "advertised.listeners="+advertised,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,DOCKER:PLAINTEXT,SIX:PLAINTEXT,CONTROLLER:PLAINTEXT")
	n := run(t, c)
	for _, l := range []struct{ dial, host string }{
		{fmt.Sprintf("127.0.0.1:%d", local), fmt.Sprintf("localhost:%d", local)},
		{fmt.Sprintf("127.0.0.1:%d", container), fmt.Sprintf("broker:%d", container)},
		{fmt.Sprintf("[::1]:%d", six), fmt.Sprintf("::1:%d", six)},
	} {
		p := dial(t, l.dial)
		b := ask[*protocol.MetadataResponse](p, 9, metadataRequest(false)).Brokers[0]
		is(t, "metadata at "+l.dial, fmt.Sprintf("%s:%d", b.Host, b.Port), l.host)
		find := protocol.NewFindCoordinatorRequest()
		find.Key = "group"
		n.eventually("a coordinator", func() bool { return ask[*protocol.FindCoordinatorResponse](p, 2, find).ErrorCode == 0 })
		f := ask[*protocol.FindCoordinatorResponse](p, 2, find)
		is(t, "coordinator at "+l.dial, fmt.Sprintf("%s:%d", f.Host, f.Port), l.host)
		d := ask[*protocol.DescribeClusterResponse](p, 0, protocol.NewDescribeClusterRequest()).Brokers[0]
		is(t, "cluster at "+l.dial, fmt.Sprintf("%s:%d", d.Host, d.Port), l.host)
	}
	for _, bootstrap := range []string{fmt.Sprintf("[::1]:%d", six), fmt.Sprintf("127.0.0.1:1,[::1]:%d", six)} {
		out, err := servertest.Ottla(t, "topics", "--bootstrap-server", bootstrap, "--list")
		if err != nil || !strings.Contains(out, "__consumer_offsets") {
			t.Errorf("topics at %s: %v\n%s", bootstrap, err, out)
		}
	}
}

// A file from Windows, with what people leave in such files.
func TestPropertiesAsJavaReadsThem(t *testing.T) {
	c := servertest.New(t)
	data, err := os.ReadFile(c.Properties)
	if err != nil {
		t.Fatal(err)
	}
	file := string(data) + `num.partitions=3
# the last one counts
num.partitions=5  	
zookeeper.connect=localhost:2181
no.such.key = 1
! a comment, and a line that goes on
offsets.topic.\
    num.partitions : 7 
log.retention.hours 12 
`
	file = strings.ReplaceAll(file, "listeners=PLAINTEXT", "listeners=\\\n    PLAINTEXT")
	if err := os.WriteFile(c.Properties, []byte(strings.ReplaceAll(file, "\n", "\r\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	n := run(t, c)
	n.eventually("a topic", func() bool { return n.metadata(9, metadataRequest(true, "made")).Topics[0].ErrorCode == 0 })
	is(t, "partitions", len(n.metadata(9, metadataRequest(false, "made")).Topics[0].Partitions), 5)
	n.coordinator()
	is(t, "partitions of the offsets", len(n.metadata(9, metadataRequest(false, "__consumer_offsets")).Topics[0].Partitions), 7)
	is(t, "retention", n.setting(ofTopic, "made", "retention.ms"), "43200000/5")
	n.Stop(t)
}
