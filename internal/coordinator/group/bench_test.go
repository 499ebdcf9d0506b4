package group

import (
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// BenchmarkOffsetCommit is one commit of three partitions, from the decoded request to the answer, on a log in memory.
func BenchmarkOffsetCommit(b *testing.B) {
	w := newWorld()
	ctx := &rpc.Context{ClientID: "c", APIVersion: 9}
	req := protocol.NewOffsetCommitRequest()
	topic := protocol.NewOffsetCommitRequestTopic()
	topic.Name = "t"
	for i := range int32(3) {
		p := protocol.NewOffsetCommitRequestPartition()
		p.PartitionIndex, p.CommittedMetadata = i, new(string)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	b.ReportAllocs()
	for i := range b.N {
		req.GroupId = groupNames[i%len(groupNames)]
		ok := false
		w.svc.OffsetCommit(ctx, req, func(resp *protocol.OffsetCommitResponse) { ok = resp.Topics[0].Partitions[2].ErrorCode == 0 })
		w.clock.settle()
		if !ok {
			b.Fatal("not committed")
		}
		if i%1000 == 0 {
			for p := range int32(2) {
				w.logs.Partition(p).Forget()
			}
		}
	}
}

// BenchmarkHeartbeat is one heartbeat of a group of 1,000 members.
func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld()
	w.svc.cfg.MaxSize = 10_000
	ctx := &rpc.Context{ClientID: "c", APIVersion: 3}
	join := protocol.NewJoinGroupRequest()
	join.GroupId, join.ProtocolType, join.SessionTimeoutMs, join.RebalanceTimeoutMs = "g", "consumer", 10_000, 10_000
	join.Protocols = []protocol.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
	var members []string
	for range 1000 {
		w.svc.JoinGroup(ctx, join, func(resp *protocol.JoinGroupResponse) { members = append(members, resp.MemberId) })
	}
	w.clock.advance(testConfig().CommitTimeout)
	req := protocol.NewHeartbeatRequest()
	req.GroupId, req.GenerationId = "g", 1
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.MemberId = members[i%len(members)]
		code := int16(-1)
		w.svc.Heartbeat(ctx, req, func(resp *protocol.HeartbeatResponse) { code = resp.ErrorCode })
		w.clock.settle()
		if code != 0 {
			b.Fatal("error", code)
		}
	}
}

var groupNames = func() (names []string) {
	for i := range 100 {
		names = append(names, fmt.Sprintf("group-%d", i))
	}
	return names
}()
