package broker

import (
	"fmt"
	"math"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/replica"
)

type fetchPart struct {
	topic    string
	index    int32
	offset   int64
	maxBytes int32
	epoch    int32 // current leader epoch
	last     int32 // fetched epoch
}

func fetchRequest(change func(*protocol.FetchRequest), parts ...fetchPart) *protocol.FetchRequest {
	r := protocol.NewFetchRequest()
	r.MinBytes, r.MaxBytes, r.MaxWaitMs = 0, 1<<20, 100
	for _, p := range parts {
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != p.topic {
			r.Topics = append(r.Topics, protocol.FetchRequestFetchTopic{Topic: p.topic})
		}
		q := protocol.NewFetchRequestFetchPartition()
		q.Partition, q.FetchOffset, q.PartitionMaxBytes = p.index, p.offset, 1<<20
		if p.maxBytes != 0 {
			q.PartitionMaxBytes = p.maxBytes
		}
		if p.epoch != 0 {
			q.CurrentLeaderEpoch = p.epoch - 1
		}
		if p.last != 0 {
			q.LastFetchedEpoch = p.last - 1
		}
		t := &r.Topics[len(r.Topics)-1]
		t.Partitions = append(t.Partitions, q)
	}
	if change != nil {
		change(r)
	}
	return r
}

func fetching(name string, version int16, change func(*protocol.FetchRequest), parts ...fetchPart) dataQuestion {
	q := plain("fetch "+name, version, fetchRequest(change, parts...))
	if version >= 13 {
		return byIDs(q)
	}
	return q
}

func fetchQuestions() []dataQuestion {
	var all []dataQuestion
	at := func(topic string, offset int64) fetchPart { return fetchPart{topic: topic, offset: offset} }
	for v := int16(4); v <= 18; v++ {
		all = append(all, fetching("some", v, nil, at("data", 0), at("nowhere", 0), at("multi", 0), fetchPart{topic: "data", index: 7}, at("data", 5)))
		all = append(all, fetching("out of range", v, nil, at("data", 999), at("data", -3)))
		all = append(all, fetching("zstd", v, nil, at("zstd", 0)))
	}
	committed := func(r *protocol.FetchRequest) { r.IsolationLevel = 1 }
	for _, v := range []int16{4, 11, 12, 13, 18} {
		all = append(all, fetching("committed", v, committed, at("data", 0), at("nowhere", 0), at("data", 999)))
	}
	for _, v := range []int16{9, 12, 16, 17} {
		all = append(all, fetching("newer leader epoch", v, nil, fetchPart{topic: "data", epoch: 9}), fetching("leader epoch", v, nil, fetchPart{topic: "data", epoch: 1}))
	}
	limit := func(bytes int32) func(*protocol.FetchRequest) {
		return func(r *protocol.FetchRequest) { r.MaxBytes = bytes }
	}
	all = append(all,
		fetching("max bytes 1", 12, limit(1), at("insync", 9), at("multi", 0), at("data", 0), at("odd", 0)),
		fetching("max bytes 250", 12, limit(250), at("data", 0), at("odd", 0)),
		fetching("max bytes 0", 12, limit(0), at("data", 0), at("odd", 0)),
		fetching("max bytes -1", 12, limit(-1), at("data", 0), at("odd", 0)),
		fetching("partition max bytes 1", 12, nil, fetchPart{topic: "data", maxBytes: 1}, fetchPart{topic: "odd", maxBytes: 1}),
		fetching("partition max bytes -1", 12, nil, fetchPart{topic: "data", maxBytes: -1}, fetchPart{topic: "odd", maxBytes: -1}),
		fetching("in a batch", 12, nil, fetchPart{topic: "idem", offset: 1, maxBytes: 100}),
		fetching("last fetched epoch", 12, nil, fetchPart{topic: "data", offset: 2, last: 1}),
		fetching("last fetched epoch 5", 12, nil, fetchPart{topic: "data", offset: 2, last: 6}),
		fetching("last fetched epoch, too far", 12, nil, fetchPart{topic: "data", offset: 5000, last: 1}),
		fetching("last fetched epoch of an empty log", 12, nil, fetchPart{topic: "txn", offset: 0, last: 1}),
		fetching("nothing", 12, nil),
		fetching("as a replica that is none", 12, func(r *protocol.FetchRequest) { r.ReplicaId = 5 }, at("data", 0), fetchPart{topic: "data", epoch: 1}),
		fetching("as a replica that is none", 15, func(r *protocol.FetchRequest) { r.ReplicaState.ReplicaId = 5 }, at("data", 0), fetchPart{topic: "data", epoch: 1}),
		fetching("as the leader", 15, func(r *protocol.FetchRequest) { r.ReplicaState.ReplicaId = 1 }, at("data", 0)),
		fetching("as a debugger", 12, func(r *protocol.FetchRequest) { r.ReplicaId = -2 }, at("data", 0)),
		fetching("with a rack", 12, func(r *protocol.FetchRequest) { r.RackId = "a" }, at("data", 0)),
		fetching("isolation 7", 12, func(r *protocol.FetchRequest) { r.IsolationLevel = 7 }, at("data", 0)),
	)
	return all
}

