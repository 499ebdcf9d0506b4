package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// Versions of the values that are written; all versions are read.
const (
	groupMetadataVersion      = 3 // without tags, as 4.4.0 writes it
	offsetCommitVersion       = 4 // with the topic id
	offsetCommitExpireVersion = 1 // the only one with an expiry time: for commits with a retention time
)

type valueMessage interface {
	Decode(d *wire.Decoder, version int16) error
}

type keyMessage interface {
	Encode(b []byte, version int16) ([]byte, error)
	RecordKey() int16
}

// encodeKey is the record type, then the key. Keys have strings below 32 KiB, so it cannot fail for what came in
// through the protocol.
func encodeKey(m keyMessage) []byte {
	b, err := m.Encode(binary.BigEndian.AppendUint16(nil, uint16(m.RecordKey())), 0)
	if err != nil {
		panic(fmt.Sprintf("encode key of coordinator record %d: %v", m.RecordKey(), err))
	}
	return b
}

// encodeValue is the version, then the value.
func encodeValue(m keyMessage, version int16) []byte {
	b, err := m.Encode(binary.BigEndian.AppendUint16(nil, uint16(version)), version)
	if err != nil {
		panic(fmt.Sprintf("encode value of coordinator record %d version %d: %v", m.RecordKey(), version, err))
	}
	return b
}

func decodeValue(m valueMessage, b []byte) error {
	if len(b) < 2 {
		return fmt.Errorf("value has %d bytes", len(b))
	}
	return m.Decode(wire.NewDecoder(b[2:]), int16(binary.BigEndian.Uint16(b)))
}

func offsetKey(group, topic string, partition int32) []byte {
	return encodeKey(&protocol.OffsetCommitKey{Group: group, Topic: topic, Partition: partition})
}

// offsetRecord is a committed offset.
func offsetRecord(group, topic string, partition int32, o offset) coordinator.Record {
	version := int16(offsetCommitVersion)
	if o.expireTimeMs >= 0 {
		version = offsetCommitExpireVersion
	}
	return coordinator.Record{
		Key: offsetKey(group, topic, partition),
		Value: encodeValue(&protocol.OffsetCommitValue{
			Offset: o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata, CommitTimestamp: o.commitTimeMs,
			ExpireTimestamp: o.expireTimeMs, TopicId: o.topicID,
		}, version),
	}
}

func offsetTombstone(group, topic string, partition int32) coordinator.Record {
	return coordinator.Record{Key: offsetKey(group, topic, partition)}
}

// groupRecord is a classic group with the given assignments by member id; nil: each member's own.
func groupRecord(g *classicGroup, assignments map[string][]byte) coordinator.Record {
	v := protocol.NewGroupMetadataValue()
	v.ProtocolType, v.Generation, v.Protocol, v.Leader = deref(g.protocolType, ""), g.generation, g.protocol, g.leader
	v.CurrentStateTimestamp = g.stateTimeMs
	for _, m := range g.members {
		d := protocol.NewGroupMetadataValueMemberMetadata()
		d.MemberId, d.GroupInstanceId, d.ClientId, d.ClientHost = m.id, m.instanceID, m.clientID, m.clientHost
		d.RebalanceTimeout, d.SessionTimeout = m.rebalanceTimeoutMs, m.sessionTimeoutMs
		d.Subscription, d.Assignment = m.metadata(deref(g.protocol, "")), m.assignment
		if assignments != nil {
			d.Assignment = assignments[m.id]
		}
		v.Members = append(v.Members, d)
	}
	return coordinator.Record{Key: groupKey(g.id), Value: encodeValue(v, groupMetadataVersion)}
}

func groupKey(id string) []byte { return encodeKey(&protocol.GroupMetadataKey{Group: id}) }

var errShortKey = errors.New("coordinator record has no record type in its key")

// replay applies one record of the log, of whatever type. Types that are not known are left alone: a newer
// release has written them, and may come back.
func (s *shard) replay(recordOffset, producerID int64, key, value []byte) error {
	if len(key) < 2 {
		return errShortKey
	}
	kind := int16(binary.BigEndian.Uint16(key))
	d := wire.NewDecoder(key[2:])
	switch kind {
	case keyLegacyOffset, keyOffset:
		return s.replayOffset(recordOffset, producerID, kind, d, value)
	case keyClassicGroup:
		var k protocol.GroupMetadataKey
		if err := k.Decode(d, 0); err != nil {
			return err
		}
		return s.replayClassic(k.Group, value)
	}
	family, known := kindOf(kind)
	if !known {
		s.rt.Logger().Warn("Unknown record type, maybe the data in the log is newer than this server; ignoring it", "recordType", kind)
		return nil
	}
	groupID := d.String(false)
	memberID := ""
	if memberOf(kind) {
		memberID = d.String(false)
	}
	if d.Failed() {
		return d.Err()
	}
	return s.replayModern(family, kind, groupID, memberID, key, value)
}

