package group

import (
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
)

// FuzzReplay: whatever stands in the log, loading it does not panic, and a node that has loaded it can shut down.
func FuzzReplay(f *testing.F) {
	f.Add(offsetKey("g", "t", 1), encodeValue(&protocol.OffsetCommitValue{Offset: 1}, 4), int64(-1))
	f.Add(groupKey("g"), encodeValue(&protocol.GroupMetadataValue{Members: []protocol.GroupMetadataValueMemberMetadata{{MemberId: "m"}, {MemberId: "m"}}}, 3), int64(7))
	f.Add(encodeKey(&protocol.ConsumerGroupMemberMetadataKey{GroupId: "g", MemberId: "m"}), encodeValue(protocol.NewConsumerGroupMemberMetadataValue(), 0), int64(-1))
	f.Add([]byte{0, 99}, []byte(nil), int64(-1))
	f.Fuzz(func(t *testing.T, key, value []byte, producer int64) {
		w := newWorld()
		w.svc.runtime.Do(0, "replay", func(s *shard) {
			if s.Replay(0, producer, 0, key, value) != nil {
				return
			}
			s.Loaded()
			for _, g := range s.sorted() {
				s.describe(g.groupID(), 6)
			}
			s.list(nil, nil)
			s.expireOffsets()
		}, func(error) {})
		w.clock.settle()
		w.svc.Close(func() {})
		w.clock.settle()
	})
}
