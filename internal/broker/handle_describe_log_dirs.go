package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeLogDirs is key 35, versions 1–5 (KIP-113). v2 is flexible. v3: an error of the whole answer. v4: size of the volume (KIP-827). v5: cordoned
// directories. Path: directories → their logs, all for null topics → answer. Topics and partitions that are not here are left out. The lag is how
// far the log end is behind the high watermark, for a future replica behind the current one.
//
// Errors of a directory: 56 it is offline.
func (b *Broker) DescribeLogDirs(_ *rpc.Context, req *protocol.DescribeLogDirsRequest, respond func(*protocol.DescribeLogDirsResponse)) {
	resp := protocol.NewDescribeLogDirsResponse()
	var wanted map[replica.TopicPartition]bool
	if req.Topics != nil {
		wanted = map[replica.TopicPartition]bool{}
	}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			wanted[replica.TopicPartition{Topic: req.Topics[i].Topic, Partition: p}] = true
		}
	}
	for _, d := range b.data.Directories() {
		r := protocol.NewDescribeLogDirsResponseDescribeLogDirsResult()
		r.LogDir = d.Path
		if d.Err != nil {
			r.ErrorCode = kerr.KafkaStorageError.Code
		} else {
			r.TotalBytes, r.UsableBytes, r.IsCordoned = d.Total, d.Usable, d.Cordoned
			r.Topics = logsByTopic(d.Logs, wanted)
		}
		resp.Results = append(resp.Results, r)
	}
	respond(resp)
}

// logsByTopic describes logs, which are sorted by topic; wanted is nil if all are.
func logsByTopic(logs []replica.DirectoryLog, wanted map[replica.TopicPartition]bool) []protocol.DescribeLogDirsResponseDescribeLogDirsTopic {
	var topics []protocol.DescribeLogDirsResponseDescribeLogDirsTopic
	for i := range logs {
		l := &logs[i]
		if wanted != nil && !wanted[l.TopicPartition] {
			continue
		}
		if n := len(topics); n == 0 || topics[n-1].Name != l.Topic {
			topics = append(topics, protocol.DescribeLogDirsResponseDescribeLogDirsTopic{Name: l.Topic})
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, protocol.DescribeLogDirsResponseDescribeLogDirsPartition{
			PartitionIndex: l.Partition, PartitionSize: l.Size, OffsetLag: max(l.Log.HighWatermark()-l.Log.EndOffset(), 0), IsFutureKey: l.Future,
		})
	}
	return topics
}
