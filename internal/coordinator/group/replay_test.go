package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/coordinator/memlog"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// loadKafka makes a world out of the two partitions that Kafka 4.4.0 wrote.
func loadKafka(t *testing.T) *world {
	t.Helper()
	w := &world{clock: newClock(1), topics: topicTable{}}
	w.logs = &memlog.Logs{}
	for _, p := range []string{"0", "1"} {
		b, err := os.ReadFile(filepath.Join("testdata/kafka", p+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.logs.Partition(int32(p[0] - '0')).Load(b); err != nil {
			t.Fatal(err)
		}
	}
	codecs, err := uuid.Parse("2hbEUdLOQ6GhwAGQoeH3hQ")
	if err != nil {
		t.Fatal(err)
	}
	w.topics["codecs"] = Topic{Name: "codecs", ID: codecs, Partitions: 5}
	w.topics[OffsetsTopic] = Topic{Name: OffsetsTopic, Partitions: 2}
	w.start()
	return w
}

// TestKafkasLog loads what Kafka 4.4.0 wrote: classic, consumer and transactional commits, group records of both protocols.
// The right answers were read from a Kafka that had loaded it.
func TestKafkasLog(t *testing.T) {
	codecs := `2hbEUdLOQ6GhwAGQoeH3hQ`
	five := " NONE #" + codecs + `-0=10/0/"meta0" NONE #` + codecs + `-1=11/0/"meta1" NONE #` + codecs + `-2=12/0/"meta2" NONE #` + codecs +
		`-3=13/0/"meta3" NONE #` + codecs + `-4=14/0/"meta4" NONE]`
	want := map[string]string{
		"g-classic":  "[g-classic" + five,
		"g-consumer": "[g-consumer" + five,
		"g-txn":      "[g-txn NONE #" + codecs + `-0=7/-1/"via-txn" NONE]`,
	}
	w := loadKafka(t)
	for group, answer := range want {
		for _, stable := range []bool{false, true} {
			if diff := cmp.Diff(answer, askOffsets(t, w, group, stable)); diff != "" {
				t.Errorf("%s, stable %v (-want +got):\n%s", group, stable, diff)
			}
		}
	}
	crash, err := uuid.Parse("PloEHitASWe6L5iJ7EykBg")
	if err != nil {
		t.Fatal(err)
	}
	w.topics["crash"] = Topic{Name: "crash", ID: crash, Partitions: 3}
	if diff := cmp.Diff("[g-crash NONE #"+crash.String()+`-0=11/0/"cm" NONE]`, askOffsets(t, w, "g-crash", true)); diff != "" {
		t.Errorf("g-crash (-want +got):\n%s", diff)
	}
}

func askOffsets(t *testing.T, w *world, group string, stable bool) string {
	t.Helper()
	req := protocol.NewOffsetFetchRequest()
	g := protocol.NewOffsetFetchRequestGroup()
	g.GroupId, g.Topics = group, nil // all
	req.Groups, req.RequireStable = append(req.Groups, g), stable
	side := &ourSide{w: w}
	s := &story{server: side}
	var out string
	side.send(protocol.KeyOffsetFetch, 10, req, func(resp protocol.Response) {
		for _, g := range resp.(*protocol.OffsetFetchResponse).Groups {
			var rows []string
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					rows = append(rows, fmt.Sprintf("%s-%d=%d/%d/%s NONE", s.topicName(t.Name, t.TopicId), p.PartitionIndex, p.CommittedOffset,
						p.CommittedLeaderEpoch, ptr(p.Metadata)))
				}
			}
			out += "[" + g.GroupId + " " + kerr.Name(g.ErrorCode) + sorted(rows) + "]"
		}
	})
	side.settle()
	return out
}

// TestKafkasBytes: each record of Kafka's log that we also write comes out byte for byte the same.
func TestKafkasBytes(t *testing.T) {
	files, err := filepath.Glob("testdata/kafka/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal("no logs", err)
	}
	kinds := map[int16]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		dec := record.GetDecompressor()
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				t.Fatal(err)
			}
			b = rest
			if batch.IsControl() {
				continue
			}
			if batch.BaseSequence() != 0 {
				t.Errorf("%s: Kafka's batch at %d has base sequence %d", f, batch.BaseOffset(), batch.BaseSequence())
			}
			it := batch.Iter(dec)
			var r record.Record
			for it.Next(&r) {
				got, ok := rewrite(t, r.Key, r.Value)
				if !ok {
					continue
				}
				kinds[int16(binary.BigEndian.Uint16(r.Key))]++
				if !bytes.Equal(got.Key, r.Key) || !bytes.Equal(got.Value, r.Value) || (got.Value == nil) != (r.Value == nil) {
					t.Errorf("%s offset %d:\nkafka %x %x\nours  %x %x", f, r.Offset, r.Key, r.Value, got.Key, got.Value)
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
		dec.Release()
	}
	if kinds[keyOffset] == 0 || kinds[keyClassicGroup] == 0 {
		t.Errorf("compared only %v", kinds)
	}
}

