package broker

import (
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Fetch is key 1 at a broker, versions 4–18. v5: log start offsets. v7: sessions (KIP-227). v9: leader epochs (KIP-320). v11: racks
// (KIP-392). v12: diverging epochs (KIP-595). v13: topic ids (KIP-516). v15: the replica's epoch (KIP-903). v16: who leads now
// (KIP-951). v18: the high watermark that a follower knows (KIP-1166). Path: session → partitions → replica.Manager.Fetch, which
// waits for bytes → what the session does not know yet. Errors: 70, 71, 106 of the session; of a partition 3 or 100 unknown, 103
// another topic of that name, 74 and 75 leader epoch, 6 not the leader, 1 the offset, 56 the disk.
func (b *Broker) Fetch(ctx *rpc.Context, req *protocol.FetchRequest, respond func(*rpc.FetchReply)) {
	p := newFetching()
	p.b, p.ctx, p.respond = b, ctx, respond
	p.version, p.listener = ctx.APIVersion, ctx.Listener
	f := b.data.NewFetch()
	f.Version, f.ReadCommitted = ctx.APIVersion, req.IsolationLevel == 1
	f.ReplicaID, f.ReplicaEpoch = req.ReplicaId, -1
	if ctx.APIVersion >= 15 {
		f.ReplicaID, f.ReplicaEpoch = req.ReplicaState.ReplicaId, req.ReplicaState.ReplicaEpoch
	}
	f.MaxWait = time.Duration(max(req.MaxWaitMs, 0)) * time.Millisecond
	f.MinBytes, f.MaxBytes = int(min(req.MinBytes, req.MaxBytes)), int(req.MaxBytes)
	if f.ReplicaID < 0 {
		f.MaxBytes = min(f.MaxBytes, b.fetchMaxBytes)
		f.MinBytes = min(f.MinBytes, f.MaxBytes)
	}
	f.Parts = appendParts(f.Parts, req)
	p.fetch = f
	if err := b.data.Sessions.Begin(f, p.session(req, f)); err != nil {
		p.resp.ErrorCode, p.resp.SessionId = kerr.Code(err), 0
		p.send()
		return
	}
	for i := range f.Parts {
		p.find(&f.Parts[i])
	}
	b.data.Fetch(f, p.done)
}

// appendParts are the partitions that a request names.
func appendParts(parts []replica.FetchPart, req *protocol.FetchRequest) []replica.FetchPart {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			parts = append(parts, replica.FetchPart{
				Topic: t.Topic, TopicID: t.TopicId, Index: q.Partition, CurrentLeaderEpoch: q.CurrentLeaderEpoch, LastFetchedEpoch: q.LastFetchedEpoch,
				MaxBytes: q.PartitionMaxBytes, Offset: q.FetchOffset, LogStart: q.LogStartOffset, HighWatermark: q.HighWatermark,
			})
		}
	}
	return parts
}

// fetching is one fetch on its way. It is used again, with its slices.
type fetching struct {
	b        *Broker
	ctx      *rpc.Context
	version  int16
	listener string
	respond  func(*rpc.FetchReply)
	fetch    *replica.Fetch
	resp     protocol.FetchResponse
	reply    rpc.FetchReply
	names    func(uuid.UUID) string // = topicName, made once; so are done and release
	done     func(*replica.Fetch)
	release  func()
}

var fetchPool sync.Pool

func newFetching() *fetching {
	if p, _ := fetchPool.Get().(*fetching); p != nil {
		return p
	}
	p := new(fetching)
	p.names, p.done, p.release = p.topicName, p.finish, p.released
	return p
}

func (p *fetching) session(req *protocol.FetchRequest, f *replica.Fetch) replica.SessionRequest {
	r := replica.SessionRequest{ID: req.SessionId, Epoch: req.SessionEpoch, UsesIDs: p.version >= 13, Follower: f.ReplicaID >= 0, TopicName: p.names}
	for i := range req.ForgottenTopicsData {
		t := &req.ForgottenTopicsData[i]
		for _, index := range t.Partitions {
			r.Forgotten = append(r.Forgotten, replica.ForgottenPart{Topic: t.Topic, TopicID: t.TopicId, Index: index})
		}
	}
	if r.UsesIDs {
		for i := range f.Parts {
			f.Parts[i].Topic = p.topicName(f.Parts[i].TopicID)
		}
	}
	return r
}

func (p *fetching) topicName(id uuid.UUID) string {
	if t := p.b.data.Image().Topics.ByID(id); t != nil {
		return t.Name
	}
	return ""
}

