package broker

import (
	"errors"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Produce is key 0, versions 3–13. v5: log start offset in the answer. v7: zstd (KIP-110). v8: what is wrong with single records
// (KIP-467). v10: who leads now (KIP-951). v12: transactions of version 2 (KIP-890). v13: topic ids (KIP-516). Path: acks and
// transactional id → topics and partitions → replica.Manager.Append, which waits for the followers if acks is -1 → answer, or none
// with acks 0. Errors: 21 for acks; 53 transactional records without transactional id; of a partition 3 or 100 unknown, 17 an internal
// topic, 6 not the leader, 19 and 20 too few replicas, and those of the log.
func (b *Broker) Produce(ctx *rpc.Context, req *protocol.ProduceRequest, respond func(*protocol.ProduceResponse)) {
	p := newProducing()
	p.b, p.ctx, p.req, p.respond = b, ctx, req, respond
	a := b.data.NewAppend()
	a.Acks, a.Timeout = req.Acks, time.Duration(req.TimeoutMs)*time.Millisecond
	a.Options.ProduceVersion = ctx.APIVersion
	refusal := p.refusal()
	for i := range req.TopicData {
		t := &req.TopicData[i]
		for j := range t.PartitionData {
			e := replica.AppendEntry{Records: t.PartitionData[j].Records, Err: refusal}
			if refusal == nil {
				e.Partition, e.Err = p.partition(t, t.PartitionData[j].Index)
			}
			a.Entries = append(a.Entries, e)
		}
	}
	b.data.Append(a, p.done)
}

// producing is one produce on its way. It is used again.
type producing struct {
	b       *Broker
	ctx     *rpc.Context
	req     *protocol.ProduceRequest
	respond func(*protocol.ProduceResponse)
	resp    protocol.ProduceResponse
	done    func(*replica.Append) // = finish, made once
}

var producePool sync.Pool

func newProducing() *producing {
	if p, _ := producePool.Get().(*producing); p != nil {
		return p
	}
	p := new(producing)
	p.done = p.finish
	return p
}

// refusal is why the whole request is refused.
func (p *producing) refusal() error {
	if a := p.req.Acks; a != replica.AcksNone && a != replica.AcksLeader && a != replica.AcksAll {
		return kerr.InvalidRequiredAcks
	}
	if p.req.TransactionalId != nil {
		return nil
	}
	for i := range p.req.TopicData {
		for _, d := range p.req.TopicData[i].PartitionData {
			if len(d.Records) >= record.BatchHeaderSize && record.Batch(d.Records).IsTransactional() {
				return kerr.TransactionalIdAuthorizationFailed
			}
		}
	}
	return nil
}

// partition finds what a client wants to append to.
func (p *producing) partition(t *protocol.ProduceRequestTopicProduceData, index int32) (*replica.Partition, error) {
	var part *replica.Partition
	var err error
	if p.ctx.APIVersion >= 13 {
		part, err = p.b.data.PartitionByID(t.TopicId, index)
	} else {
		part, err = p.b.data.Partition(replica.TopicPartition{Topic: t.Name, Partition: index})
	}
	if err == nil && internalTopic(part.Topic) && p.ctx.ClientID != adminClient {
		return nil, kerr.InvalidTopicException
	}
	return part, err
}

// adminClient is the client id of Kafka's own tools, which may append to internal topics.
const adminClient = "__admin_client"

// finish answers.
func (p *producing) finish(a *replica.Append) {
	failed := false
	n := 0
	p.resp.Responses = sized(p.resp.Responses, len(p.req.TopicData))
	p.resp.NodeEndpoints = p.resp.NodeEndpoints[:0]
	for i := range p.req.TopicData {
		t, out := &p.req.TopicData[i], &p.resp.Responses[i]
		out.Name, out.TopicId = t.Name, t.TopicId
		out.PartitionResponses = sized(out.PartitionResponses, len(t.PartitionData))
		for j := range t.PartitionData {
			p.answer(&out.PartitionResponses[j], t.PartitionData[j].Index, &a.Entries[n])
			failed = failed || a.Entries[n].Err != nil
			n++
		}
	}
	a.Release()
	respond, ctx, acks := p.respond, p.ctx, p.req.Acks
	if acks == replica.AcksNone {
		if failed {
			ctx.CloseConn("a produce request with acks=0 failed")
		}
		respond(nil)
	} else {
		respond(&p.resp)
	}
	p.b, p.ctx, p.req, p.respond = nil, nil, nil, nil
	producePool.Put(p)
}

// sized gives a slice another length and keeps what its elements hold, to be used again.
func sized[E any](s []E, n int) []E {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]E, n-cap(s))...)
}

// answer fills in the answer for one partition.
func (p *producing) answer(out *protocol.ProduceResponsePartitionProduceResponse, index int32, e *replica.AppendEntry) {
	out.SetDefaults()
	out.Index = index
	out.LogStartOffset = e.LogStart
	if e.Err == nil {
		out.BaseOffset, out.LogAppendTimeMs = e.Info.BaseOffset, e.Info.AppendTime
		return
	}
	out.ErrorCode, out.BaseOffset = kerr.Code(e.Err), -1
	var refused *replica.RefusedError
	if errors.As(e.Err, &refused) {
		for _, r := range refused.Records {
			out.RecordErrors = append(out.RecordErrors, protocol.ProduceResponseBatchIndexAndErrorMessage{BatchIndex: r.Index, BatchIndexErrorMessage: &r.Message})
		}
		out.ErrorMessage = &refused.Cause.Reason
	}
	if out.ErrorCode == kerr.NotLeaderOrFollower.Code && p.ctx.APIVersion >= 10 {
		p.hint(out, e)
	}
}

// hint says who leads now.
func (p *producing) hint(out *protocol.ProduceResponsePartitionProduceResponse, e *replica.AppendEntry) {
	if e.Partition == nil {
		return
	}
	img := p.b.Image()
	part, node := leaderOf(img, e.Partition.Topic, e.Partition.Index, p.ctx.Listener)
	if part == nil {
		return
	}
	out.CurrentLeader = protocol.ProduceResponseLeaderIdAndEpoch{LeaderId: part.Leader, LeaderEpoch: part.LeaderEpoch}
	if node == nil {
		return
	}
	for _, n := range p.resp.NodeEndpoints {
		if n.NodeId == part.Leader {
			return
		}
	}
	p.resp.NodeEndpoints = append(p.resp.NodeEndpoints, protocol.ProduceResponseNodeEndpoint{NodeId: part.Leader, Host: node.endpoint.Host, Port: int32(node.endpoint.Port), Rack: node.broker.Rack})
}

// leaderNode is where a leader listens.
type leaderNode struct {
	broker   *image.Broker
	endpoint image.Endpoint
}

// leaderOf finds a partition and, if it has one that can be reached, its leader.
func leaderOf(img *image.Image, topic string, index int32, listener string) (*image.Partition, *leaderNode) {
	part := img.Topics.Partition(topic, index)
	if part == nil {
		return nil, nil
	}
	br := img.Cluster.Broker(part.Leader)
	if br == nil {
		return part, nil
	}
	if e, ok := br.Endpoint(listener); ok {
		return part, &leaderNode{br, e}
	}
	return part, nil
}