func (s *shard) replayOffset(recordOffset, producerID int64, kind int16, d *wire.Decoder, value []byte) error {
	var k protocol.OffsetCommitKey // the legacy key has the same fields
	if err := k.Decode(d, 0); err != nil {
		return err
	}
	if value == nil {
		s.offsets.replayTombstone(k.Group, k.Topic, k.Partition)
		return nil
	}
	v := protocol.NewOffsetCommitValue()
	if err := decodeValue(v, value); err != nil {
		return err
	}
	if _, ok := s.groups[k.Group]; !ok {
		s.groups[k.Group] = s.newClassic(k.Group) // a simple group: offsets without members
	}
	s.offsets.replayCommit(producerID, k.Group, k.Topic, k.Partition, offsetFromValue(v, recordOffset))
	return nil
}

// replayClassic replaces a group by what its record says. Members' timers are armed when the loading ends.
func (s *shard) replayClassic(id string, value []byte) error {
	old, classic := s.groups[id].(*classicGroup)
	if classic {
		s.stopTimers(old)
	}
	if value == nil {
		if classic { // else the group has gone over to another protocol
			delete(s.groups, id)
		}
		return nil
	}
	v := protocol.NewGroupMetadataValue()
	if err := decodeValue(v, value); err != nil {
		return err
	}
	g := s.newClassic(id)
	g.state = empty
	if len(v.Members) > 0 {
		g.state = stable
	}
	if v.ProtocolType != "" {
		g.protocolType = &v.ProtocolType
	}
	g.generation, g.stateTimeMs = v.Generation, v.CurrentStateTimestamp
	for i := range v.Members {
		if _, again := g.byID[v.Members[i].MemberId]; again {
			return fmt.Errorf("group %q has member %q twice", id, v.Members[i].MemberId)
		}
		g.add(s.memberFromRecord(g, v, &v.Members[i]), nil)
	}
	g.protocol, g.leader = v.Protocol, v.Leader
	if g.leader != nil && g.byID[*g.leader] == nil {
		g.leader = nil
		if len(g.members) > 0 {
			g.leader = &g.members[0].id
		}
	}
	g.subscribed = g.subscriptions()
	s.groups[id] = g
	return nil
}

func (s *shard) memberFromRecord(g *classicGroup, v *protocol.GroupMetadataValue, d *protocol.GroupMetadataValueMemberMetadata) *member {
	m := &member{
		id: d.MemberId, instanceID: d.GroupInstanceId, clientID: d.ClientId, clientHost: d.ClientHost,
		rebalanceTimeoutMs: d.RebalanceTimeout, sessionTimeoutMs: d.SessionTimeout, protocolType: v.ProtocolType,
		candidates: []candidate{{deref(v.Protocol, ""), slices.Clone(d.Subscription)}}, assignment: slices.Clone(d.Assignment),
	}
	if m.rebalanceTimeoutMs == -1 {
		m.rebalanceTimeoutMs = m.sessionTimeoutMs
	}
	m.heartbeat = s.heartbeatTimer(g, m)
	return m
}

func (s *shard) replayModern(family groupType, kind int16, id, memberID string, key, value []byte) error {
	g, ok := s.groups[id].(*modernGroup)
	if ok && g.kind != family && value != nil {
		ok = false // the group was deleted and made again under another protocol
	}
	if value == nil {
		if !ok || g.kind != family {
			return nil
		}
		delete(g.keys, string(key))
		g.applyTombstone(kind, memberID)
		if kind == keyConsumerGroup || kind == keyShareGroup || kind == keyStreamsGroup {
			delete(s.groups, id)
		}
		return nil
	}
	if !ok {
		if old, classic := s.groups[id].(*classicGroup); classic {
			s.stopTimers(old) // upgraded to the new protocol
		}
		g = newModernGroup(id, family)
		s.groups[id] = g
	}
	g.keys[string(key)] = kind
	return g.apply(kind, memberID, func(m valueMessage) error { return decodeValue(m, value) })
}
