package broker

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// dataQuestions are asked in this order, each of a broker that the ones before have changed.
func dataQuestions() []dataQuestion {
	var all []dataQuestion
	for _, part := range []func() []dataQuestion{
		dataSetup, produceQuestions, recordSetQuestions, timestampQuestions, producerQuestions, fetchQuestions, sessionQuestions, transactionQuestions,
		offsetQuestions, describeDataQuestions, deleteRecordsQuestions, recreateQuestions,
	} {
		all = append(all, part()...)
	}
	return all
}

// ask makes a question that does not depend on the story.
func plain(name string, version int16, req protocol.Request) dataQuestion {
	return dataQuestion{name: name, version: version, req: func(*dataStory) protocol.Request { return req }}
}

func dataSetup() []dataQuestion {
	topics := []struct {
		name       string
		partitions int32
		settings   []string
	}{
		{"data", 1, nil}, {"small", 1, []string{"max.message.bytes", "1000"}}, {"compacted", 1, []string{"cleanup.policy", "compact"}},
		{"appended", 1, []string{"message.timestamp.type", "LogAppendTime"}}, {"multi", 3, nil}, {"zstd", 1, []string{"compression.type", "zstd"}},
		{"insync", 1, []string{"min.insync.replicas", "2"}}, {"txn", 1, nil}, {"times", 1, nil}, {"again", 1, nil}, {"idem", 1, nil}, {"odd", 2, nil},
	}
	create := protocol.NewCreateTopicsRequest()
	create.TimeoutMs = 10000
	var names []string
	for _, t := range topics {
		c := protocol.NewCreateTopicsRequestCreatableTopic()
		c.Name, c.NumPartitions, c.ReplicationFactor = t.name, t.partitions, 1
		settings := append([]string{"retention.ms", "-1"}, t.settings...)
		for i := 0; i < len(settings); i += 2 {
			c.Configs = append(c.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: settings[i], Value: &settings[i+1]})
		}
		create.Topics = append(create.Topics, c)
		names = append(names, t.name)
	}
	q := plain("create", 7, create)
	q.settle = true
	find := protocol.NewFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"grp"}
	first := plain("first find", 4, find) // creates __consumer_offsets
	first.settle = true
	return []dataQuestion{q, metadataOf("ids", names...), first}
}

func metadataOf(name string, topics ...string) dataQuestion {
	r := protocol.NewMetadataRequest()
	for i := range topics {
		r.Topics = append(r.Topics, protocol.MetadataRequestTopic{Name: &topics[i]})
	}
	return plain(name, 12, r)
}

// batchOf makes a batch of n records with keys, at time 1000 + i.
func batchOf(n int, change ...func(*record.Builder)) []byte {
	b := record.NewBuilder(0, record.None)
	for _, c := range change {
		c(b)
	}
	for i := range n {
		b.Append(int64(1000+i), []byte("key"), fmt.Appendf(nil, "value %d", i))
	}
	return built(b)
}

func built(b *record.Builder) []byte {
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(batch)
}

func withCodec(c record.Compression) func(*record.Builder) {
	return func(b *record.Builder) { b.Reset(0, c) }
}

func withProducer(id int64, epoch int16, sequence int32) func(*record.Builder) {
	return func(b *record.Builder) { b.SetProducer(id, epoch, sequence) }
}

// edited is a batch with other bytes in its header and a CRC that fits.
func edited(b []byte, edit func([]byte)) []byte {
	b = slices.Clone(b)
	edit(b)
	record.Batch(b).UpdateCRC()
	return b
}

