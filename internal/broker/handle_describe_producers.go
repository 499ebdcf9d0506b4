package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeProducers is key 61, version 0 (KIP-664). Path: partition → what its log knows of idempotent and transactional producers. Any replica
// answers, not the leader alone.
//
// Errors of a partition, in this order: 17 illegal name, with a text; 3 unknown, with a text if the whole topic is; 6 another broker's, 56 its
// directory failed.
func (b *Broker) DescribeProducers(_ *rpc.Context, req *protocol.DescribeProducersRequest, respond func(*protocol.DescribeProducersResponse)) {
	resp := protocol.NewDescribeProducersResponse()
	img := b.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		var wrong *kerr.Error
		switch {
		case !legalTopicName(t.Name):
			wrong = kerr.InvalidTopicException
		case img.Topics.ByName(t.Name) == nil:
			wrong = kerr.UnknownTopicOrPartition
		}
		r := protocol.DescribeProducersResponseTopicResponse{Name: t.Name}
		for _, index := range t.PartitionIndexes {
			p := protocol.NewDescribeProducersResponsePartitionResponse()
			p.PartitionIndex = index
			if wrong != nil {
				text := wrong.Name + ": topic " + t.Name
				p.ErrorCode, p.ErrorMessage = wrong.Code, &text
			} else {
				b.describeProducers(&p, replica.TopicPartition{Topic: t.Name, Partition: index})
			}
			r.Partitions = append(r.Partitions, p)
		}
		resp.Topics = append(resp.Topics, r)
	}
	respond(resp)
}

func (b *Broker) describeProducers(r *protocol.DescribeProducersResponsePartitionResponse, tp replica.TopicPartition) {
	var producers []replica.Producer
	p, err := b.data.Partition(tp)
	if err == nil {
		producers, err = p.Producers()
	}
	r.ErrorCode = kerr.Code(err)
	for _, p := range producers {
		r.ActiveProducers = append(r.ActiveProducers, protocol.DescribeProducersResponseProducerState{
			ProducerId: p.ID, ProducerEpoch: int32(p.Epoch), LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp,
			CoordinatorEpoch: p.CoordinatorEpoch, CurrentTxnStartOffset: p.TxnStart,
		})
	}
}
