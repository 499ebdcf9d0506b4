package group

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// groupType is the protocol that a group uses, as ListGroups has it.
type groupType int8

const (
	classicType groupType = iota
	consumerType
	shareType
	streamsType
)

var groupTypeNames = [...]string{"classic", "consumer", "share", "streams"}

func (t groupType) String() string { return groupTypeNames[t] }

// anyGroup is a group of whatever protocol.
type anyGroup interface {
	groupID() string
	groupType() groupType
	stateName() string
	isEmpty() bool
	subscribedTo(topic string) bool
}

// modernMember is what of a member's records decides about states and offsets.
type modernMember struct {
	known   bool // its metadata record is there; else only leftovers of assignments
	epoch   int32
	settled bool // its state is STABLE
	topics  []string
	regex   bool
}

// modernGroup is a consumer, share or streams group, as far as its records tell. The records themselves stay in the
// log; their keys are kept, so that the group can be deleted.
type modernGroup struct {
	id          string
	kind        groupType
	epoch       int32 // of the group's metadata
	targetEpoch int32 // of the assignment
	members     map[string]*modernMember
	keys        map[string]int16 // key bytes of live records → record type
	topology    bool             // streams: known
	expiry      *coordinator.Timer
}

func newModernGroup(id string, kind groupType) *modernGroup {
	return &modernGroup{id: id, kind: kind, members: make(map[string]*modernMember), keys: make(map[string]int16)}
}

func (g *modernGroup) groupID() string      { return g.id }
func (g *modernGroup) groupType() groupType { return g.kind }

func (g *modernGroup) memberCount() int {
	n := 0
	for _, m := range g.members {
		if m.known {
			n++
		}
	}
	return n
}

func (g *modernGroup) isEmpty() bool { return g.memberCount() == 0 }

// stateName is the state as Kafka computes it from epochs.
func (g *modernGroup) stateName() string {
	switch {
	case g.isEmpty():
		return "Empty"
	case g.kind == shareType:
		return "Stable"
	case g.kind == streamsType && !g.topology:
		return "NotReady"
	case g.epoch > g.targetEpoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if m.known && !(m.settled && m.epoch == g.targetEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// protocolType is what ListGroups says.
func (g *modernGroup) protocolType() string {
	switch g.kind {
	case shareType:
		return "share"
	case streamsType:
		return "streams"
	default:
		return consumerProtocolType
	}
}

// subscribedTo says whether a member may read the topic. A regular expression, which is resolved by the coordinator
// of the members' protocol, counts as all topics.
func (g *modernGroup) subscribedTo(topic string) bool {
	if g.kind != consumerType {
		return false
	}
	for _, m := range g.members {
		if m.known && (m.regex || slices.Contains(m.topics, topic)) {
			return true
		}
	}
	return false
}

func (g *modernGroup) member(id string) *modernMember {
	m, ok := g.members[id]
	if !ok {
		m = &modernMember{}
		g.members[id] = m
	}
	return m
}

// validateOffsets checks the member of an OffsetFetch or OffsetCommit. commit: an empty group takes the offsets of
// those who belong to no generation.
func (g *modernGroup) validateOffsets(memberID *string, epoch int32, commit bool) error {
	if epoch < 0 && (g.isEmpty() && commit || !commit && (memberID == nil || *memberID == "")) {
		return nil
	}
	m, ok := g.members[deref(memberID, "")]
	switch {
	case !ok || !m.known:
		return kerr.UnknownMemberId
	case m.epoch != epoch:
		return kerr.StaleMemberEpoch
	}
	return nil
}

// tombstoneOrder is the order in which Kafka deletes a group's records: what depends on something goes first.
var tombstoneOrder = []int16{
	keyConsumerCurrentAssignment, keyConsumerTargetMember, keyConsumerTargetMetadata, keyConsumerMember, keyConsumerRegex,
	keyConsumerPartitions, keyConsumerGroup,
	keyShareCurrentAssignment, keyShareTargetMember, keyShareTargetMetadata, keyShareMember, keyShareStatePartitions, keyShareGroup,
	keyStreamsCurrentAssignment, keyStreamsTargetMember, keyStreamsTargetMetadata, keyStreamsMember, keyStreamsTopology, keyStreamsGroup,
}

// tombstones deletes all records of the group, or only those that belong to members.
func (g *modernGroup) tombstones() []coordinator.Record {
	keys := slices.SortedFunc(maps.Keys(g.keys), func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(tombstoneOrder, g.keys[a]), slices.Index(tombstoneOrder, g.keys[b])), cmp.Compare(a, b))
	})
	records := make([]coordinator.Record, 0, len(keys))
	for _, k := range keys {
		records = append(records, coordinator.Record{Key: []byte(k)})
	}
	return records
}

