package requests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// newTopic describes a topic; settings are keys and values.
func newTopic(name string, partitions int32, settings ...string) protocol.CreateTopicsRequestCreatableTopic {
	t := protocol.NewCreateTopicsRequestCreatableTopic()
	t.Name, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		t.Configs = append(t.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	return t
}

// assigned describes a topic by the brokers of its partitions.
func assigned(name string, partitions map[int32][]int32) protocol.CreateTopicsRequestCreatableTopic {
	t := newTopic(name, -1)
	t.ReplicationFactor = -1
	for i := range int32(10) {
		if brokers, ok := partitions[i]; ok {
			t.Assignments = append(t.Assignments, protocol.CreateTopicsRequestCreatableReplicaAssignment{PartitionIndex: i, BrokerIds: brokers})
		}
	}
	return t
}

func (n *node) tryCreate(validateOnly bool, topics ...protocol.CreateTopicsRequestCreatableTopic) *protocol.CreateTopicsResponse {
	n.t.Helper()
	r := protocol.NewCreateTopicsRequest()
	r.Topics, r.ValidateOnly, r.TimeoutMs = topics, validateOnly, 60_000
	return ask[*protocol.CreateTopicsResponse](n.dial(), 7, r)
}

// create makes a topic and waits until it can be written.
func (n *node) create(name string, partitions int32, settings ...string) uuid.UUID {
	n.t.Helper()
	r := n.tryCreate(false, newTopic(name, partitions, settings...)).Topics[0]
	if r.ErrorCode != 0 {
		n.t.Fatalf("create %s: error %d", name, r.ErrorCode)
	}
	n.eventually(name, func() bool {
		m := n.metadata(9, metadataRequest(false, name))
		return topicsText(m) == fmt.Sprintf("%s:0:%d", name, partitions) && led(m)
	})
	n.eventually(name, func() bool { // a leader has a name before it has its partitions
		for i := range partitions {
			if !strings.HasPrefix(n.listOffsetOf(7, name, i, 0, -1), "0 ") {
				return false
			}
		}
		return true
	})
	return r.TopicId
}

func (n *node) deleteTopic(name string) int16 {
	n.t.Helper()
	r := protocol.NewDeleteTopicsRequest()
	r.TopicNames, r.TimeoutMs = []string{name}, 10_000
	return ask[*protocol.DeleteTopicsResponse](n.dial(), 5, r).Responses[0].ErrorCode
}

func TestCreateTopics(t *testing.T) {
	n := start(t, "num.partitions=6")
	n.create("there", 1)
	n.create("dot.ted", 1)

	// Only asked: the answer has the settings, and nothing is there afterwards.
	asked := n.tryCreate(true, newTopic("asked", 2, "retention.ms", "5000")).Topics[0]
	is(t, "validate only", fmt.Sprint(asked.ErrorCode, asked.NumPartitions, asked.ReplicationFactor), "0 2 1")
	found := ""
	for _, c := range asked.Configs {
		if c.Name == "retention.ms" {
			found = *c.Value
		}
	}
	is(t, "retention.ms of what was only asked", found, "5000")
	is(t, "asked afterwards", topicsText(n.metadata(9, metadataRequest(false, "asked"))), "asked:3:0")

	defaults := newTopic("defaults", -1)
	defaults.ReplicationFactor = -1
	r := n.tryCreate(false, defaults).Topics[0]
	is(t, "defaults", fmt.Sprint(r.ErrorCode, r.NumPartitions, r.ReplicationFactor), "0 6 1")

	both := assigned("both", map[int32][]int32{0: {1}})
	both.NumPartitions = 1
	factor := assigned("factor", map[int32][]int32{0: {1}})
	factor.ReplicationFactor = 1
	null := newTopic("null", 1)
	null.Configs = []protocol.CreateTopicsRequestCreatableTopicConfig{{Name: "retention.ms"}}
	for _, c := range []struct {
		topic    protocol.CreateTopicsRequestCreatableTopic
		error    int16
		mentions string
	}{
		{both, 42, ""},
		{factor, 42, ""},
		{assigned("gap", map[int32][]int32{0: {1}, 2: {1}}), 39, ""},
		{assigned("stranger", map[int32][]int32{0: {7}}), 39, ""},
		{assigned("twice", map[int32][]int32{0: {1, 1}}), 39, ""},
		{assigned("nobody", map[int32][]int32{0: {}}), 39, ""},
		{newTopic("there", 1), 36, ""},
		{newTopic("dot_ted", 1), 17, ""},
		{newTopic("__cluster_metadata", 1), 42, ""},
		{newTopic("unknown", 1, "no.such.thing", "1"), 40, "no.such.thing"},
		{newTopic("bad", 1, "retention.ms", "soon"), 40, "retention.ms"},
		{newTopic("small", 1, "segment.bytes", "1000"), 40, "segment.bytes"},
		{null, 40, "retention.ms"},
		{newTopic("many", 10_000), 44, ""},
	} {
		for _, only := range []bool{true, false} {
			r := n.tryCreate(only, c.topic).Topics[0]
			what := fmt.Sprintf("%s, only asked %t", c.topic.Name, only)
			is(t, what, r.ErrorCode, c.error)
			is(t, what+": counts and id", fmt.Sprint(r.NumPartitions, r.ReplicationFactor, r.TopicId == uuid.UUID{}), "-1 -1 true")
			if r.Configs == nil || len(r.Configs) > 0 {
				t.Errorf("%s: settings %v, want an empty list", what, r.Configs)
			}
			if r.ErrorMessage == nil || !strings.Contains(*r.ErrorMessage, c.mentions) {
				t.Errorf("%s: message %v does not mention %q", what, r.ErrorMessage, c.mentions)
			}
		}
	}
	n.eventually("the one that was made", func() bool { return strings.HasPrefix(topicsText(n.metadata(9, metadataRequest(false))), "defaults") })
	is(t, "all topics", topicsText(n.metadata(9, metadataRequest(false))), "defaults:0:6 dot.ted:0:1 there:0:1")
}

// A topic that is made again has nothing of the one before but its name.
func TestRecreate(t *testing.T) {
	n := start(t, "offsets.topic.num.partitions=1")
	old := n.create("again", 1)
	is(t, "produce", n.produce("again", 0, batch(3)).BaseOffset, 0)
	n.commit("group", "again", 3)
	p := n.dial()
	open := session(0, 0, part{})
	open.Topics[0].TopicId = old
	opened := n.fetch(p, 13, open)
	is(t, "open a session", fmt.Sprint(opened.ErrorCode, opened.SessionId != 0), "0 true")
	byID := ask[*protocol.FetchResponse](n.dial(), 13, fetchByID(old))
	is(t, "fetch by the id", byID.Responses[0].Partitions[0].ErrorCode, 0)

	is(t, "delete", n.deleteTopic("again"), 0)
	is(t, "create at once", n.tryCreate(false, newTopic("again", 1)).Topics[0].ErrorCode, 0)
	var fresh uuid.UUID
	n.eventually("the new topic", func() bool {
		m := n.metadata(12, metadataRequest(false, "again"))
		fresh = m.Topics[0].TopicId
		return topicsText(m) == "again:0:1" && fresh != old && led(m)
	})
	n.eventually("the new partition", func() bool { return strings.HasPrefix(n.listOffset(7, "again", 0, -1), "0 0 ") })
	is(t, "first offset of the new topic", n.produce("again", 0, batch(1)).BaseOffset, 0)

	// The session that has the old one in it is told at once.
	next := n.fetch(p, 13, session(opened.SessionId, 1))
	if len(next.Responses) != 1 {
		t.Fatalf("the session's next fetch says nothing about the topic: %+v", next)
	}
	is(t, "the session's next fetch", next.Responses[0].Partitions[0].ErrorCode, 103)

	is(t, "fetch by the old id", ask[*protocol.FetchResponse](n.dial(), 13, fetchByID(old)).Responses[0].Partitions[0].ErrorCode, 100)
	put := produceRequest(1, "", 0, batch(1))
	put.TopicData[0].TopicId = old
	is(t, "produce by the old id", ask[*protocol.ProduceResponse](n.dial(), 13, put).Responses[0].PartitionResponses[0].ErrorCode, 100)
	put.TopicData[0].TopicId = fresh
	is(t, "produce by the new id", ask[*protocol.ProduceResponse](n.dial(), 13, put).Responses[0].PartitionResponses[0].ErrorCode, 0)
	m := metadataRequest(false)
	m.Topics = []protocol.MetadataRequestTopic{{TopicId: old}}
	is(t, "metadata of the old id", n.metadata(12, m).Topics[0].ErrorCode, 100)
	c := commitRequest("group", "", 1)
	c.Topics[0].TopicId = old
	is(t, "commit by the old id", ask[*protocol.OffsetCommitResponse](n.dial(), 10, c).Topics[0].Partitions[0].ErrorCode, 100)
	n.eventually("the group forgets", func() bool { return n.committed("group", "again") == -1 })
}

// Thousands of partitions at once do not run into the time-out of the request.
func TestManyPartitions(t *testing.T) {
	n := start(t)
	is(t, "error", n.tryCreate(false, newTopic("wide", 2_000)).Topics[0].ErrorCode, 0)
	n.eventually("leaders", func() bool {
		m := n.metadata(9, metadataRequest(false, "wide"))
		return topicsText(m) == "wide:0:2000" && led(m)
	})
	n.eventually("the last takes records", func() bool { return n.produce("wide", 1_999, batch(1)).ErrorCode == 0 })
}
