package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/uuid"
)

// threeVoters is an answer of a quorum of three, and one broker that observes.
func threeVoters(t *testing.T) *quorumView {
	t.Helper()
	dir := uuid.UUID{0: 1}
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = 2, 7, 100
	state := func(id int32, end, fetched, caught int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
		return kmsg.DescribeQuorumResponseTopicPartitionReplicaState{ReplicaID: id, ReplicaDirectoryID: dir,
			LogEndOffset: end, LastFetchTimestamp: fetched, LastCaughtUpTimestamp: caught}
	}
	p.CurrentVoters = append(p.CurrentVoters, state(1, 90, 900, 800), state(2, 100, 1000, 1000), state(3, 100, 990, 990))
	observer := state(10, 95, -1, -1)
	observer.ReplicaDirectoryID = uuid.Zero
	p.Observers = append(p.Observers, observer)
	answer := kmsg.NewPtrDescribeQuorumResponse()
	answer.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumResponseTopicPartition{p}}}
	answer.Nodes = []kmsg.DescribeQuorumResponseNode{{NodeID: 1, Listeners: []kmsg.DescribeQuorumResponseNodeListener{
		{Name: "CONTROLLER", Host: "a", Port: 9093}, {Name: "INTERNAL", Host: "::1", Port: 9094}}}}
	q := &quorumView{clusterID: "C"}
	if err := q.read(answer); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuorumStatus(t *testing.T) {
	var out strings.Builder
	if err := threeVoters(t).printStatus(&out); err != nil {
		t.Fatal(err)
	}
	want := `ClusterId:              C
LeaderId:               2
LeaderEpoch:            7
HighWatermark:          100
MaxFollowerLag:         10
MaxFollowerLagTimeMs:   200
CurrentVoters:          [{"id": 1, "directoryId": "AQAAAAAAAAAAAAAAAAAAAA", "endpoints": ["CONTROLLER://a:9093", "INTERNAL://[::1]:9094"]}, {"id": 2, "directoryId": "AQAAAAAAAAAAAAAAAAAAAA"}, {"id": 3, "directoryId": "AQAAAAAAAAAAAAAAAAAAAA"}]
CurrentObservers:       [{"id": 10, "directoryId": null}]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQuorumReplication(t *testing.T) {
	var out strings.Builder
	if err := threeVoters(t).printReplication(&out, true, 1010); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`NodeId|DirectoryId           |LogEndOffset|Lag|LastFetchTimestamp|LastCaughtUpTimestamp|Status  |
2     |AQAAAAAAAAAAAAAAAAAAAA|100         |0  |10 ms ago         |10 ms ago            |Leader  |
1     |AQAAAAAAAAAAAAAAAAAAAA|90          |10 |110 ms ago        |210 ms ago           |Follower|
3     |AQAAAAAAAAAAAAAAAAAAAA|100         |0  |20 ms ago         |20 ms ago            |Follower|
10    |AAAAAAAAAAAAAAAAAAAAAA|95          |5  |-1                |-1                   |Observer|
`, "|", "\t")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := threeVoters(t).printReplication(&out, true, 500); err == nil || !strings.Contains(err.Error(), "possible drift in system clock") {
		t.Errorf("a time in the future: %v", err)
	}
}
