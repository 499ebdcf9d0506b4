package sim

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// topicState is what the client knows of a topic of one partition.
type topicState struct {
	name    string
	flushed bool // flush.messages=1: what is acknowledged survives a power cut
	id      uuid.UUID

	next  int           // number of the next record
	acked map[int64]int // offset → number of records that were acknowledged
	end   int64         // behind the last acknowledged record
	// An idempotent producer, of this life of the client.
	producer int64
	sequence int32
}

// Workload is the client's side of a run.
type Workload struct {
	w         *World
	topics    []*topicState
	retention map[string]string // acknowledged settings
	committed int64             // acknowledged group offset of the first topic; 0 if there is none
	perhaps   []int64           // offsets that were sent in this life and not acknowledged
}

// NewWorkload makes a client that knows nothing.
func NewWorkload(w *World) *Workload { return &Workload{w: w, retention: map[string]string{}} }

// CreateTopic makes a topic, and waits for the answer.
func (l *Workload) CreateTopic(flushed bool) {
	t := &topicState{name: fmt.Sprintf("t%d", len(l.topics)), flushed: flushed, acked: map[int64]int{}, producer: -1}
	req := protocol.NewCreateTopicsRequest()
	topic := protocol.NewCreateTopicsRequestCreatableTopic()
	topic.Name, topic.NumPartitions, topic.ReplicationFactor = t.name, 1, 1
	if flushed {
		one := "1"
		topic.Configs = append(topic.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: "flush.messages", Value: &one})
	}
	req.Topics = append(req.Topics, topic)
	resp, err := l.w.Ask(req, 7)
	if err != nil {
		return // nobody knows
	}
	if r := resp.(*protocol.CreateTopicsResponse).Topics[0]; r.ErrorCode == kerr.None {
		t.id = r.TopicId
		l.topics = append(l.topics, t)
	}
}

// SetRetention changes a setting of a topic.
func (l *Workload) SetRetention(t *topicState) {
	value := fmt.Sprint(3_600_000 + l.w.Workload.IntN(1000))
	req := protocol.NewIncrementalAlterConfigsRequest()
	req.Resources = []protocol.IncrementalAlterConfigsRequestAlterConfigsResource{{
		ResourceType: 2, ResourceName: t.name, Configs: []protocol.IncrementalAlterConfigsRequestAlterableConfig{{Name: "retention.ms", Value: &value}},
	}}
	delete(l.retention, t.name) // until it is acknowledged, it may be the old or the new one
	resp, err := l.w.Ask(req, 1)
	if err == nil && resp.(*protocol.IncrementalAlterConfigsResponse).Responses[0].ErrorCode == kerr.None {
		l.retention[t.name] = value
	}
}

// producerID asks for a producer id.
func (l *Workload) producerID(t *topicState) bool {
	resp, err := l.w.Ask(initProducerID(), 5)
	if err != nil {
		return false
	}
	r := resp.(*protocol.InitProducerIdResponse)
	t.producer, t.sequence = r.ProducerId, 0
	return r.ErrorCode == kerr.None
}

// initProducerID asks for the id of a producer without transactions.
func initProducerID() *protocol.InitProducerIdRequest {
	req := protocol.NewInitProducerIdRequest()
	req.TransactionalId = nil
	return req
}

// value is the text of record n of a topic.
func value(topic string, n int) string { return fmt.Sprintf("%s/%d", topic, n) }

// Produce sends batches of an idempotent producer, several at a time, and notes which are acknowledged. After an error it begins with
// another producer id: what became of the batch is not known.
func (l *Workload) Produce(t *topicState) {
	if t.producer < 0 && !l.producerID(t) {
		t.producer = -1
		return
	}
	type sent struct {
		*answer
		first, count int
	}
	var all []sent
	for range 1 + l.w.Workload.IntN(4) {
		count := 1 + l.w.Workload.IntN(5)
		all = append(all, sent{l.w.Send(l.batch(t, count), 9), t.next, count})
		t.next += count
	}
	l.w.RunUntil(time.Minute, func() bool { return all[len(all)-1].done })
	for _, s := range all {
		if !s.done || s.err != nil {
			t.producer = -1
			continue
		}
		p := s.resp.(*protocol.ProduceResponse).Responses[0].PartitionResponses[0]
		if p.ErrorCode != kerr.None {
			t.producer = -1
			continue
		}
		for i := range s.count {
			t.acked[p.BaseOffset+int64(i)] = s.first + i
		}
		t.end = max(t.end, p.BaseOffset+int64(s.count))
	}
}

func (l *Workload) batch(t *topicState, count int) *protocol.ProduceRequest {
	b := record.NewBuilder(0, record.None)
	b.SetProducer(t.producer, 0, t.sequence)
	for i := range count {
		b.Append(l.w.client.Now().UnixMilli(), nil, []byte(value(t.name, t.next+i)))
	}
	t.sequence += int32(count)
	bytes, err := b.Build()
	if err != nil {
		panic(err)
	}
	req := protocol.NewProduceRequest()
	req.Acks, req.TimeoutMs = -1, 10_000
	req.TopicData = []protocol.ProduceRequestTopicProduceData{{Name: t.name, PartitionData: []protocol.ProduceRequestPartitionProduceData{{Records: bytes}}}}
	return req
}

// Commit commits the end of the first topic for a group without members.
func (l *Workload) Commit() {
	if len(l.topics) == 0 {
		return
	}
	find := protocol.NewFindCoordinatorRequest() // which also makes the topic of the offsets
	find.CoordinatorKeys = []string{"readers"}
	if _, err := l.w.Ask(find, 4); err != nil {
		return
	}
	t := l.topics[0]
	req := protocol.NewOffsetCommitRequest()
	req.GroupId, req.GenerationIdOrMemberEpoch = "readers", -1
	p := protocol.NewOffsetCommitRequestPartition()
	p.CommittedOffset = t.end
	req.Topics = []protocol.OffsetCommitRequestTopic{{Name: t.name, Partitions: []protocol.OffsetCommitRequestPartition{p}}}
	resp, err := l.w.Ask(req, 8)
	if err != nil {
		l.perhaps = append(l.perhaps, t.end)
	} else if resp.(*protocol.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == kerr.None {
		l.committed = t.end // which is before an earlier one, if a power cut took records and not the group's offset
	}
}

// Step does one thing, by chance.
func (l *Workload) Step() {
	r := l.w.Workload
	switch n := r.IntN(20); {
	case len(l.topics) == 0 || n == 0 && len(l.topics) < 5:
		l.CreateTopic(r.Chance(0.5))
	case n <= 2:
		l.SetRetention(l.topics[r.IntN(len(l.topics))])
	case n <= 5:
		l.Commit()
	default:
		l.Produce(l.topics[r.IntN(len(l.topics))])
	}
}
