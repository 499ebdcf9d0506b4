//go:build interop

package folders

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

// side is one of the two servers.
type side struct {
	name   string
	format func(*servertest.Cluster, testing.TB)
	start  func(*servertest.Cluster, testing.TB) *servertest.Server
}

var (
	ours  = side{"Ottla", (*servertest.Cluster).Format, (*servertest.Cluster).Start}
	kafka = side{"Kafka", (*servertest.Cluster).FormatByKafka, (*servertest.Cluster).StartKafka}
)

// A folder goes from one server to the other and back, with the same server.properties; everything that was written is there each time.
func TestHandOver(t *testing.T) {
	for _, c := range []struct {
		sides [3]side
		kill  bool
	}{
		{[3]side{ours, kafka, ours}, false},
		{[3]side{kafka, ours, kafka}, false},
		{[3]side{ours, kafka, ours}, true},
		{[3]side{kafka, ours, kafka}, true},
	} {
		name := fmt.Sprintf("%s-%s-%s kill=%v", c.sides[0].name, c.sides[1].name, c.sides[2].name, c.kill)
		t.Run(name, func(t *testing.T) { handOver(t, c.sides, c.kill) })
	}
}

func handOver(t *testing.T, sides [3]side, kill bool) {
	// After a kill the next controller waits until the old session is over: let that be soon.
	c := servertest.New(t, "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500")
	sides[0].format(c, t)
	for i, side := range sides {
		s := side.start(c, t)
		for j := range i {
			checkTopic(t, c, topicName(j), fmt.Sprintf("%s, after %s", side.name, sides[i-1].name))
		}
		createTopic(t, c, topicName(i), 2)
		for _, codec := range codecs {
			produce(t, c, topicName(i), codec, 200)
		}
		if kill {
			s.Kill()
		} else {
			s.Stop(t)
		}
	}
}

func topicName(i int) string { return fmt.Sprintf("handed-%d", i) }

// checkTopic reads a topic and compares its records with what was written.
func checkTopic(t *testing.T, c *servertest.Cluster, topic, who string) {
	t.Helper()
	found := map[string]int{}
	for _, r := range consumeAll(t, c, topic) {
		found[string(r.Value)]++
	}
	for _, codec := range codecs {
		for i := range 200 {
			if v := value(codec, i); found[v] != 1 {
				t.Fatalf("%s: record %s of %s is there %d times", who, strings.TrimRight(v, "0"), topic, found[v])
			}
		}
	}
}
