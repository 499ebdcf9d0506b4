package sim

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// writer is an idempotent producer of one partition with acks=all and one batch under way, which it sends until it is acknowledged. It runs on the
// clients' machine, and is told of nothing but answers.
type writer struct {
	c         *Cluster
	name      string // of the writer: in its records
	topic     string
	partition int32

	leader   int32
	producer int64
	sequence int32
	next     int // number of the next record
	count    int // of the batch under way, 0 if there is none
	acked    map[int64]string
	since    time.Duration // the batch under way was made
	longest  time.Duration // that a batch waited for its acknowledgement
	stop     bool
	err      error // a promise that was broken
}

// pause is between two tries, and longer than anything takes when all is well.
const pause = 100 * time.Millisecond

func newWriter(c *Cluster, name, topic string, partition int32) *writer {
	return &writer{c: c, name: name, topic: topic, partition: partition, leader: -1, producer: -1, acked: map[int64]string{}}
}

// begin lets the writer write until it is stopped.
func (w *writer) begin() { w.c.client.Do("begin to write", w.step) }

func (w *writer) later(d time.Duration) { w.c.client.AfterFunc(d, w.step) }

func (w *writer) step() {
	switch {
	case w.err != nil || w.stop && w.count == 0:
	case w.producer < 0:
		w.c.send(w.name, w.c.broker(-1), initProducerID(), 5, w.gotProducer)
	case w.leader < 0:
		w.c.findLeader(w.topic, w.partition, func(leader int32) {
			if w.leader = leader; leader < 0 {
				w.later(pause)
				return
			}
			w.step()
		})
	default:
		if w.count == 0 {
			w.count, w.since = 1+w.c.Workload.IntN(4), w.c.Now()
		}
		w.c.send(w.name, w.c.broker(w.leader), w.batch(), 9, w.gotAnswer)
	}
}

func (w *writer) gotProducer(resp protocol.Response, err error) {
	if r, ok := resp.(*protocol.InitProducerIdResponse); ok && err == nil && r.ErrorCode == kerr.None {
		w.producer = r.ProducerId
		w.step()
		return
	}
	w.later(pause)
}

func (w *writer) value(i int) string { return fmt.Sprintf("%s/%d", w.name, w.next+i) }

func (w *writer) batch() *protocol.ProduceRequest {
	b := record.NewBuilder(0, record.None)
	b.SetProducer(w.producer, 0, w.sequence)
	for i := range w.count {
		b.Append(w.c.client.Now().UnixMilli(), nil, []byte(w.value(i)))
	}
	bytes, err := b.Build()
	if err != nil {
		panic(err)
	}
	req := protocol.NewProduceRequest()
	req.Acks, req.TimeoutMs = -1, 3000
	req.TopicData = []protocol.ProduceRequestTopicProduceData{{Name: w.topic, PartitionData: []protocol.ProduceRequestPartitionProduceData{{Index: w.partition, Records: bytes}}}}
	return req
}

func (w *writer) gotAnswer(resp protocol.Response, err error) {
	if err != nil {
		w.leader = -1
		w.later(pause)
		return
	}
	p := resp.(*protocol.ProduceResponse).Responses[0].PartitionResponses[0]
	if p.ErrorCode != kerr.None {
		// A broker that does not know yet that it leads no longer misses what was written since: clients look for the leader again. If
		// records are lost indeed, the batch is never taken.
		if e := kerr.FromCode(p.ErrorCode); !kerr.Retriable(e) && p.ErrorCode != kerr.OutOfOrderSequenceNumber.Code {
			w.err = fmt.Errorf("%s: produce of record %d to %s-%d: %w", w.name, w.next, w.topic, w.partition, e)
			return
		}
		w.leader = -1
		w.later(pause)
		return
	}
	for i := range w.count {
		w.acked[p.BaseOffset+int64(i)] = w.value(i)
	}
	w.longest = max(w.longest, w.c.Now()-w.since)
	w.next += w.count
	w.sequence += int32(w.count)
	w.count = 0
	w.later(w.c.Workload.Between(time.Millisecond, 300*time.Millisecond))
}

// findLeader asks any broker who leads a partition; -1 if it does not know.
func (c *Cluster) findLeader(topic string, partition int32, done func(leader int32)) {
	req := protocol.NewMetadataRequest()
	req.Topics = []protocol.MetadataRequestTopic{{Name: &topic}}
	c.send("metadata", c.broker(-1), req, 12, func(resp protocol.Response, err error) {
		if err == nil {
			for _, t := range resp.(*protocol.MetadataResponse).Topics {
				for _, p := range t.Partitions {
					if p.PartitionIndex == partition && p.ErrorCode == kerr.None {
						done(p.LeaderId)
						return
					}
				}
			}
		}
		done(-1)
	})
}