// find finds the partition of a part, or its error.
func (p *fetching) find(part *replica.FetchPart) {
	if p.version >= 13 && part.Topic == "" {
		part.Err = kerr.UnknownTopicId.Code
		return
	}
	found, err := p.b.data.Partition(replica.TopicPartition{Topic: part.Topic, Partition: part.Index})
	if err != nil {
		part.Err = kerr.Code(err)
		if p.version >= 13 && part.Err == kerr.UnknownTopicOrPartition.Code {
			if t := p.b.data.Image().Topics.ByName(part.Topic); t == nil {
				part.Err = kerr.UnknownTopicId.Code
			}
		}
		return
	}
	part.Partition = found
}

// finish answers with what the session does not know.
func (p *fetching) finish(f *replica.Fetch) {
	id, err := p.b.data.Sessions.Finish(f)
	p.resp.SessionId, p.resp.ErrorCode = id, kerr.Code(err)
	if err == nil {
		for i := range f.Results {
			if !f.Results[i].Omit {
				p.add(&f.Parts[i], &f.Results[i])
			}
		}
	}
	p.send()
}

// add puts a partition into the response. Partitions of a topic that follow one another share its entry.
func (p *fetching) add(part *replica.FetchPart, r *replica.FetchResult) {
	topics := p.resp.Responses
	if n := len(topics); n == 0 || topics[n-1].TopicId != part.TopicID || p.version < 13 && topics[n-1].Topic != part.Topic {
		topics = sized(topics, n+1)
		t := &topics[n]
		t.Topic, t.TopicId, t.Partitions = part.Topic, part.TopicID, t.Partitions[:0]
		p.resp.Responses = topics
	}
	t := &topics[len(topics)-1]
	t.Partitions = sized(t.Partitions, len(t.Partitions)+1)
	out := &t.Partitions[len(t.Partitions)-1]
	aborted := out.AbortedTransactions[:0]
	out.SetDefaults()
	out.PartitionIndex, out.ErrorCode = part.Index, r.Err
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = r.HighWatermark, r.LastStableOffset, r.LogStartOffset
	out.PreferredReadReplica = r.PreferredReplica
	out.DivergingEpoch = protocol.FetchResponseEpochEndOffset{Epoch: r.DivergingEpoch, EndOffset: r.DivergingEnd}
	if r.Aborted != nil {
		for _, a := range r.Aborted {
			aborted = append(aborted, protocol.FetchResponseAbortedTransaction{ProducerId: a.ProducerID, FirstOffset: a.FirstOffset})
		}
		if aborted == nil {
			aborted = []protocol.FetchResponseAbortedTransaction{}
		}
		out.AbortedTransactions = aborted
	}
	out.Records = noRecords
	external := env.Part{}
	if r.Records.Len > 0 {
		external = env.Part{File: r.Records.File, Offset: r.Records.Pos, Length: int64(r.Records.Len)}
	}
	p.reply.External = append(p.reply.External, external)
	if p.version >= 16 && (r.Err == kerr.NotLeaderOrFollower.Code || r.Err == kerr.FencedLeaderEpoch.Code) {
		p.hint(out, part)
	}
}

var noRecords = []byte{}

// hint says who leads now.
func (p *fetching) hint(out *protocol.FetchResponsePartitionData, part *replica.FetchPart) {
	found, node := leaderOf(p.b.Image(), part.Topic, part.Index, p.listener)
	if found == nil {
		return
	}
	out.CurrentLeader = protocol.FetchResponseLeaderIdAndEpoch{LeaderId: found.Leader, LeaderEpoch: found.LeaderEpoch}
	if node == nil {
		return
	}
	for _, n := range p.resp.NodeEndpoints {
		if n.NodeId == found.Leader {
			return
		}
	}
	p.resp.NodeEndpoints = append(p.resp.NodeEndpoints, protocol.FetchResponseNodeEndpoint{NodeId: found.Leader, Host: node.endpoint.Host, Port: int32(node.endpoint.Port), Rack: node.broker.Rack})
}

func (p *fetching) send() {
	p.reply.Response, p.reply.Release = &p.resp, p.release
	p.respond(&p.reply)
}

// released is called when the records were sent.
func (p *fetching) released() {
	p.fetch.Release()
	clear(p.reply.External)
	p.reply.External = p.reply.External[:0]
	p.resp.Responses, p.resp.NodeEndpoints = p.resp.Responses[:0], p.resp.NodeEndpoints[:0]
	p.resp.ErrorCode, p.resp.SessionId = 0, 0
	p.b, p.ctx, p.respond, p.fetch = nil, nil, nil, nil
	fetchPool.Put(p)
}
