package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/storage"
)

// Produce is key 0, versions 3–13. v5: log start offset. v7: zstd. v8: errors of single records (KIP-467). v10: who leads instead
// (KIP-951). v12: transactions of version 2 (KIP-890). v13: topic ids (KIP-516). Path: partitions → append to their logs → with
// acks=-1 wait for the followers → answer; with acks=0 nobody is answered, and an error ends the connection.
//
// Errors of the request: 2 a batch whose size or format cannot be, with a text; 53 transactional records without a transactional id.
// Of a partition, in this order: 3 or (v13) 100 unknown topic; 87 not exactly one batch of format 2, or no bytes at all, 76 zstd
// before v7; 19 with a text: a transaction that nobody knows; 21 acks; 17 an internal topic; 6 another leads, 56 its directory failed,
// 19 too few in sync for acks=-1; then those of the batch: 10, 2, 87, 32, -1; then those of its producer: 47, 45, 48; then while it
// waits: 6, 20, 7, which come with the offset. The log start offset is -1 up to 56, and with 10 and 2.
func (b *Broker) Produce(ctx *rpc.Context, req *protocol.ProduceRequest, respond func(*protocol.ProduceResponse)) {
	c := b.newProduceCall()
	c.ctx, c.req, c.respond = ctx, req, respond
	refusal := c.refusal()
	a := b.data.NewAppend()
	a.Acks, a.Timeout = req.Acks, time.Duration(req.TimeoutMs)*time.Millisecond
	a.Options = replica.AppendOptions{Origin: replica.FromClient, ProduceVersion: ctx.APIVersion}
	for i := range req.TopicData {
		t := &req.TopicData[i]
		name := c.topic(t)
		for j := range t.PartitionData {
			p := &t.PartitionData[j]
			e := replica.AppendEntry{Records: p.Records, Err: refusal}
			if refusal == nil {
				e.Partition, e.Err = c.partition(name, p)
			}
			a.Entries = append(a.Entries, e)
		}
	}
	b.data.Append(a, c.done)
}

// produceCall is one Produce under way. They are reused.
type produceCall struct {
	b       *Broker
	ctx     *rpc.Context
	req     *protocol.ProduceRequest
	respond func(*protocol.ProduceResponse)
	done    func(*replica.Append) // = answer, made once
	resp    protocol.ProduceResponse
}

func (b *Broker) newProduceCall() *produceCall {
	if c, ok := b.produceCalls.Get().(*produceCall); ok {
		return c
	}
	c := &produceCall{b: b}
	c.done = c.answer
	return c
}

// adminClient is the client id that may write to internal topics.
const adminClient = "__admin_client"

// refusal is the error of the whole request; nil if it may go on.
func (c *produceCall) refusal() error {
	for i := range c.req.TopicData {
		for _, p := range c.req.TopicData[i].PartitionData {
			batch, _, err := record.Next(p.Records)
			var bad *record.Error
			switch {
			case errors.As(err, &bad) && bad.Kind == kerr.CorruptMessage && !belowHeader(p.Records): // Kafka stumbles before it looks at partitions
				return &explained{kerr.CorruptMessage, bad.Reason}
			case err == nil && batch.IsTransactional() && c.req.TransactionalId == nil:
				return kerr.TransactionalIdAuthorizationFailed
			case err == nil && batch.IsTransactional():
				return nil // Kafka looks no further
			}
		}
	}
	return nil
}

// belowHeader reports whether the only thing wrong with the size of a batch is that it is smaller than its header.
func belowHeader(b record.Batch) bool {
	const smallestOfAnyFormat = 26
	return len(b) >= record.HeaderSizeUpToMagic && b.Magic() == record.MagicV2 && b.Length() >= smallestOfAnyFormat
}

// explained is an error whose answer has a text.
type explained struct {
	cause *kerr.Error
	text  string
}

func (e *explained) Error() string { return e.cause.Name + ": " + e.text }
func (e *explained) Unwrap() error { return e.cause }

// topic is the name of a topic, "" if it is not known by its id.
func (c *produceCall) topic(t *protocol.ProduceRequestTopicProduceData) string {
	if c.ctx.APIVersion < 13 {
		return t.Name
	}
	if topic := c.b.Image().Topics.ByID(t.TopicId); topic != nil {
		return topic.Name
	}
	return ""
}

// partition finds where records go, if they may.
func (c *produceCall) partition(topic string, p *protocol.ProduceRequestPartitionProduceData) (*replica.Partition, error) {
	if topic == "" && c.ctx.APIVersion >= 13 {
		return nil, kerr.UnknownTopicId
	}
	partition, err := c.b.data.Partition(replica.TopicPartition{Topic: topic, Partition: p.Index})
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, err
	}
	batch, badSet := record.FromProduce(p.Records, c.ctx.APIVersion)
	switch {
	case badSet != nil:
		return nil, kerr.FromCode(kerr.Code(badSet)) // without a text
	case c.b.unverified(partition, batch):
		return nil, errUnverified
	case c.req.Acks < replica.AcksAll || c.req.Acks > replica.AcksLeader:
		return nil, kerr.InvalidRequiredAcks
	case internalTopic(topic) && c.ctx.ClientID != adminClient:
		return nil, kerr.InvalidTopicException
	}
	return partition, err
}