func sessionQuestions() []dataQuestion {
	var all []dataQuestion
	step := func(name string, version int16, epoch int32, id func(s *dataStory) int32, forget []string, parts ...fetchPart) {
		q := dataQuestion{name: "session " + name, version: version}
		q.req = func(s *dataStory) protocol.Request {
			return fetchRequest(func(r *protocol.FetchRequest) {
				r.SessionEpoch, r.SessionId = epoch, id(s)
				for _, t := range forget {
					r.ForgottenTopicsData = append(r.ForgottenTopicsData, protocol.FetchRequestForgottenTopic{Topic: t, Partitions: []int32{0}})
				}
			}, parts...)
		}
		if version >= 13 {
			q = byIDs(q)
		}
		all = append(all, q)
	}
	none := func(*dataStory) int32 { return 0 }
	last := func(s *dataStory) int32 { return s.session }
	unknown := func(*dataStory) int32 { return 4242 }
	at := func(topic string, offset int64) fetchPart { return fetchPart{topic: topic, offset: offset} }
	for _, v := range []int16{7, 12, 13, 18} {
		step("open", v, 0, none, nil, at("compacted", 0), at("insync", 0))
		step("again", v, 1, last, nil)
		step("to the end", v, 2, last, nil, at("insync", 1))
		step("nothing new", v, 3, last, nil)
		step("another", v, 4, last, nil, at("nowhere", 0))
		step("with an error", v, 5, last, nil)
		step("error goes", v, 6, last, []string{"nowhere"})
		step("of the other kind", 25-v, 7, last, nil)
		step("epoch 9", v, 9, last, nil)
		step("goes on", v, 7, last, nil, at("insync", 0))
		step("add out of range", v, 8, last, nil, at("data", 4000))
		step("still out of range", v, 9, last, nil)
		step("forget", v, 10, last, []string{"insync", "data"})
		step("forget the last", v, 11, last, []string{"compacted"})
		step("after that", v, 12, last, nil)
		step("unknown", v, 1, unknown, nil)
		step("unknown opens", v, 0, unknown, nil, at("insync", 0))
		step("closes", v, -1, last, nil, at("insync", 0))
		step("closed", v, 1, last, nil)
		step("sessionless", v, -1, none, nil)
		step("empty", v, 0, none, nil)
		step("negative epoch", v, -5, none, nil, at("insync", 0))
	}
	for i := range all {
		all[i].version = max(min(all[i].version, 18), 7)
	}
	return all
}

