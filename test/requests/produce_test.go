package requests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// batch has n records with keys and the time of now, or what changes make of it.
func batch(n int, change ...func(*record.Builder)) []byte {
	return batchAt(time.Now().UnixMilli(), n, change...)
}

func batchAt(millis int64, n int, change ...func(*record.Builder)) []byte {
	b := record.NewBuilder(0, record.None)
	for _, c := range change {
		c(b)
	}
	for i := range n {
		b.Append(millis+int64(i), []byte("key"), fmt.Appendf(nil, "value %d", i))
	}
	return built(b)
}

func built(b *record.Builder) []byte {
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(out)
}

func codec(c record.Compression) func(*record.Builder) {
	return func(b *record.Builder) { b.Reset(0, c) }
}

func producer(id int64, epoch int16, sequence int32) func(*record.Builder) {
	return func(b *record.Builder) { b.SetProducer(id, epoch, sequence) }
}

// edited is a batch with other bytes in its header and a CRC that fits.
func edited(b []byte, edit func([]byte)) []byte {
	b = slices.Clone(b)
	edit(b)
	record.Batch(b).UpdateCRC()
	return b
}

func produceRequest(acks int16, topic string, partition int32, records []byte) *protocol.ProduceRequest {
	r := protocol.NewProduceRequest()
	r.Acks, r.TimeoutMs = acks, 30_000
	r.TopicData = []protocol.ProduceRequestTopicProduceData{{Name: topic, PartitionData: []protocol.ProduceRequestPartitionProduceData{{Index: partition, Records: records}}}}
	return r
}

// produce writes to a partition with version 9.
func (n *node) produce(topic string, partition int32, records []byte) *protocol.ProduceResponsePartitionProduceResponse {
	n.t.Helper()
	r := ask[*protocol.ProduceResponse](n.dial(), 9, produceRequest(-1, topic, partition, records))
	return &r.Responses[0].PartitionResponses[0]
}

