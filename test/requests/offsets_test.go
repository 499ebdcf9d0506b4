package requests

import (
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// listOffset asks for one timestamp of partition 0 and returns error, offset and timestamp.
func (n *node) listOffset(version int16, topic string, isolation int8, timestamp int64) string {
	n.t.Helper()
	return n.listOffsetOf(version, topic, 0, isolation, timestamp)
}

func (n *node) listOffsetOf(version int16, topic string, partition int32, isolation int8, timestamp int64) string {
	n.t.Helper()
	r := protocol.NewListOffsetsRequest()
	r.ReplicaId, r.IsolationLevel = -1, isolation
	r.Topics = []protocol.ListOffsetsRequestListOffsetsTopic{{Name: topic, Partitions: []protocol.ListOffsetsRequestListOffsetsPartition{{PartitionIndex: partition, CurrentLeaderEpoch: -1, Timestamp: timestamp}}}}
	p := ask[*protocol.ListOffsetsResponse](n.dial(), version, r).Topics[0].Partitions[0]
	return fmt.Sprint(p.ErrorCode, p.Offset, p.Timestamp)
}

func TestListOffsets(t *testing.T) {
	n := start(t)
	n.create("t", 1, "retention.ms", "-1")
	n.create("empty", 1)
	b := record.NewBuilder(0, record.None)
	for _, ms := range []int64{1000, 5000, 3000} {
		b.Append(ms, nil, []byte("v"))
	}
	n.produce("t", 0, built(b))
	n.produce("t", 0, batchAt(2000, 1))
	for _, c := range []struct {
		name      string
		timestamp int64
		from      int16 // version
		full      string
		empty     string
	}{
		{"latest", -1, 1, "0 4 -1", "0 0 -1"},
		{"earliest", -2, 1, "0 0 -1", "0 0 -1"},
		{"of the largest timestamp", -3, 7, "0 1 5000", "0 -1 -1"},
		{"earliest here", -4, 8, "0 0 -1", "0 0 -1"},
		{"last tiered", -5, 9, "0 -1 -1", "0 -1 -1"},
		{"next to be tiered", -6, 11, "0 -1 -1", "0 -1 -1"},
		{"of a time", 1001, 1, "0 1 5000", "0 -1 -1"},
		{"of the first time", 0, 1, "0 0 1000", "0 -1 -1"},
		{"beyond the last", 5001, 1, "0 -1 -1", "0 -1 -1"},
	} {
		for v := c.from; v <= 11; v++ {
			what := fmt.Sprintf("%s, version %d", c.name, v)
			is(t, what, n.listOffset(v, "t", 0, c.timestamp), c.full)
			is(t, what+", empty", n.listOffset(v, "empty", 0, c.timestamp), c.empty)
		}
	}
	is(t, "last stable", n.listOffset(8, "t", 1, -1), "0 4 -1")
	del := protocol.NewDeleteRecordsRequest()
	del.TimeoutMs = 10_000
	del.Topics = []protocol.DeleteRecordsRequestDeleteRecordsTopic{{Name: "t", Partitions: []protocol.DeleteRecordsRequestDeleteRecordsPartition{{Offset: 2}}}}
	is(t, "delete records", ask[*protocol.DeleteRecordsResponse](n.dial(), 2, del).Topics[0].Partitions[0].LowWatermark, 2)
	is(t, "earliest after that", n.listOffset(8, "t", 0, -2), "0 2 -1")
	is(t, "earliest here after that", n.listOffset(8, "t", 0, -4), "0 2 -1")
}