// transactionQuestions: a transaction that is aborted, and an open one.
func transactionQuestions() []dataQuestion {
	var all []dataQuestion
	id := "txn-id"
	settle := func(q dataQuestion) {
		q.settle = true
		all = append(all, q)
	}
	nothing := func(*testNode) {}
	find := protocol.NewFindCoordinatorRequest()
	find.KeyType, find.CoordinatorKeys = 1, []string{id}
	for range 3 {
		q := plain("find coordinator", 4, find)
		q.ours = nothing
		settle(q)
	}
	begin := dataQuestion{name: "init producer", version: 4, ours: nothing, req: func(*dataStory) protocol.Request {
		r := protocol.NewInitProducerIdRequest()
		r.TransactionalId, r.TransactionTimeoutMs = &id, 60000
		return r
	}}
	add := dataQuestion{name: "add partition", version: 3, ours: nothing, req: func(s *dataStory) protocol.Request {
		r := protocol.NewAddPartitionsToTxnRequest()
		r.V3AndBelowTransactionalId, r.V3AndBelowProducerId, r.V3AndBelowProducerEpoch = id, s.producer(), s.epoch
		r.V3AndBelowTopics = []protocol.AddPartitionsToTxnRequestAddPartitionsToTxnTopic{{Name: "txn", Partitions: []int32{0}}}
		return r
	}}
	write := func(sequence int32) dataQuestion {
		return dataQuestion{name: "write", version: 9, req: func(s *dataStory) protocol.Request {
			r := produceRequest(1, part{"txn", 0, batchOf(2, withProducer(s.producer(), s.epoch, sequence), (*record.Builder).SetTransactional)})
			r.TransactionalId = &id
			return r
		}, ours: func(n *testNode) {
			n.appendTo("txn", batchOf(2, withProducer(8900, 0, sequence), (*record.Builder).SetTransactional))
		}}
	}
	end := func(commit bool) dataQuestion {
		return dataQuestion{name: fmt.Sprintf("end, commit %t", commit), version: 3, settle: true, req: func(s *dataStory) protocol.Request {
			r := protocol.NewEndTxnRequest()
			r.TransactionalId, r.ProducerId, r.ProducerEpoch, r.Committed = id, s.producer(), s.epoch, commit
			return r
		}, ours: func(n *testNode) { n.appendTo("txn", marker(n.node.Now().UnixMilli(), 8900, 0, commit)) }}
	}
	reads := func() {
		for _, level := range []int8{0, 1} {
			isolate := func(r *protocol.FetchRequest) { r.IsolationLevel = level }
			all = append(all, fetching(fmt.Sprint("isolation ", level), 12, isolate, fetchPart{topic: "txn"}), fetching(fmt.Sprint("isolation ", level), 12, isolate, fetchPart{topic: "txn", offset: 4}))
			all = append(all, listing(fmt.Sprint("isolation ", level), 8, func(r *protocol.ListOffsetsRequest) { r.IsolationLevel = level }, at("txn", 0, -1), at("txn", 1, -1)))
		}
		all = append(all, describeProducers("txn"))
	}
	// One after the other: outside, plain; aborted; committed; open.
	all = append(all, produce("outside", 9, 1, part{"txn", 0, batchOf(1)}))
	settle(begin) // there is no block of producer ids yet
	settle(begin)
	settle(add)
	all = append(all, write(0))
	reads()
	all = append(all, end(false))
	settle(add)
	all = append(all, write(2), end(true))
	all = append(all, produce("outside", 9, 1, part{"txn", 0, batchOf(1)}))
	reads()
	settle(add)
	all = append(all, write(4))
	all = append(all, produce("outside", 9, 1, part{"txn", 0, batchOf(1)}))
	reads()
	return all
}

func (s *dataStory) producer() int64 {
	if len(s.producers) == 0 {
		return record.NoProducerID
	}
	return s.producers[len(s.producers)-1]
}

// marker ends a transaction.
func marker(now int64, producer int64, epoch int16, commit bool) []byte {
	b := record.NewBuilder(0, record.None)
	b.SetControl()
	b.SetTransactional()
	b.SetProducer(producer, epoch, -1)
	key := record.Abort
	if commit {
		key = record.Commit
	}
	b.Append(now, record.ControlKey(key), []byte{0, 0, 0, 0, 0, 0})
	return built(b)
}

// appendTo appends a batch as a coordinator does.
func (n *testNode) appendTo(topic string, batch []byte) {
	n.t.Helper()
	p, err := n.data.Partition(replica.TopicPartition{Topic: topic})
	if err != nil {
		n.t.Fatal(err)
	}
	a := n.data.NewAppend()
	a.Acks = replica.AcksLeader
	a.Options.Origin = replica.FromCoordinator
	a.Entries = append(a.Entries, replica.AppendEntry{Partition: p, Records: batch})
	n.data.Append(a, func(a *replica.Append) {
		if a.Entries[0].Err != nil {
			n.t.Error(a.Entries[0].Err)
		}
		a.Release()
	})
}

// listed is a timestamp that is asked for.
type listed struct {
	topic     string
	index     int32
	timestamp int64
	epoch     int32
}

func at(topic string, index int32, timestamp int64) listed {
	return listed{topic, index, timestamp, -1}
}

