package requests

import (
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
)

// coordinator waits until the groups' coordinator is there, of the one partition that there is.
func (n *node) coordinator() {
	n.t.Helper()
	find := protocol.NewFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"group"}
	n.eventually("a coordinator", func() bool {
		return ask[*protocol.FindCoordinatorResponse](n.dial(), 4, find).Coordinators[0].ErrorCode == 0
	})
	beat := protocol.NewHeartbeatRequest()
	beat.GroupId, beat.MemberId = "group", "m"
	n.eventually("its partition", func() bool { return ask[*protocol.HeartbeatResponse](n.dial(), 4, beat).ErrorCode == 25 })
}

func joinRequest(group, member string, instance *string) *protocol.JoinGroupRequest {
	r := protocol.NewJoinGroupRequest()
	r.GroupId, r.MemberId, r.GroupInstanceId = group, member, instance
	r.SessionTimeoutMs, r.RebalanceTimeoutMs, r.ProtocolType = 30_000, 30_000, "consumer"
	r.Protocols = []protocol.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{1}}}
	return r
}

func commitRequest(group, topic string, offset int64) *protocol.OffsetCommitRequest {
	r := protocol.NewOffsetCommitRequest()
	r.GroupId = group
	r.Topics = []protocol.OffsetCommitRequestTopic{{Name: topic, Partitions: []protocol.OffsetCommitRequestPartition{{CommittedOffset: offset, CommittedLeaderEpoch: -1}}}}
	return r
}

func (n *node) commit(group, topic string, offset int64) {
	n.t.Helper()
	n.coordinator()
	if e := ask[*protocol.OffsetCommitResponse](n.dial(), 8, commitRequest(group, topic, offset)).Topics[0].Partitions[0].ErrorCode; e != 0 {
		n.t.Fatalf("commit: error %d", e)
	}
}

// committed is the offset that a group has committed.
func (n *node) committed(group, topic string) int64 {
	n.t.Helper()
	r := protocol.NewOffsetFetchRequest()
	r.GroupId, r.Topics = group, []protocol.OffsetFetchRequestTopic{{Name: topic, PartitionIndexes: []int32{0}}}
	return ask[*protocol.OffsetFetchResponse](n.dial(), 7, r).Topics[0].Partitions[0].CommittedOffset
}

func TestJoinGroup(t *testing.T) {
	n := start(t, "offsets.topic.num.partitions=1")
	n.coordinator()
	for v := int16(0); v <= 9; v++ {
		group := fmt.Sprint("joined-", v)
		r := ask[*protocol.JoinGroupResponse](n.dial(), v, joinRequest(group, "", nil))
		if v >= 4 {
			is(t, group+": error", r.ErrorCode, 79)
			if r.MemberId == "" {
				t.Fatalf("%s: no member id", group)
			}
			r = ask[*protocol.JoinGroupResponse](n.dial(), v, joinRequest(group, r.MemberId, nil))
		}
		is(t, group, fmt.Sprint(r.ErrorCode, r.GenerationId, r.Leader == r.MemberId, r.MemberId != ""), "0 1 true true")
		if v < 5 {
			continue
		}
		// A static member joins at once, and the next of its name takes its place.
		static := fmt.Sprint("static-", v)
		first := ask[*protocol.JoinGroupResponse](n.dial(), v, joinRequest(static, "", text("one")))
		is(t, static, fmt.Sprint(first.ErrorCode, first.GenerationId), "0 1")
		second := ask[*protocol.JoinGroupResponse](n.dial(), v, joinRequest(static, "", text("one")))
		is(t, static+", second", second.ErrorCode, 0)
		if second.MemberId == first.MemberId {
			t.Errorf("%s: the second one has the id of the first", static)
		}
		beat := protocol.NewHeartbeatRequest()
		beat.GroupId, beat.GenerationId, beat.MemberId, beat.GroupInstanceId = static, first.GenerationId, first.MemberId, text("one")
		is(t, static+", heartbeat of the first", ask[*protocol.HeartbeatResponse](n.dial(), 4, beat).ErrorCode, 82)
		is(t, static+", join of the first", ask[*protocol.JoinGroupResponse](n.dial(), v, joinRequest(static, first.MemberId, text("one"))).ErrorCode, 82)
	}
}

// What is said about a group that nobody knows differs from version to version.
func TestUnknownGroup(t *testing.T) {
	n := start(t, "offsets.topic.num.partitions=1")
	n.create("t", 1)
	n.coordinator()
	p := n.dial()
	describe := protocol.NewDescribeGroupsRequest()
	describe.Groups = []string{"nobody"}
	for v := int16(0); v <= 6; v++ {
		g := ask[*protocol.DescribeGroupsResponse](p, v, describe).Groups[0]
		want := "0 Dead false"
		if v == 6 {
			want = "69 Dead true"
		}
		is(t, fmt.Sprint("DescribeGroups v", v), fmt.Sprint(g.ErrorCode, " ", g.GroupState, " ", g.ErrorMessage != nil), want)
	}
	for v := int16(2); v <= 9; v++ {
		c := commitRequest("nobody", "t", 5)
		c.GenerationIdOrMemberEpoch, c.MemberId = 3, "m"
		want := int16(22)
		if v == 9 {
			want = 69
		}
		is(t, fmt.Sprint("OffsetCommit v", v), ask[*protocol.OffsetCommitResponse](p, v, c).Topics[0].Partitions[0].ErrorCode, want)
	}
	beat := protocol.NewHeartbeatRequest()
	beat.GroupId, beat.GenerationId, beat.MemberId = "nobody", 3, "m"
	is(t, "Heartbeat", ask[*protocol.HeartbeatResponse](p, 4, beat).ErrorCode, 25)
	leave := protocol.NewLeaveGroupRequest()
	leave.GroupId, leave.Members = "nobody", []protocol.LeaveGroupRequestMemberIdentity{{MemberId: "m"}}
	left := ask[*protocol.LeaveGroupResponse](p, 5, leave)
	is(t, "LeaveGroup", fmt.Sprint(left.ErrorCode, left.Members[0].ErrorCode), "0 25")
	del := protocol.NewDeleteGroupsRequest()
	del.GroupsNames = []string{"nobody"}
	is(t, "DeleteGroups", ask[*protocol.DeleteGroupsResponse](p, 2, del).Results[0].ErrorCode, 69)
	is(t, "join", ask[*protocol.JoinGroupResponse](p, 3, joinRequest("somebody", "", nil)).ErrorCode, 0)
	del.GroupsNames = []string{"somebody"}
	is(t, "DeleteGroups of one with members", ask[*protocol.DeleteGroupsResponse](p, 2, del).Results[0].ErrorCode, 68)
	fetch := protocol.NewOffsetFetchRequest()
	fetch.GroupId, fetch.Topics = "nobody", []protocol.OffsetFetchRequestTopic{{Name: "t", PartitionIndexes: []int32{0}}}
	o := ask[*protocol.OffsetFetchResponse](p, 7, fetch).Topics[0].Partitions[0]
	is(t, "OffsetFetch", fmt.Sprintf("%d %d %d %q", o.ErrorCode, o.CommittedOffset, o.CommittedLeaderEpoch, orNull(o.Metadata)), `0 -1 -1 ""`)
	fetch.Topics = nil
	all := ask[*protocol.OffsetFetchResponse](p, 7, fetch)
	is(t, "OffsetFetch of all", fmt.Sprint(all.ErrorCode, len(all.Topics)), "0 0")
}
