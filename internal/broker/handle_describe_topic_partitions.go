package broker

import (
	"slices"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeTopicPartitions is key 75, version 0 (KIP-966): partitions with their eligible leader replicas, a page at a time. Path: names,
// sorted, from the cursor on → partitions until the page is full → cursor. Errors of a topic: 3 unknown, 17 illegal name. Of the request:
// 42 for a cursor outside the topics asked for, or a negative partition.
func (b *Broker) DescribeTopicPartitions(ctx *rpc.Context, req *protocol.DescribeTopicPartitionsRequest, respond func(*protocol.DescribeTopicPartitionsResponse)) {
	resp := protocol.NewDescribeTopicPartitionsResponse()
	fromTopic, fromPartition := "", int32(0)
	if c := req.Cursor; c != nil {
		fromTopic, fromPartition = c.TopicName, c.PartitionIndex
		outside := len(req.Topics) > 0 && !slices.ContainsFunc(req.Topics, func(t protocol.DescribeTopicPartitionsRequestTopicRequest) bool {
			return t.Name == c.TopicName
		})
		if outside || c.PartitionIndex < 0 {
			for _, t := range req.Topics {
				resp.Topics = append(resp.Topics, failedTopic(t.Name, kerr.InvalidRequest, false))
			}
			respond(resp)
			return
		}
	}
	img := b.Image()
	limit := max(1, min(b.cfg.Int("max.request.partition.size.limit"), int(req.ResponsePartitionLimit)))
	page := &partitionPage{view: topicView{img: img, listener: ctx.Listener, version: 13}, left: limit, resp: resp}
	if len(req.Topics) == 0 {
		for t := range img.Topics.From(fromTopic) {
			if !page.add(t.Name, t, start(t.Name, fromTopic, fromPartition)) {
				break
			}
		}
	} else {
		names := make([]string, 0, len(req.Topics))
		for _, t := range req.Topics {
			if t.Name >= fromTopic {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if !page.add(name, img.Topics.ByName(name), start(name, fromTopic, fromPartition)) {
				break
			}
		}
	}
	for i := range resp.Topics {
		resp.Topics[i].TopicAuthorizedOperations = topicOperations
	}
	respond(resp)
}

func start(name, fromTopic string, fromPartition int32) int32 {
	if name == fromTopic {
		return fromPartition
	}
	return 0
}

func failedTopic(name string, e *kerr.Error, internal bool) protocol.DescribeTopicPartitionsResponseTopic {
	r := protocol.NewDescribeTopicPartitionsResponseTopic()
	r.Name, r.ErrorCode, r.IsInternal = &name, e.Code, internal
	return r
}

// partitionPage fills an answer until it has enough partitions.
type partitionPage struct {
	view topicView
	left int
	resp *protocol.DescribeTopicPartitionsResponse
}

// add adds a topic, which is nil if there is none of that name, from a partition on. It reports false when the page is full; the
// cursor then says where the next one begins.
func (p *partitionPage) add(name string, t *image.Topic, from int32) bool {
	if p.left == 0 {
		p.resp.NextCursor = &protocol.DescribeTopicPartitionsResponseCursor{TopicName: name}
		return false
	}
	switch {
	case t == nil && legalTopicName(name):
		p.resp.Topics = append(p.resp.Topics, failedTopic(name, kerr.UnknownTopicOrPartition, internalTopic(name)))
		return true
	case t == nil:
		p.resp.Topics = append(p.resp.Topics, failedTopic(name, kerr.InvalidTopicException, internalTopic(name)))
		return true
	}
	r := protocol.NewDescribeTopicPartitionsResponseTopic()
	r.Name, r.TopicId, r.IsInternal = &t.Name, t.ID, internalTopic(t.Name)
	end := min(int64(from)+int64(p.left), int64(len(t.Partitions)))
	for id := from; int64(id) < end; id++ {
		part := t.Partitions[id]
		one := protocol.NewDescribeTopicPartitionsResponsePartition()
		one.PartitionIndex, one.LeaderEpoch, one.LeaderId = id, part.LeaderEpoch, image.NoLeader
		if _, ok := reachable(p.view.img.Cluster.Broker(part.Leader), p.view.listener); ok {
			one.LeaderId = part.Leader
		}
		one.ReplicaNodes, one.IsrNodes, one.OfflineReplicas = part.Replicas, part.ISR, p.view.offline(part)
		one.EligibleLeaderReplicas, one.LastKnownElr = notNull(part.ELR), notNull(part.LastKnownELR)
		r.Partitions = append(r.Partitions, one)
	}
	p.resp.Topics = append(p.resp.Topics, r)
	p.left -= len(r.Partitions)
	if end < int64(len(t.Partitions)) {
		p.resp.NextCursor = &protocol.DescribeTopicPartitionsResponseCursor{TopicName: name, PartitionIndex: int32(end)}
		return false
	}
	return true
}

// notNull makes an empty list of none.
func notNull(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}