// The message formats of before 0.11, a message each.
func oldFormat(magic byte) []byte {
	m := []byte{0, 0, 0, 0, magic, 0}
	if magic == 1 {
		m = append(m, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	m = append(m, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 'v')
	return append(binary.BigEndian.AppendUint32(make([]byte, 8), uint32(len(m))), m...)
}

func TestProduceRefused(t *testing.T) {
	n := start(t)
	n.create("t", 2)
	n.create("small", 1, "max.message.bytes", "500")
	n.create("compacted", 1, "cleanup.policy", "compact")
	control := built(func() *record.Builder {
		b := record.NewBuilder(0, record.None)
		b.SetControl()
		b.Append(time.Now().UnixMilli(), record.ControlKey(record.Commit), []byte{0, 0, 0, 0, 0, 0})
		return b
	}())
	good := batch(2)
	gzip := batch(2, codec(record.Gzip))
	badCRC := slices.Clone(good)
	badCRC[len(badCRC)-1]++
	keyless := built(func() *record.Builder {
		b := record.NewBuilder(0, record.None)
		for i, key := range [][]byte{[]byte("a"), nil, []byte("b"), nil} {
			b.Append(int64(1000+i), key, []byte("v"))
		}
		return b
	}())
	for _, c := range []struct {
		name    string
		topic   string
		records []byte
		error   int16
		index   int32 // of the record that is to blame; -1: none
	}{
		{"magic 0", "t", oldFormat(0), 87, -1},
		{"magic 1", "t", oldFormat(1), 87, -1},
		{"a control batch", "t", control, 87, -1},
		{"a CRC that is wrong", "t", badCRC, 2, -1},
		{"too many counted", "t", edited(good, func(b []byte) { b[60]++ }), 87, -1},
		{"too few counted", "t", edited(good, func(b []byte) { b[60]-- }), 87, -1},
		{"last offset delta off by one", "t", edited(good, func(b []byte) { b[26]++ }), 87, -1},
		{"a relative offset off by one", "t", edited(good, func(b []byte) { b[64] += 2 }), 87, -1},
		{"base offset 42", "t", edited(good, func(b []byte) { b[7] = 42 }), 87, -1},
		{"two batches", "t", append(batch(1), batch(1)...), 87, -1},
		{"no bytes", "t", []byte{}, 87, -1},
		{"cut at 50 bytes", "t", good[:50], 87, -1},
		{"a producer without sequence", "t", batch(2, producer(77, 0, -1)), 87, -1},
		{"codec 5", "t", edited(good, func(b []byte) { b[22] = 5 }), -1, -1},
		{"gzip that is none", "t", edited(good, func(b []byte) { b[22] = 1 }), -1, -1},
		{"gzip that is cut", "t", edited(gzip[:len(gzip)-9], func(b []byte) { binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12)) }), -1, -1},
		{"too large", "small", batch(50), 10, -1},
		{"no key", "compacted", keyless, 87, 1},
	} {
		if *kafka && c.name == "a relative offset off by one" {
			continue // it looks at those of compressed batches only
		}
		// The other partition of the same request is written.
		r := produceRequest(1, c.topic, 0, c.records)
		r.TopicData = append(r.TopicData, protocol.ProduceRequestTopicProduceData{Name: "t", PartitionData: []protocol.ProduceRequestPartitionProduceData{{Index: 1, Records: good}}})
		resp := ask[*protocol.ProduceResponse](n.dial(), 9, r)
		got := map[string]*protocol.ProduceResponsePartitionProduceResponse{}
		for _, topic := range resp.Responses {
			for i, p := range topic.PartitionResponses {
				got[fmt.Sprintf("%s-%d", topic.Name, p.Index)] = &topic.PartitionResponses[i]
			}
		}
		p := got[c.topic+"-0"]
		is(t, c.name, p.ErrorCode, c.error)
		if c.index >= 0 && (len(p.RecordErrors) == 0 || p.RecordErrors[0].BatchIndex != c.index) {
			t.Errorf("%s: records %v, want %d", c.name, p.RecordErrors, c.index)
		}
		if other := got["t-1"]; other.ErrorCode != 0 {
			t.Errorf("%s: error %d of the other partition", c.name, other.ErrorCode)
		}
	}
	is(t, "the first good one is the first of all", n.produce("t", 0, good).BaseOffset, 0)
	for v := int16(3); v <= 6; v++ {
		zstd := ask[*protocol.ProduceResponse](n.dial(), v, produceRequest(1, "t", 0, batch(1, codec(record.Zstd))))
		is(t, fmt.Sprint("zstd in version ", v), zstd.Responses[0].PartitionResponses[0].ErrorCode, 76)
	}
	is(t, "acks=2", ask[*protocol.ProduceResponse](n.dial(), 9, produceRequest(2, "t", 0, good)).Responses[0].PartitionResponses[0].ErrorCode, 21)
	transactional := produceRequest(-1, "t", 0, batch(1, producer(9, 0, 0), (*record.Builder).SetTransactional))
	is(t, "transactional records without an id", ask[*protocol.ProduceResponse](n.dial(), 9, transactional).Responses[0].PartitionResponses[0].ErrorCode, 53)
	if !*kafka { // which leaves its client without an answer
		is(t, "null records", ask[*protocol.ProduceResponse](n.dial(), 9, produceRequest(1, "t", 0, nil)).Responses[0].PartitionResponses[0].ErrorCode, 87)
	}
	// Without acks there is no answer, only the end of the connection.
	p := n.dial()
	p.send(9, produceRequest(0, "t", 0, badCRC))
	p.closed("acks=0 with an error")
	p = n.dial()
	p.send(9, produceRequest(0, "t", 0, good))
	p.open("acks=0")
	is(t, "the next offset", n.produce("t", 0, good).BaseOffset, 4)
}

// What the leader puts into the header of a batch, whatever the client wrote there.
func TestLeaderEpochIsTheLeaders(t *testing.T) {
	n := start(t)
	n.create("t", 1)
	for i, epoch := range []int32{0, 77} {
		b := batch(1)
		binary.BigEndian.PutUint32(b[12:], uint32(epoch))
		is(t, fmt.Sprint("error with epoch ", epoch), n.produce("t", 0, b).ErrorCode, 0)
		got := n.read("t", 0, int64(i))
		is(t, "stored epoch", got.LeaderEpoch(), 0)
		is(t, "stored offset", got.BaseOffset(), int64(i))
	}
}