func put32(at int, v int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

// part is records for a partition.
type part struct {
	topic   string
	index   int32
	records []byte
}

func produceRequest(acks int16, parts ...part) *protocol.ProduceRequest {
	r := protocol.NewProduceRequest()
	r.Acks, r.TimeoutMs = acks, 1500
	for _, p := range parts {
		if n := len(r.TopicData); n == 0 || r.TopicData[n-1].Name != p.topic {
			r.TopicData = append(r.TopicData, protocol.ProduceRequestTopicProduceData{Name: p.topic})
		}
		t := &r.TopicData[len(r.TopicData)-1]
		t.PartitionData = append(t.PartitionData, protocol.ProduceRequestPartitionProduceData{Index: p.index, Records: slices.Clone(p.records)})
	}
	return r
}

func produce(name string, version int16, acks int16, parts ...part) dataQuestion {
	return plain("produce "+name, version, produceRequest(acks, parts...))
}

// byIDs gives the topics of a produce request their ids.
func byIDs(q dataQuestion) dataQuestion {
	inner := q.req
	q.req = func(s *dataStory) protocol.Request {
		switch r := inner(s).(type) {
		case *protocol.ProduceRequest:
			for i := range r.TopicData {
				r.TopicData[i].TopicId = s.id(r.TopicData[i].Name)
			}
			return r
		case *protocol.FetchRequest:
			for i := range r.Topics {
				r.Topics[i].TopicId = s.id(r.Topics[i].Topic)
			}
			for i := range r.ForgottenTopicsData {
				r.ForgottenTopicsData[i].TopicId = s.id(r.ForgottenTopicsData[i].Topic)
			}
			return r
		default:
			return r
		}
	}
	return q
}

// id is a topic's, one that nobody has if it is not known.
func (s *dataStory) id(topic string) uuid.UUID {
	if id := s.topics[topic]; !id.IsZero() {
		return id
	}
	return uuid.UUID{9, 9, 9, byte(len(topic))}
}

func produceQuestions() []dataQuestion {
	var all []dataQuestion
	for v := int16(3); v <= 12; v++ {
		all = append(all, produce("one", v, -1, part{"data", 0, batchOf(2)}, part{"nowhere", 0, batchOf(1)}, part{"data", 7, batchOf(1)}))
	}
	two := produceRequest(1, part{"data", 0, batchOf(1)})
	id := "some-id"
	two.TransactionalId = &id
	return append(all,
		byIDs(produce("by id", 13, 1, part{"data", 0, batchOf(1)}, part{"nowhere", 0, batchOf(1)}, part{"data", 7, batchOf(1)}, part{"", 0, batchOf(1)})),
		produce("by no id", 13, 1, part{"data", 0, batchOf(1)}),
		produce("nothing", 9, 1),
		produce("acks", 9, 2, part{"data", 0, batchOf(1)}, part{"nowhere", 0, batchOf(1)}, part{"multi", 0, nil2()}),
		produce("acks", 9, -2, part{"data", 0, batchOf(1)}),
		produce("too few in sync", 9, -1, part{"insync", 0, batchOf(1)}, part{"data", 0, batchOf(1)}),
		produce("to the leader alone", 9, 1, part{"insync", 0, batchOf(1)}),
		produce("internal topic", 9, 1, part{"__consumer_offsets", 0, batchOf(1)}, part{"__cluster_metadata", 0, batchOf(1)}),
		plain("with transactional id alone", 9, two),
		produce("transactional", 9, 1, part{"data", 0, batchOf(1)}, part{"multi", 0, batchOf(1, withProducer(7001, 0, 0), (*record.Builder).SetTransactional)}, part{"nowhere", 0, batchOf(1)}),
		unverifiedQuestion("unverified transactional", 9), unverifiedQuestion("unverified transactional", 12),
		produce("large", 9, 1, part{"small", 0, batchOf(100)}, part{"data", 0, batchOf(1)}),
		produce("into zstd", 9, 1, part{"zstd", 0, batchOf(3)}),
	)
}

// unverifiedQuestion is about records of a transaction that its coordinator does not know.
func unverifiedQuestion(name string, version int16) dataQuestion {
	r := produceRequest(1, part{"data", 0, batchOf(1, withProducer(7002, 0, 0), (*record.Builder).SetTransactional)})
	id := "some-id"
	r.TransactionalId = &id
	return plain("produce "+name, version, r)
}

// nil2 is a set of records with no bytes.
func nil2() []byte { return []byte{} }

func recordSetQuestions() []dataQuestion {
	good := batchOf(2)
	badCRC := slices.Clone(good)
	badCRC[70] ^= 1
	noKey := record.NewBuilder(0, record.None)
	noKey.Append(1000, []byte("k"), []byte("v"))
	noKey.Append(1000, nil, []byte("v"))
	noKey.Append(1000, nil, []byte("v"))
	control := record.NewBuilder(0, record.None)
	control.SetControl()
	control.SetProducer(7100, 0, 0)
	control.Append(1000, record.ControlKey(record.Commit), []byte{0, 0, 0, 0, 0, 0})
	old := append(make([]byte, 8), 0, 0, 0, 20, 1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	magic0 := slices.Clone(old)
	magic0[16] = 0
	unknown := slices.Clone(good)
	unknown[16] = 3
	sets := []struct {
		name    string
		topic   string
		records []byte
	}{
		{"bad CRC", "odd", badCRC}, {"no key", "compacted", built(noKey)}, {"control", "odd", built(control)}, {"magic 1", "odd", old}, {"magic 0", "odd", magic0},
		{"magic 3", "odd", unknown}, {"epoch 77", "odd", edited(good, put32(12, 77))}, {"epoch 0", "odd", edited(good, put32(12, 0))},
		{"two batches", "odd", append(slices.Clone(good), good...)}, {"base offset 42", "odd", edited(good, func(b []byte) { b[7] = 42 })}, {"no bytes", "odd", nil2()},
		{"last delta off by one", "odd", edited(good, put32(23, 2))}, {"count off by one", "odd", edited(good, put32(57, 3))}, {"count 0", "odd", edited(good, put32(57, 0))},
		{"cut", "odd", good[:50]}, {"cut at 61", "odd", good[:61]}, {"cut at 11", "odd", good[:11]}, {"no sequence", "odd", edited(batchOf(2, withProducer(7101, 0, 0)), put32(53, -1))},
		{"no producer epoch", "odd", edited(batchOf(2, withProducer(7101, 0, 0)), func(b []byte) { b[51], b[52] = 0xff, 0xff })},
		{"codec 5", "odd", edited(good, func(b []byte) { b[22] = 5 })}, {"gzip of plain", "odd", edited(good, func(b []byte) { b[22] = 1 })},
		{"length 5", "odd", edited(good, put32(8, 5))}, {"length 48", "odd", edited(good, put32(8, 48))}, {"length -1", "odd", edited(good, put32(8, -1))}, {"trailing bytes", "odd", append(slices.Clone(good), 1, 2, 3)},
		{"log append time", "odd", edited(good, func(b []byte) { b[22] = 8 })},
	}
	var all []dataQuestion
	for _, s := range sets {
		all = append(all, produce(s.name, 9, 1, part{s.topic, 0, s.records}, part{"multi", 1, good}))
	}
	for _, v := range []int16{3, 6, 7} {
		all = append(all, produce("zstd", v, 1, part{"odd", 0, batchOf(2, withCodec(record.Zstd))}, part{"multi", 1, good}))
		all = append(all, produce("no key", v, 1, part{"compacted", 0, built(noKey)}))
	}
	for _, c := range []record.Compression{record.Gzip, record.Snappy, record.LZ4} {
		all = append(all, produce(c.String(), 9, 1, part{"odd", 0, batchOf(2, withCodec(c))}))
	}
	return append(all, produce("good again", 9, 1, part{"odd", 0, good}))
}

func timestampQuestions() []dataQuestion {
	var all []dataQuestion
	at := func(name, topic string, version int16, timestamps ...func(now int64) int64) {
		all = append(all, dataQuestion{name: "timestamps " + name + " to " + topic, version: version, req: func(s *dataStory) protocol.Request {
			b := record.NewBuilder(0, record.None)
			for _, t := range timestamps {
				b.Append(t(s.now), []byte("k"), []byte("v"))
			}
			return produceRequest(1, part{topic, 0, built(b)})
		}})
	}
	ahead := func(now int64) int64 { return now + 2*3600_000 }
	nano := func(now int64) int64 { return now * 1_000_000 }
	fixed := func(t int64) func(int64) int64 { return func(int64) int64 { return t } }
	for _, topic := range []string{"times", "appended"} {
		at("ahead", topic, 7, fixed(1), ahead, ahead)
		at("ahead", topic, 8, fixed(1), ahead, ahead)
		at("nanoseconds", topic, 9, nano)
		at("-1", topic, 9, fixed(-1))
		at("-5", topic, 9, fixed(-5))
	}
	at("rising", "times", 9, fixed(100), fixed(300), fixed(200), fixed(300))
	at("later", "times", 9, fixed(250), fixed(400))
	return all
}

func producerQuestions() []dataQuestion {
	var all []dataQuestion
	send := func(name string, id int64, epoch int16, sequence int32, n int, topic ...string) {
		to := "idem"
		if len(topic) > 0 {
			to = topic[0]
		}
		all = append(all, produce(fmt.Sprintf("%s: producer %d epoch %d sequence %d", name, id, epoch, sequence), 9, 1, part{to, 0, batchOf(n, withProducer(id, epoch, sequence))}))
	}
	for i := range int32(6) {
		send("in order", 7200, 0, 2*i, 2)
	}
	send("last again", 7200, 0, 10, 2)
	send("fifth last again", 7200, 0, 2, 2)
	send("sixth last again", 7200, 0, 0, 2)
	send("a part again", 7200, 0, 10, 1)
	send("gap", 7200, 0, 14, 1)
	send("new epoch, not 0", 7200, 1, 12, 1)
	send("new epoch", 7200, 1, 0, 1)
	send("old epoch", 7200, 0, 12, 1)
	send("unknown", 7201, 5, 33, 1)
	send("unknown goes on", 7201, 5, 34, 1)
	send("before the wrap", 7202, 0, math.MaxInt32-1, 2)
	send("after the wrap", 7202, 0, 0, 2)
	send("over the wrap", 7203, 0, math.MaxInt32-1, 4)
	send("behind it", 7203, 0, 2, 1)
	send("log append time", 7204, 0, 0, 2, "appended")
	send("log append time again", 7204, 0, 0, 2, "appended")
	return all
}