// unverified: the coordinator of the transaction has to be asked whether it knows of this partition (KIP-890), and there is none yet.
func (b *Broker) unverified(p *replica.Partition, batch record.Batch) bool {
	if p == nil || !batch.IsTransactional() || !batch.HasProducerID() {
		return false
	}
	if on, _ := b.Image().Configs.Layers(b.cfg).Lookup("transaction.partition.verification.enable"); on == "false" {
		return false
	}
	log := p.Log()
	return log == nil || !log.InTransaction(batch.ProducerID(), batch.ProducerEpoch())
}

var errUnverified error = &explained{kerr.NotEnoughReplicas,
	"Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE"}

// answer makes the response of what became of the entries, which are in the order of the request.
func (c *produceCall) answer(a *replica.Append) {
	entries := a.Entries
	failed := false
	c.resp.Responses = resize(c.resp.Responses, len(c.req.TopicData))
	for i := range c.req.TopicData {
		t, r := &c.req.TopicData[i], &c.resp.Responses[i]
		r.Name, r.TopicId = t.Name, t.TopicId
		r.PartitionResponses = resize(r.PartitionResponses, len(t.PartitionData))
		for j := range t.PartitionData {
			c.partitionAnswer(&r.PartitionResponses[j], t, t.PartitionData[j].Index, &entries[0])
			failed = failed || entries[0].Err != nil
			entries = entries[1:]
		}
	}
	switch {
	case c.req.Acks != replica.AcksNone:
		c.respond(&c.resp)
	case failed:
		c.hangUp()
		c.respond(nil)
	default:
		c.respond(nil)
	}
	a.Release()
	c.ctx, c.req, c.respond = nil, nil, nil
	c.resp.NodeEndpoints = c.resp.NodeEndpoints[:0]
	c.b.produceCalls.Put(c)
}

func (c *produceCall) partitionAnswer(r *protocol.ProduceResponsePartitionProduceResponse, t *protocol.ProduceRequestTopicProduceData, index int32, e *replica.AppendEntry) {
	r.SetDefaults()
	r.Index, r.ErrorCode = index, kerr.Code(e.Err)
	r.BaseOffset, r.LogAppendTimeMs, r.LogStartOffset = e.Info.BaseOffset, e.Info.AppendTime, e.LogStart
	if e.Err == nil {
		return
	}
	var said *explained
	if errors.As(e.Err, &said) {
		r.ErrorMessage = &said.text
	}
	var refused *storage.RefusedError
	if errors.As(e.Err, &refused) {
		r.ErrorMessage = &refused.Cause.Reason
		for i := range refused.Records {
			r.RecordErrors = append(r.RecordErrors, protocol.ProduceResponseBatchIndexAndErrorMessage{
				BatchIndex: refused.Records[i].Index, BatchIndexErrorMessage: &refused.Records[i].Message,
			})
		}
	}
	if r.ErrorCode == kerr.NotLeaderOrFollower.Code && c.ctx.APIVersion >= 10 {
		l := c.b.leaderOf(c.topic(t), index, c.ctx.Listener)
		r.CurrentLeader = protocol.ProduceResponseLeaderIdAndEpoch{LeaderId: l.id, LeaderEpoch: l.epoch}
		if l.reachable {
			c.endpoint(l.node)
		}
	}
}

// endpoint adds a node to the response once.
func (c *produceCall) endpoint(n node) {
	for i := range c.resp.NodeEndpoints {
		if c.resp.NodeEndpoints[i].NodeId == n.id {
			return
		}
	}
	c.resp.NodeEndpoints = append(c.resp.NodeEndpoints, protocol.ProduceResponseNodeEndpoint{NodeId: n.id, Host: n.host, Port: n.port, Rack: n.rack})
}

// hangUp ends the connection of a producer that asked for no answer, so that it notices the errors. Why becomes a line in the log,
// however many there were.
func (c *produceCall) hangUp() {
	var first string
	n := 0
	for _, t := range c.resp.Responses {
		for _, p := range t.PartitionResponses {
			if p.ErrorCode == 0 {
				continue
			}
			if n++; n == 1 {
				first = fmt.Sprintf("%.300s -> %s", replica.TopicPartition{Topic: t.Name, Partition: p.Index}, kerr.Name(p.ErrorCode))
			}
		}
	}
	if n > 1 {
		first += fmt.Sprintf(" and %d more", n-1)
	}
	c.ctx.CloseConn(fmt.Sprintf("error during produce request with correlation id %d from client id %.100s with ack=0: %s",
		c.ctx.CorrelationID, c.ctx.ClientID, first))
}

// leadership is who leads a partition and how clients of a listener reach it.
type leadership struct {
	id, epoch int32
	node      node
	reachable bool
}

// leaderOf is who leads a partition as this broker knows it (KIP-951).
func (b *Broker) leaderOf(topic string, index int32, listener string) leadership {
	l := leadership{id: image.NoLeader, epoch: -1}
	img := b.Image()
	if p, err := b.data.Partition(replica.TopicPartition{Topic: topic, Partition: index}); err == nil {
		l.id, l.epoch = p.Leadership()
	} else if p := img.Topics.Partition(topic, index); p != nil {
		l.id, l.epoch = p.Leader, p.LeaderEpoch
	}
	l.node, l.reachable = reachable(img.Cluster.Broker(l.id), listener)
	l.reachable = l.reachable && !l.node.fenced
	return l
}

// resize gives a slice n elements and keeps what they hold already, for use again.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}