// rewrite reads a record into state and writes it from there.
func rewrite(t *testing.T, key, value []byte) (coordinator.Record, bool) {
	t.Helper()
	w := newWorld()
	var got coordinator.Record
	found := false
	w.svc.runtime.Do(0, "rewrite", func(s *shard) {
		if err := s.Replay(0, -1, -1, key, value); err != nil {
			t.Fatal(err)
		}
		switch int16(binary.BigEndian.Uint16(key)) {
		case keyOffset:
			var k protocol.OffsetCommitKey
			if err := k.Decode(wire.NewDecoder(key[2:]), 0); err != nil {
				t.Fatal(err)
			}
			if o, ok := s.offsets.committed[k.Group].get(k.Topic, k.Partition); ok {
				got, found = offsetRecord(k.Group, k.Topic, k.Partition, o), true
			} else {
				got, found = offsetTombstone(k.Group, k.Topic, k.Partition), true
			}
		case keyClassicGroup:
			for _, g := range s.sorted() {
				got, found = groupRecord(g.(*classicGroup), nil), true
			}
		}
	}, func(err error) { t.Fatal(err) })
	w.clock.settle()
	return got, found
}

// TestForeignRecords: records of share and streams groups, of types that nobody knows yet, and of the oldest form do
// not keep a partition from loading, and do not touch offsets.
func TestForeignRecords(t *testing.T) {
	w := newWorld()
	b := record.NewBuilder(0, record.None)
	key := func(kind int16, fields ...string) []byte {
		k := binary.BigEndian.AppendUint16(nil, uint16(kind))
		for _, f := range fields {
			k = append(binary.BigEndian.AppendUint16(k, uint16(len(f))), f...)
		}
		return k
	}
	add := func(k []byte, m keyMessage, version int16) { b.Append(1, k, encodeValue(m, version)) }
	add(key(keyShareMember, "share-0", "m1"), protocol.NewShareGroupMemberMetadataValue(), 0)
	share := protocol.NewShareGroupMetadataValue()
	share.Epoch = 4
	add(key(keyShareGroup, "share-0"), share, 0)
	streams := protocol.NewStreamsGroupMetadataValue()
	streams.Epoch = 2
	add(key(keyStreamsGroup, "streams-0"), streams, 0)
	add(key(keyStreamsMember, "streams-0", "m1"), protocol.NewStreamsGroupMemberMetadataValue(), 0)
	add(key(keyStreamsTopology, "streams-0"), protocol.NewStreamsGroupTopologyValue(), 0)
	cm := protocol.NewConsumerGroupMemberMetadataValue()
	cm.SubscribedTopicNames = []string{"t"}
	add(key(keyConsumerGroup, "co"), &protocol.ConsumerGroupMetadataValue{Epoch: 3}, 0)
	add(key(keyConsumerMember, "co", "m1"), cm, 0)
	add(key(keyConsumerTargetMetadata, "co"), &protocol.ConsumerGroupTargetAssignmentMetadataValue{AssignmentEpoch: 3}, 0)
	add(key(keyConsumerCurrentAssignment, "co", "m1"), &protocol.ConsumerGroupCurrentMemberAssignmentValue{MemberEpoch: 2}, 0)
	b.Append(1, key(99, "future"), []byte{0, 9, 1, 2, 3})
	b.Append(1, key(99, "future"), nil)
	add(offsetKey("co", "t", 1), &protocol.OffsetCommitValue{Offset: 7, LeaderEpoch: 1, Metadata: "v0", CommitTimestamp: 5}, 0)
	add(encodeKey(&protocol.LegacyOffsetCommitKey{Group: "old-0", Topic: "t"}), &protocol.LegacyOffsetCommitValue{Offset: 8, CommitTimestamp: 5}, 0)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	w.logs = &memlog.Logs{}
	if err := w.logs.Partition(0).Load(batch); err != nil {
		t.Fatal(err)
	}
	w.start()
	want := strings.TrimLeft(`
co consumer Reconciling epoch=3 target=3 members=1 records=4
  offset t-1=7/-1/"v0" at=5 expire=-1 topicId=false record=11
old-0 classic Empty type=null gen=0 protocol=null leader=null
  offset t-0=8/-1/"" at=5 expire=-1 topicId=false record=12
share-0 share Stable epoch=4 target=0 members=1 records=2
streams-0 streams Assigning epoch=2 target=0 members=1 records=3
`, "\n")
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	// Their members are not heard of: one session later the groups are empty, then the offsets' owner can be deleted.
	w.clock.advance(testConfig().ConsumerSessionTimeout)
	if got := w.state(); !strings.Contains(got, "co consumer Empty") || !strings.Contains(got, "streams-0 streams Empty") {
		t.Errorf("after the session timeout:\n%s", got)
	}
	before := w.state()
	w.svc.Close(func() {})
	w.clock.settle()
	w.start()
	if diff := cmp.Diff(before, w.state()); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	del := protocol.NewDeleteGroupsRequest()
	del.GroupsNames = []string{"co", "streams-0", "share-0", "old-0"}
	side := &ourSide{w: w}
	side.send(protocol.KeyDeleteGroups, 2, del, func(protocol.Response) {})
	side.settle()
	if got := w.state(); got != "" {
		t.Errorf("after deleting all groups:\n%s", got)
	}
}

func TestPartitionFor(t *testing.T) {
	for _, c := range []struct {
		group string
		hash  int32
		of50  int32
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"polygenelubricants", -2147483648, 0}, // Math.abs of it is negative
		{"g-classic", 486458668, 18},
		{"consumer-group-ä", 147483199, 49},
		{"\U0001F600", 1772899, 49}, // two UTF-16 code units
	} {
		if h := javaHash(c.group); h != c.hash {
			t.Errorf("hash of %q is %d, want %d", c.group, h, c.hash)
		}
		if p := PartitionFor(c.group, 50); p != c.of50 {
			t.Errorf("partition of %q is %d, want %d", c.group, p, c.of50)
		}
	}
}
