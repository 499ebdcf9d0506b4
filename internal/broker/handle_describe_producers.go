package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeProducers is key 61, version 0 (KIP-664). Path: partition → what its log knows of idempotent producers. Errors of a
// partition: 3 unknown, 6 not here.
func (b *Broker) DescribeProducers(_ *rpc.Context, req *protocol.DescribeProducersRequest, respond func(*protocol.DescribeProducersResponse)) {
	resp := protocol.NewDescribeProducersResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := protocol.DescribeProducersResponseTopicResponse{Name: t.Name}
		for _, index := range t.PartitionIndexes {
			p := protocol.DescribeProducersResponsePartitionResponse{PartitionIndex: index}
			part, err := b.data.Partition(replica.TopicPartition{Topic: t.Name, Partition: index})
			var producers []replica.Producer
			if err == nil {
				producers, err = part.Producers()
			}
			p.ErrorCode = kerr.Code(err)
			for _, s := range producers {
				p.ActiveProducers = append(p.ActiveProducers, protocol.DescribeProducersResponseProducerState{
					ProducerId: s.ID, ProducerEpoch: int32(s.Epoch), LastSequence: s.LastSequence, LastTimestamp: s.LastTimestamp,
					CoordinatorEpoch: s.CoordinatorEpoch, CurrentTxnStartOffset: s.TxnStart,
				})
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	respond(resp)
}
