package broker

import (
	"errors"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DeleteRecords is key 21, versions 0–2 (KIP-107). v2 is flexible. Path: log start moves forward → wait until it has on every replica that is alive
// → answer with the low watermark, the smallest of them. Offset -1 stands for the high watermark.
//
// Errors of a partition, in this order: 3 unknown, 17 an internal topic, 6 another leads, 56 its directory failed, 44 cleanup.policy without
// delete, 1 negative or above the high watermark, 7 some replica has not followed in time. The low watermark is -1 then.
func (b *Broker) DeleteRecords(_ *rpc.Context, req *protocol.DeleteRecordsRequest, respond func(*protocol.DeleteRecordsResponse)) {
	var all []replica.Deletion
	for i := range req.Topics {
		t := &req.Topics[i]
		for _, p := range t.Partitions {
			d := replica.Deletion{Offset: p.Offset}
			d.Partition, d.Err = b.data.Partition(replica.TopicPartition{Topic: t.Name, Partition: p.PartitionIndex})
			if internalTopic(t.Name) && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
				d.Err = kerr.InvalidTopicException
			}
			all = append(all, d)
		}
	}
	b.data.DeleteRecords(all, time.Duration(req.TimeoutMs)*time.Millisecond, func(all []replica.Deletion) {
		resp := protocol.NewDeleteRecordsResponse()
		for i := range req.Topics {
			t := &req.Topics[i]
			r := protocol.DeleteRecordsResponseDeleteRecordsTopicResult{Name: t.Name}
			for _, p := range t.Partitions {
				r.Partitions = append(r.Partitions, protocol.DeleteRecordsResponseDeleteRecordsPartitionResult{
					PartitionIndex: p.PartitionIndex, LowWatermark: all[0].LowWatermark, ErrorCode: kerr.Code(all[0].Err),
				})
				all = all[1:]
			}
			resp.Topics = append(resp.Topics, r)
		}
		respond(resp)
	})
}
