package broker

import (
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// DescribeLogDirs is key 35, versions 1–5 (KIP-113). v4: bytes of the volume (KIP-827). v5: cordoned directories. Path: the log
// directories → the logs in them that were asked for, all with null. Error of a directory: 56 it is offline.
func (b *Broker) DescribeLogDirs(_ *rpc.Context, req *protocol.DescribeLogDirsRequest, respond func(*protocol.DescribeLogDirsResponse)) {
	resp := protocol.NewDescribeLogDirsResponse()
	for _, d := range b.data.Directories() {
		out := protocol.NewDescribeLogDirsResponseDescribeLogDirsResult()
		out.LogDir, out.IsCordoned = d.Path, d.Cordoned
		if d.Err != nil {
			out.ErrorCode = kerr.KafkaStorageError.Code
		} else {
			out.TotalBytes, out.UsableBytes = d.Total, d.Usable
			out.Topics = describeLogs(d.Logs, req)
		}
		resp.Results = append(resp.Results, out)
	}
	respond(resp)
}

func describeLogs(logs []replica.DirectoryLog, req *protocol.DescribeLogDirsRequest) []protocol.DescribeLogDirsResponseDescribeLogDirsTopic {
	var out []protocol.DescribeLogDirsResponseDescribeLogDirsTopic
	for _, l := range logs {
		if req.Topics != nil && !slices.ContainsFunc(req.Topics, func(t protocol.DescribeLogDirsRequestDescribableLogDirTopic) bool {
			return t.Topic == l.Topic && slices.Contains(t.Partitions, l.Partition)
		}) {
			continue
		}
		if n := len(out); n == 0 || out[n-1].Name != l.Topic {
			out = append(out, protocol.DescribeLogDirsResponseDescribeLogDirsTopic{Name: l.Topic})
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, protocol.DescribeLogDirsResponseDescribeLogDirsPartition{
			PartitionIndex: l.Partition, PartitionSize: l.Size, OffsetLag: max(l.Log.HighWatermark()-l.Log.EndOffset(), 0), IsFutureKey: l.Future,
		})
	}
	return out
}