func TestTimestamps(t *testing.T) {
	n := start(t)
	n.create("created", 1)
	n.create("appended", 1, "message.timestamp.type", "LogAppendTime")
	now := time.Now().UnixMilli()
	for _, c := range []struct {
		name  string
		time  int64
		error int16
	}{{"two hours ahead", now + 7_200_000, 32}, {"nanoseconds", time.Now().UnixNano(), 32}, {"-1", -1, 0}, {"-5", -5, 0}, {"1970", 0, 0}} {
		for _, v := range []int16{7, 8, 9} {
			b := record.NewBuilder(0, record.None)
			b.Append(c.time, nil, []byte("v"))
			b.Append(c.time, nil, []byte("w"))
			records := built(b)
			p := ask[*protocol.ProduceResponse](n.dial(), v, produceRequest(1, "created", 0, records)).Responses[0].PartitionResponses[0]
			what := fmt.Sprintf("%s, version %d", c.name, v)
			is(t, what, p.ErrorCode, c.error)
			is(t, what+": append time", p.LogAppendTimeMs, -1)
			blamed := 0
			if c.error != 0 && v >= 8 {
				blamed = 2
			}
			is(t, what+": records to blame", len(p.RecordErrors), blamed)
			for i, e := range p.RecordErrors {
				if e.BatchIndex != int32(i) || e.BatchIndexErrorMessage == nil {
					t.Errorf("%s: record error %d: %+v", what, i, e)
				}
			}
			p = ask[*protocol.ProduceResponse](n.dial(), v, produceRequest(1, "appended", 0, records)).Responses[0].PartitionResponses[0]
			is(t, what+", appended", p.ErrorCode, 0)
			if p.LogAppendTimeMs < now {
				t.Errorf("%s: append time %d", what, p.LogAppendTimeMs)
			}
			stored := n.read("appended", 0, p.BaseOffset)
			is(t, what+": stored attributes", stored.Attributes(), 8)
			is(t, what+": stored time", stored.MaxTimestamp(), p.LogAppendTimeMs)
		}
	}
}

func TestIdempotence(t *testing.T) {
	n := start(t)
	n.create("t", 1)
	send := func(id int64, epoch int16, sequence int32, records int) string {
		p := n.produce("t", 0, batch(records, producer(id, epoch, sequence)))
		return fmt.Sprintf("%d@%d", p.ErrorCode, p.BaseOffset)
	}
	for i := range int32(6) {
		is(t, fmt.Sprint("batch ", i), send(500, 0, 2*i, 2), fmt.Sprintf("0@%d", 2*i))
	}
	for i := int32(1); i < 6; i++ {
		is(t, fmt.Sprint("again ", i), send(500, 0, 2*i, 2), fmt.Sprintf("0@%d", 2*i))
	}
	is(t, "the sixth before", send(500, 0, 0, 2), "45@-1")
	is(t, "a gap", send(500, 0, 14, 1), "45@-1")
	is(t, "no gap", send(500, 0, 12, 1), "0@12")
	is(t, "a new epoch", send(500, 3, 0, 1), "0@13")
	is(t, "an older epoch", send(500, 2, 1, 1), "47@-1")
	is(t, "an unknown producer in the middle", send(501, 0, 7, 1), "0@14")
	is(t, "to the last number", send(502, 0, 2147483646, 2), "0@15")
	is(t, "from 0 on", send(502, 0, 0, 2), "0@17")
	is(t, "over the end", send(503, 0, 2147483646, 4), "0@19")
	is(t, "behind it", send(503, 0, 2, 1), "0@23")
	var id *protocol.InitProducerIdResponse
	n.eventually("a producer id", func() bool {
		r := protocol.NewInitProducerIdRequest()
		r.TransactionalId = nil
		id = ask[*protocol.InitProducerIdResponse](n.dial(), 4, r)
		return id.ErrorCode == 0
	})
	is(t, "a new producer", send(id.ProducerId, id.ProducerEpoch, 0, 1), "0@24")
	is(t, "in the log", bytes.Contains(n.readAll("t", 0), []byte("value 0")), true)
}
