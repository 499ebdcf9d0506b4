package requests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// metadataRequest asks for topics: nil is all of them.
func metadataRequest(create bool, names ...string) *protocol.MetadataRequest {
	r := protocol.NewMetadataRequest()
	r.Topics, r.AllowAutoTopicCreation = nil, create
	for i := range names {
		r.Topics = append(r.Topics, protocol.MetadataRequestTopic{Name: &names[i]})
	}
	return r
}

// topicsText has name, error and number of partitions of each topic, by name.
func topicsText(r *protocol.MetadataResponse) string {
	var out []string
	for _, t := range r.Topics {
		name := "null"
		if t.Name != nil {
			name = *t.Name
		}
		out = append(out, fmt.Sprintf("%s:%d:%d", name, t.ErrorCode, len(t.Partitions)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (n *node) metadata(version int16, r *protocol.MetadataRequest) *protocol.MetadataResponse {
	n.t.Helper()
	return ask[*protocol.MetadataResponse](n.dial(), version, r)
}

// All topics, none, and those that are not there.
func TestMetadata(t *testing.T) {
	n := start(t, "auto.create.topics.enable=false")
	n.create("a", 1)
	n.create("b", 2)
	p := n.dial()
	for v := int16(0); v <= 13; v++ {
		none := metadataRequest(v < 4)
		none.Topics = []protocol.MetadataRequestTopic{}
		what := fmt.Sprintf("version %d: ", v)
		empty := ask[*protocol.MetadataResponse](p, v, none)
		is(t, what+"brokers", len(empty.Brokers), 1)
		if v == 0 {
			is(t, what+"empty list", topicsText(empty), "a:0:1 b:0:2")
		} else {
			is(t, what+"empty list", topicsText(empty), "")
			is(t, what+"no list", topicsText(ask[*protocol.MetadataResponse](p, v, metadataRequest(v < 4))), "a:0:1 b:0:2")
		}
		named := metadataRequest(true, "a", "no pe", "nowhere")
		is(t, what+"named", topicsText(ask[*protocol.MetadataResponse](p, v, named)), "a:0:1 no pe:17:0 nowhere:3:0")
	}
	byID := metadataRequest(false)
	byID.Topics = []protocol.MetadataRequestTopic{{TopicId: uuid.UUID{1}}}
	r := ask[*protocol.MetadataResponse](p, 12, byID)
	is(t, "unknown id", topicsText(r), "null:100:0")

	cluster := protocol.NewDescribeClusterRequest()
	cluster.EndpointType = 2
	is(t, "controllers at a broker", ask[*protocol.DescribeClusterResponse](p, 1, cluster).ErrorCode, 114)
	p.open("after all that")
}

// notLeader is answered for a partition that has a leader by name and is still being made: clients try again.
const notLeader = 6

// led says that the partitions of the topics have leaders.
func led(r *protocol.MetadataResponse) bool {
	for _, t := range r.Topics {
		if slices.ContainsFunc(t.Partitions, func(p protocol.MetadataResponsePartition) bool { return p.ErrorCode != 0 || p.LeaderId < 0 }) {
			return false
		}
	}
	return true
}

// A topic that is asked for is made, if the client allows it; before version 4 it cannot say no.
func TestAutoCreation(t *testing.T) {
	n := start(t, "num.partitions=4", "default.replication.factor=1")
	p := n.dial()
	for v := int16(1); v <= 13; v++ {
		name := fmt.Sprint("made-", v)
		r := metadataRequest(true, name, "no pe")
		is(t, name+", first", topicsText(ask[*protocol.MetadataResponse](p, v, r)), name+":3:0 no pe:17:0")
		n.eventually(name, func() bool {
			m := ask[*protocol.MetadataResponse](p, v, r)
			return topicsText(m) == name+":0:4 no pe:17:0" && led(m)
		})
		n.eventually(name+" takes records", func() bool {
			code := n.produce(name, 0, batch(1)).ErrorCode
			if code != 0 && code != notLeader {
				t.Fatalf("%s: error %d of the first produce", name, code)
			}
			return code == 0
		})
		if v < 4 {
			continue
		}
		name = fmt.Sprint("kept-", v)
		for range 3 {
			is(t, name, topicsText(ask[*protocol.MetadataResponse](p, v, metadataRequest(false, name))), name+":3:0")
		}
	}
	if all := topicsText(n.metadata(9, metadataRequest(false))); strings.Contains(all, "kept") {
		t.Errorf("made although it was not allowed: %s", all)
	}
	offsets := func() protocol.MetadataResponseTopic {
		return ask[*protocol.MetadataResponse](p, 9, metadataRequest(true, "__consumer_offsets")).Topics[0]
	}
	first := offsets()
	is(t, "error of __consumer_offsets", first.ErrorCode, 3)
	is(t, "__consumer_offsets is internal", first.IsInternal, true)
	n.eventually("__consumer_offsets", func() bool { t := offsets(); return t.ErrorCode == 0 && len(t.Partitions) == 5 && t.IsInternal })
}

// eventually asks again and again: what is being made has no event that a client could wait for.
func (n *node) eventually(what string, ok func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			n.t.Fatalf("%s: it did not come", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // another process is being waited for
	}
}
