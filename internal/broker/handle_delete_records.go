package broker

import (
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DeleteRecords is key 21, versions 0–2 (KIP-107). Path: partitions → replica.Manager.DeleteRecords, which waits for the followers →
// low watermarks. Errors of a partition: 3 unknown, 17 an internal topic, 6 not the leader, 44 a topic that is only compacted, 1 an
// offset above the high watermark, 7 no answer of the followers in time.
func (b *Broker) DeleteRecords(_ *rpc.Context, req *protocol.DeleteRecordsRequest, respond func(*protocol.DeleteRecordsResponse)) {
	var all []replica.Deletion
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			d := replica.Deletion{Offset: p.Offset}
			d.Partition, d.Err = b.data.Partition(replica.TopicPartition{Topic: req.Topics[i].Name, Partition: p.PartitionIndex})
			if d.Err == nil && internalTopic(req.Topics[i].Name) {
				d.Err = kerr.InvalidTopicException
			}
			all = append(all, d)
		}
	}
	b.data.DeleteRecords(all, time.Duration(req.TimeoutMs)*time.Millisecond, func(all []replica.Deletion) {
		resp := protocol.NewDeleteRecordsResponse()
		n := 0
		for i := range req.Topics {
			out := protocol.DeleteRecordsResponseDeleteRecordsTopicResult{Name: req.Topics[i].Name}
			for _, p := range req.Topics[i].Partitions {
				d := &all[n]
				out.Partitions = append(out.Partitions, protocol.DeleteRecordsResponseDeleteRecordsPartitionResult{
					PartitionIndex: p.PartitionIndex, LowWatermark: d.LowWatermark, ErrorCode: kerr.Code(d.Err),
				})
				n++
			}
			resp.Topics = append(resp.Topics, out)
		}
		respond(resp)
	})
}
