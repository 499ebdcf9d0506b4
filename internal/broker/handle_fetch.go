package broker

import (
	"errors"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Fetch is key 1, versions 4–18. v5: log start offset. v7: sessions (KIP-227). v9: leader epochs. v10: zstd. v11: followers answer consumers
// (KIP-392). v12: diverging epochs (KIP-595). v13: topic ids (KIP-516). v15: replica epoch (KIP-903). v16: who leads instead (KIP-951).
// v17: directory ids, v18: the high watermark that a follower knows (KIP-1166); both from followers only. Path: session → partitions → regions of
// their logs, now or when there is enough → session → answer, whose records the server sends from the files.
//
// Errors of the request: 70 no such session, 71 not its epoch, 106 it names topics the other way. Of a partition, in this order:
// 100 unknown id (v13), 3 unknown, 6 another broker's, 103 another topic has the name now, 74 or 75 leader epoch, 56 its directory
// failed (6 before v6), 6 not the leader, 1 offset. The offsets in an answer with error are -1.
func (b *Broker) Fetch(ctx *rpc.Context, req *protocol.FetchRequest, respond func(*rpc.FetchReply)) {
	c := b.newFetchCall()
	c.ctx, c.respond = ctx, respond
	f := b.data.NewFetch()
	c.f = f
	c.parameters(req)
	c.parts(req)
	c.dropRepeated()
	if req.IsolationLevel < 0 || req.IsolationLevel > 1 {
		c.refuse()
		return
	}
	err := b.data.Sessions.Begin(f, replica.SessionRequest{
		ID: req.SessionId, Epoch: req.SessionEpoch, Forgotten: c.forgets(req), UsesIDs: ctx.APIVersion >= 13, Follower: f.ReplicaID >= 0,
		TopicName: c.topicName,
	})
	if err != nil {
		c.reply(err, 0)
		return
	}
	for i := range f.Parts {
		c.check(&f.Parts[i])
	}
	b.data.Fetch(f, c.done)
}

// fetchCall is one Fetch under way, and its answer until it is sent. They are reused.
type fetchCall struct {
	b       *Broker
	ctx     *rpc.Context
	respond func(*rpc.FetchReply)
	f       *replica.Fetch

	seen      map[partKey]int
	forgotten []replica.ForgottenPart
	resp      protocol.FetchResponse
	out       rpc.FetchReply
	external  []env.Part

	// Methods, bound once.
	done      func(*replica.Fetch)
	release   func()
	topicName func(uuid.UUID) string
}

func (b *Broker) newFetchCall() *fetchCall {
	if c, ok := b.fetchCalls.Get().(*fetchCall); ok {
		return c
	}
	c := &fetchCall{b: b}
	c.done, c.release, c.topicName = c.read, c.sent, c.nameOf
	return c
}

func (c *fetchCall) nameOf(id uuid.UUID) string {
	if t := c.b.Image().Topics.ByID(id); t != nil {
		return t.Name
	}
	return ""
}

// parameters takes what concerns the whole fetch.
func (c *fetchCall) parameters(req *protocol.FetchRequest) {
	f := c.f
	f.Version = c.ctx.APIVersion
	f.ReplicaID, f.ReplicaEpoch = req.ReplicaId, -1
	if f.Version >= 15 {
		f.ReplicaID, f.ReplicaEpoch = req.ReplicaState.ReplicaId, req.ReplicaState.ReplicaEpoch
	}
	f.ReadCommitted = req.IsolationLevel == 1
	f.MaxWait = time.Duration(req.MaxWaitMs) * time.Millisecond
	f.MaxBytes = min(int(req.MaxBytes), c.b.fetchMaxBytes)
	f.MinBytes = min(int(req.MinBytes), f.MaxBytes)
}

// parts takes what the request asks for.
func (c *fetchCall) parts(req *protocol.FetchRequest) {
	ids := c.ctx.APIVersion >= 13
	for i := range req.Topics {
		t := &req.Topics[i]
		name := t.Topic
		if ids {
			name = c.nameOf(t.TopicId)
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			c.f.Parts = append(c.f.Parts, replica.FetchPart{
				Topic: name, TopicID: t.TopicId, Index: p.Partition, CurrentLeaderEpoch: p.CurrentLeaderEpoch, LastFetchedEpoch: p.LastFetchedEpoch,
				MaxBytes: p.PartitionMaxBytes, Offset: p.FetchOffset, LogStart: p.LogStartOffset, HighWatermark: p.HighWatermark,
			})
		}
	}
}

// partKey is what a part is about.
type partKey struct {
	id    uuid.UUID
	topic string
	index int32
}

// dropRepeated lets a partition that is named twice be asked for once, in the first place, as the last entry says.
func (c *fetchCall) dropRepeated() {
	parts := c.f.Parts
	if len(parts) < 2 {
		return
	}
	if c.seen == nil {
		c.seen = map[partKey]int{}
	}
	clear(c.seen)
	n := 0
	for i := range parts {
		k := partKey{parts[i].TopicID, parts[i].Topic, parts[i].Index}
		at, again := c.seen[k]
		if !again {
			at = n
			c.seen[k] = n
			n++
		}
		if at != i {
			parts[at] = parts[i]
		}
	}
	c.f.Parts = parts[:n]
}

// forgets takes what leaves the session.
func (c *fetchCall) forgets(req *protocol.FetchRequest) []replica.ForgottenPart {
	c.forgotten = c.forgotten[:0]
	for i := range req.ForgottenTopicsData {
		t := &req.ForgottenTopicsData[i]
		for _, p := range t.Partitions {
			c.forgotten = append(c.forgotten, replica.ForgottenPart{Topic: t.Topic, TopicID: t.TopicId, Index: p})
		}
	}
	return c.forgotten
}

// refuse answers a request that cannot be.
func (c *fetchCall) refuse() {
	f := c.f
	for range f.Parts {
		f.Results = append(f.Results, replica.FetchResult{Err: kerr.UnknownServerError.Code, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
			DivergingEpoch: -1, DivergingEnd: -1, PreferredReplica: -1, Aborted: []replica.AbortedTxn{}})
	}
	c.reply(kerr.UnknownServerError, 0)
}

// check finds the errors of a part that are not worth a read.
func (c *fetchCall) check(part *replica.FetchPart) {
	if part.Topic == "" && c.ctx.APIVersion >= 13 {
		part.Err = kerr.UnknownTopicId.Code
		return
	}
	if _, err := c.b.data.Partition(replica.TopicPartition{Topic: part.Topic, Partition: part.Index}); errors.Is(err, kerr.UnknownTopicOrPartition) {
		part.Err = kerr.UnknownTopicOrPartition.Code
	}
}

// read answers with what was read.
func (c *fetchCall) read(f *replica.Fetch) {
	id, err := c.b.data.Sessions.Finish(f)
	c.reply(err, id)
}

// reply answers: err is one of the session.
func (c *fetchCall) reply(err error, session int32) {
	c.resp.ErrorCode, c.resp.SessionId = kerr.Code(err), session
	c.resp.Responses, c.external, c.resp.NodeEndpoints = c.resp.Responses[:0], c.external[:0], c.resp.NodeEndpoints[:0]
	if err == nil || errors.Is(err, kerr.UnknownServerError) && c.ctx.APIVersion < 13 {
		c.results()
	}
	c.out = rpc.FetchReply{Response: &c.resp, External: c.external, Release: c.release}
	c.respond(&c.out)
}

// sent ends the call.
func (c *fetchCall) sent() {
	c.f.Release()
	c.f, c.ctx, c.respond = nil, nil, nil
	clear(c.external)
	c.b.fetchCalls.Put(c)
}

// results puts the partitions into the answer, those of a topic together as far as they follow each other.
func (c *fetchCall) results() {
	var topic *protocol.FetchResponseFetchableTopicResponse
	var last *replica.FetchPart
	for i := range c.f.Results {
		part, r := &c.f.Parts[i], &c.f.Results[i]
		if r.Omit {
			continue
		}
		if last == nil || last.Topic != part.Topic || last.TopicID != part.TopicID {
			c.resp.Responses = resize(c.resp.Responses, len(c.resp.Responses)+1)
			topic = &c.resp.Responses[len(c.resp.Responses)-1]
			topic.Topic, topic.TopicId, topic.Partitions = part.Topic, part.TopicID, topic.Partitions[:0]
		}
		last = part
		topic.Partitions = resize(topic.Partitions, len(topic.Partitions)+1)
		c.result(&topic.Partitions[len(topic.Partitions)-1], part, r)
	}
}

// noRecords stands for records that are empty, which is not null.
var noRecords = []byte{}

func (c *fetchCall) result(p *protocol.FetchResponsePartitionData, part *replica.FetchPart, r *replica.FetchResult) {
	aborted := p.AbortedTransactions[:0]
	*p = protocol.FetchResponsePartitionData{
		PartitionIndex: part.Index, ErrorCode: r.Err, HighWatermark: r.HighWatermark, LastStableOffset: r.LastStableOffset, LogStartOffset: r.LogStartOffset,
		DivergingEpoch: protocol.FetchResponseEpochEndOffset{Epoch: r.DivergingEpoch, EndOffset: r.DivergingEnd},
		CurrentLeader:  protocol.FetchResponseLeaderIdAndEpoch{LeaderId: -1, LeaderEpoch: -1},
		SnapshotId:     protocol.FetchResponseSnapshotId{EndOffset: -1, Epoch: -1}, PreferredReadReplica: r.PreferredReplica,
	}
	if r.Aborted != nil {
		if aborted == nil {
			aborted = []protocol.FetchResponseAbortedTransaction{}
		}
		for _, a := range r.Aborted {
			aborted = append(aborted, protocol.FetchResponseAbortedTransaction{ProducerId: a.ProducerID, FirstOffset: a.FirstOffset})
		}
		p.AbortedTransactions = aborted
	}
	if r.Records.Len > 0 {
		c.external = append(c.external, env.Part{File: r.Records.File, Offset: r.Records.Pos, Length: int64(r.Records.Len)})
	} else {
		p.Records = noRecords
		c.external = append(c.external, env.Part{})
	}
	switch {
	case r.Err == kerr.KafkaStorageError.Code && c.ctx.APIVersion <= 5:
		p.ErrorCode = kerr.NotLeaderOrFollower.Code // so old a client would give up
	case (r.Err == kerr.NotLeaderOrFollower.Code || r.Err == kerr.FencedLeaderEpoch.Code) && c.ctx.APIVersion >= 16:
		l := c.b.leaderOf(part.Topic, part.Index, c.ctx.Listener)
		p.CurrentLeader = protocol.FetchResponseLeaderIdAndEpoch{LeaderId: l.id, LeaderEpoch: l.epoch}
		if l.reachable {
			c.endpoint(l.node)
		}
	}
}

// endpoint adds a node to the response once.
func (c *fetchCall) endpoint(n node) {
	for i := range c.resp.NodeEndpoints {
		if c.resp.NodeEndpoints[i].NodeId == n.id {
			return
		}
	}
	c.resp.NodeEndpoints = append(c.resp.NodeEndpoints, protocol.FetchResponseNodeEndpoint{NodeId: n.id, Host: n.host, Port: n.port, Rack: n.rack})
}