func listing(name string, version int16, change func(*protocol.ListOffsetsRequest), parts ...listed) dataQuestion {
	r := protocol.NewListOffsetsRequest()
	r.ReplicaId = -1
	for _, p := range parts {
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Name != p.topic {
			r.Topics = append(r.Topics, protocol.ListOffsetsRequestListOffsetsTopic{Name: p.topic})
		}
		t := &r.Topics[len(r.Topics)-1]
		t.Partitions = append(t.Partitions, protocol.ListOffsetsRequestListOffsetsPartition{PartitionIndex: p.index, Timestamp: p.timestamp, CurrentLeaderEpoch: p.epoch})
	}
	if change != nil {
		change(r)
	}
	return plain("offsets "+name, version, r)
}

func offsetQuestions() []dataQuestion {
	var all []dataQuestion
	for v := int16(1); v <= 11; v++ {
		for ts := int64(-7); ts < 0; ts++ {
			all = append(all, listing(fmt.Sprint(ts), v, nil, at("times", 0, ts), at("multi", 2, ts)))
		}
	}
	for _, ts := range []int64{0, 1, 100, 150, 250, 300, 301, 399, 400, 401, math.MaxInt64} {
		all = append(all, listing(fmt.Sprint(ts), 7, nil, at("times", 0, ts), at("multi", 2, ts), at("data", 0, ts)))
	}
	all = append(all,
		listing("unknown", 7, nil, at("nowhere", 0, -1), at("data", 7, -1), at("data", -1, -1)),
		listing("twice", 7, nil, at("data", 0, -1), at("data", 0, -2), at("multi", 0, -1)),
		listing("leader epochs", 7, nil, listed{"data", 0, -1, 0}, listed{"multi", 0, -1, 9}, listed{"odd", 0, 7, 9}, listed{"times", 0, -9, 9}),
		listing("as a replica", 7, func(r *protocol.ListOffsetsRequest) { r.ReplicaId = 5 }, at("txn", 0, -1)),
		listing("as a debugger", 7, func(r *protocol.ListOffsetsRequest) { r.ReplicaId = -2 }, at("txn", 0, -1)),
		listing("max of compressed", 7, nil, at("odd", 0, -3), at("idem", 0, -3), at("data", 0, -3)),
	)
	epochs := func(name string, version int16, topic string, index, current, epoch int32) {
		r := protocol.NewOffsetForLeaderEpochRequest()
		r.ReplicaId = -1
		r.Topics = []protocol.OffsetForLeaderEpochRequestOffsetForLeaderTopic{{Topic: topic, Partitions: []protocol.OffsetForLeaderEpochRequestOffsetForLeaderPartition{
			{Partition: index, CurrentLeaderEpoch: current, LeaderEpoch: epoch},
		}}}
		all = append(all, plain("epoch "+name, version, r))
	}
	for v := int16(2); v <= 4; v++ {
		epochs("0", v, "data", 0, -1, 0)
		epochs("1", v, "data", 0, -1, 1)
		epochs("-1", v, "data", 0, -1, -1)
		epochs("0 of an empty log", v, "multi", 2, -1, 0)
		epochs("unknown", v, "nowhere", 0, -1, 0)
		epochs("unknown partition", v, "data", 7, -1, 0)
		epochs("newer leader", v, "data", 0, 5, 0)
		epochs("this leader", v, "data", 0, 0, 0)
	}
	return all
}

func describeProducers(topics ...string) dataQuestion {
	r := protocol.NewDescribeProducersRequest()
	for _, t := range topics {
		r.Topics = append(r.Topics, protocol.DescribeProducersRequestTopicRequest{Name: t, PartitionIndexes: []int32{0, 9}})
	}
	return plain("describe producers", 0, r)
}

func describeDataQuestions() []dataQuestion {
	all := []dataQuestion{describeProducers("idem", "nowhere", "no pe", "", "__consumer_offsets", "data")}
	for v := int16(1); v <= 5; v++ {
		r := protocol.NewDescribeLogDirsRequest()
		r.Topics = []protocol.DescribeLogDirsRequestDescribableLogDirTopic{{Topic: "multi", Partitions: []int32{0, 2, 2, 9}}, {Topic: "nowhere", Partitions: []int32{0}}}
		all = append(all, plain("log dirs", v, r))
	}
	none := protocol.NewDescribeLogDirsRequest()
	none.Topics = []protocol.DescribeLogDirsRequestDescribableLogDirTopic{}
	return append(all, plain("log dirs of nothing", 4, none))
}