// Record types of __consumer_offsets: the first two bytes of a key.
const (
	keyLegacyOffset              int16 = 0
	keyOffset                    int16 = 1
	keyClassicGroup              int16 = 2
	keyConsumerGroup             int16 = 3
	keyConsumerPartitions        int16 = 4
	keyConsumerMember            int16 = 5
	keyConsumerTargetMetadata    int16 = 6
	keyConsumerTargetMember      int16 = 7
	keyConsumerCurrentAssignment int16 = 8
	keyShareMember               int16 = 10
	keyShareGroup                int16 = 11
	keyShareTargetMetadata       int16 = 12
	keyShareTargetMember         int16 = 13
	keyShareCurrentAssignment    int16 = 14
	keyShareStatePartitions      int16 = 15
	keyConsumerRegex             int16 = 16
	keyStreamsGroup              int16 = 17
	keyStreamsMember             int16 = 19
	keyStreamsTargetMetadata     int16 = 20
	keyStreamsTargetMember       int16 = 21
	keyStreamsCurrentAssignment  int16 = 22
	keyStreamsTopology           int16 = 23
)

// kindOf is the protocol that a record type belongs to; false for types that this release does not know.
func kindOf(key int16) (groupType, bool) {
	switch key {
	case keyConsumerGroup, keyConsumerPartitions, keyConsumerMember, keyConsumerTargetMetadata, keyConsumerTargetMember,
		keyConsumerCurrentAssignment, keyConsumerRegex:
		return consumerType, true
	case keyShareMember, keyShareGroup, keyShareTargetMetadata, keyShareTargetMember, keyShareCurrentAssignment, keyShareStatePartitions:
		return shareType, true
	case keyStreamsGroup, keyStreamsMember, keyStreamsTargetMetadata, keyStreamsTargetMember, keyStreamsCurrentAssignment, keyStreamsTopology:
		return streamsType, true
	}
	return classicType, false
}

// memberOf says for a record type whether its key names a member after the group.
func memberOf(key int16) bool {
	switch key {
	case keyConsumerMember, keyConsumerTargetMember, keyConsumerCurrentAssignment,
		keyShareMember, keyShareTargetMember, keyShareCurrentAssignment,
		keyStreamsMember, keyStreamsTargetMember, keyStreamsCurrentAssignment:
		return true
	}
	return false
}

// stableMember is MemberState.STABLE in a current assignment; streams members have the same value.
const stableMember = 0

// apply takes in a record of the group. decode reads the value into a message.
func (g *modernGroup) apply(key int16, memberID string, decode func(valueMessage) error) error {
	switch key {
	case keyConsumerGroup:
		var v protocol.ConsumerGroupMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		g.epoch = v.Epoch
	case keyShareGroup:
		var v protocol.ShareGroupMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		g.epoch = v.Epoch
	case keyStreamsGroup:
		var v protocol.StreamsGroupMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		g.epoch = v.Epoch
	case keyConsumerTargetMetadata:
		var v protocol.ConsumerGroupTargetAssignmentMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		g.targetEpoch = v.AssignmentEpoch
	case keyStreamsTargetMetadata:
		var v protocol.StreamsGroupTargetAssignmentMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		g.targetEpoch = v.AssignmentEpoch
	case keyConsumerMember:
		var v protocol.ConsumerGroupMemberMetadataValue
		if err := decode(&v); err != nil {
			return err
		}
		m := g.member(memberID)
		m.known, m.topics, m.regex = true, v.SubscribedTopicNames, deref(v.SubscribedTopicRegex, "") != ""
	case keyShareMember, keyStreamsMember:
		g.member(memberID).known = true
	case keyConsumerCurrentAssignment:
		var v protocol.ConsumerGroupCurrentMemberAssignmentValue
		if err := decode(&v); err != nil {
			return err
		}
		m := g.member(memberID)
		m.epoch, m.settled = v.MemberEpoch, v.State == stableMember
	case keyStreamsCurrentAssignment:
		var v protocol.StreamsGroupCurrentMemberAssignmentValue
		if err := decode(&v); err != nil {
			return err
		}
		m := g.member(memberID)
		m.epoch, m.settled = v.MemberEpoch, v.State == stableMember
	case keyStreamsTopology:
		g.topology = true
	}
	return nil
}

// applyTombstone takes a record of the group back.
func (g *modernGroup) applyTombstone(key int16, memberID string) {
	switch key {
	case keyConsumerMember, keyShareMember, keyStreamsMember:
		delete(g.members, memberID)
	case keyConsumerCurrentAssignment, keyStreamsCurrentAssignment:
		if m, ok := g.members[memberID]; ok {
			m.epoch, m.settled = -1, false
		}
	case keyConsumerTargetMetadata, keyStreamsTargetMetadata:
		g.targetEpoch = -1
	case keyStreamsTopology:
		g.topology = false
	}
}
