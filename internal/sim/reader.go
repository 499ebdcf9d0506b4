package sim

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// reader reads a partition from its leader, whoever that is, and remembers what it saw.
type reader struct {
	c         *Cluster
	topic     string
	partition int32
	leader    int32
	seen      []string // by offset
	stop      bool
	err       error
}

func newReader(c *Cluster, topic string, partition int32) *reader {
	return &reader{c: c, topic: topic, partition: partition, leader: -1}
}

func (r *reader) begin() { r.c.client.Do("begin to read", r.step) }

func (r *reader) later(d time.Duration) { r.c.client.AfterFunc(d, r.step) }

func (r *reader) step() {
	switch {
	case r.stop || r.err != nil:
	case r.leader < 0:
		r.c.findLeader(r.topic, r.partition, func(leader int32) {
			if r.leader = leader; leader < 0 {
				r.later(pause)
				return
			}
			r.step()
		})
	default:
		r.c.send("reader", r.c.broker(r.leader), fetchRequest(r.topic, r.partition, int64(len(r.seen))), 12, r.got)
	}
}

func fetchRequest(topic string, partition int32, offset int64) *protocol.FetchRequest {
	req := protocol.NewFetchRequest()
	req.MaxWaitMs, req.MinBytes, req.MaxBytes = 200, 1, 10_000
	p := protocol.NewFetchRequestFetchPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 10_000
	req.Topics = []protocol.FetchRequestFetchTopic{{Topic: topic, Partitions: []protocol.FetchRequestFetchPartition{p}}}
	return req
}

func (r *reader) got(resp protocol.Response, err error) {
	if err == nil {
		part := resp.(*protocol.FetchResponse).Responses[0].Partitions[0]
		if err = kerr.FromCode(part.ErrorCode); err == nil {
			if r.seen, r.err = appendValues(r.seen, part.Records); r.err != nil {
				r.err = fmt.Errorf("read %s-%d: %w", r.topic, r.partition, r.err)
			}
		}
	}
	if err != nil {
		r.leader = -1
		r.later(pause)
		return
	}
	r.later(time.Millisecond)
}

// appendValues adds the values of batches to those of the offsets before; the first batch may begin below.
func appendValues(seen []string, records []byte) ([]string, error) {
	for len(records) > 0 {
		b, rest, err := record.Next(records)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return seen, fmt.Errorf("batch at offset %d: %w", len(seen), err)
		}
		it := b.Iter(nil)
		var rec record.Record
		for it.Next(&rec) {
			switch at := int64(len(seen)); {
			case rec.Offset < at:
				if seen[rec.Offset] != string(rec.Value) {
					return seen, fmt.Errorf("invariant 11: offset %d was %s, and is %s", rec.Offset, seen[rec.Offset], rec.Value)
				}
			case rec.Offset > at:
				return seen, fmt.Errorf("invariant 12: offset %d follows on %d", rec.Offset, at-1)
			default:
				seen = append(seen, string(rec.Value))
			}
		}
		if it.Err() != nil {
			return seen, fmt.Errorf("batch at offset %d: %w", len(seen), it.Err())
		}
		records = rest
	}
	return seen, nil
}