func deleteRecordsQuestions() []dataQuestion {
	var all []dataQuestion
	remove := func(name string, version int16, topic string, offsets ...int64) {
		r := protocol.NewDeleteRecordsRequest()
		r.TimeoutMs = 1000
		t := protocol.DeleteRecordsRequestDeleteRecordsTopic{Name: topic}
		for i, o := range offsets {
			t.Partitions = append(t.Partitions, protocol.DeleteRecordsRequestDeleteRecordsPartition{PartitionIndex: int32(i), Offset: o})
		}
		r.Topics = append(r.Topics, t)
		all = append(all, plain("delete records "+name, version, r))
	}
	for v := int16(0); v <= 2; v++ {
		remove("unknown", v, "nowhere", 0)
		remove("internal", v, "__consumer_offsets", 0)
		remove("compacted", v, "compacted", 0)
		remove("negative", v, "idem", -2)
		remove("too far", v, "idem", 999)
		remove("some", v, "idem", 3+int64(v))
		remove("again", v, "idem", 1)
		remove("unknown partition", v, "idem", 1, 1)
	}
	remove("all", 2, "multi", -1, -1, -1)
	all = append(all, listing("after deletion", 7, nil, at("idem", 0, -2), at("idem", 0, -1), at("multi", 1, -2), at("multi", 1, -4)), listing("start after deletion", 7, nil, at("idem", 0, -2)))
	all = append(all, listing("start of a deleted log", 7, nil, at("multi", 1, -2)), listing("time in a deleted log", 7, nil, at("multi", 1, 0)), listing("largest time in a deleted log", 7, nil, at("multi", 1, -3)))
	all = append(all, fetching("below the start", 12, nil, fetchPart{topic: "idem", offset: 1}), fetching("at the start", 12, nil, fetchPart{topic: "idem", offset: 5}),
		fetching("below the start, committed", 18, func(r *protocol.FetchRequest) { r.IsolationLevel = 1 }, fetchPart{topic: "idem", offset: 1}))
	all = append(all, produce("after deletion", 9, 1, part{"idem", 0, batchOf(1)}), produce("bad after deletion", 9, 1, part{"idem", 0, batchOf(1, withProducer(7200, 0, 50))}))
	return append(all, describeProducers("multi", "idem"))
}

// recreateQuestions: a topic is deleted and made again while a session knows it.
func recreateQuestions() []dataQuestion {
	var all []dataQuestion
	all = append(all, byIDs(produce("before", 13, 1, part{"again", 0, batchOf(3)})))
	open := func(version int16, id bool) dataQuestion {
		q := dataQuestion{name: "session open", version: version, req: func(*dataStory) protocol.Request {
			return fetchRequest(func(r *protocol.FetchRequest) { r.SessionEpoch = 0 }, fetchPart{topic: "again"}, fetchPart{topic: "insync"})
		}}
		if id {
			q = byIDs(q)
		}
		return q
	}
	next := func(name string, version, epoch int16) {
		all = append(all, dataQuestion{name: name, version: version, req: func(s *dataStory) protocol.Request {
			return fetchRequest(func(r *protocol.FetchRequest) { r.SessionEpoch, r.SessionId = int32(epoch), s.session })
		}})
	}
	remove := protocol.NewDeleteTopicsRequest()
	remove.TopicNames, remove.TimeoutMs = []string{"again"}, 10000
	create := protocol.NewCreateTopicsRequest()
	create.TimeoutMs = 10000
	c := protocol.NewCreateTopicsRequestCreatableTopic()
	c.Name, c.NumPartitions, c.ReplicationFactor = "again", 1, 1
	create.Topics = append(create.Topics, c)
	deleteTopic, createTopic := plain("delete", 5, remove), plain("create", 7, create)
	deleteTopic.settle, createTopic.settle = true, true
	all = append(all, open(13, true), deleteTopic)
	next("session after delete", 13, 1)
	all = append(all, createTopic)
	next("session after create", 13, 2)
	next("session still", 13, 3)
	all = append(all, byIDs(produce("old id", 13, 1, part{"again", 0, batchOf(1)})), fetching("old id", 13, nil, fetchPart{topic: "again"}), fetching("by name", 12, nil, fetchPart{topic: "again"}))
	all = append(all, listing("of the new topic", 7, nil, at("again", 0, -1)), produce("new topic", 9, 1, part{"again", 0, batchOf(2)}))
	all = append(all, open(12, false), deleteTopic, createTopic)
	next("session by name after create", 12, 1)
	next("session by name still", 12, 2)
	all = append(all, metadataOf("ids", "again"), open(13, true), deleteTopic, createTopic)
	next("session after delete and create", 13, 1)
	return all
}
