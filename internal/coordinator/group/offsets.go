package group

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// offset is one committed offset.
type offset struct {
	offset       int64
	leaderEpoch  int32 // -1 unknown
	metadata     string
	commitTimeMs int64
	expireTimeMs int64     // -1: retention applies; set by commits of v2-4 with a retention time
	topicID      uuid.UUID // zero before 4.4-IV2
	recordOffset int64     // where in the log the record is: the later one counts
}

// usable says whether the offset belongs to the topic that is asked for: a topic that was deleted and made again has
// another id. A zero id, on either side, is not compared.
func (o offset) usable(topicID uuid.UUID) bool {
	return o.topicID == uuid.Zero || topicID == uuid.Zero || o.topicID == topicID
}

// topicOffsets is offsets by topic and partition.
type topicOffsets map[string]map[int32]offset

func (t topicOffsets) get(topic string, partition int32) (offset, bool) {
	o, ok := t[topic][partition]
	return o, ok
}

func (t topicOffsets) remove(topic string, partition int32) {
	delete(t[topic], partition)
	if len(t[topic]) == 0 {
		delete(t, topic)
	}
}

// all walks in the order of topic and partition.
func (t topicOffsets) all() iter.Seq2[topicPartition, offset] {
	return func(yield func(topicPartition, offset) bool) {
		for _, topic := range slices.Sorted(maps.Keys(t)) {
			for _, p := range slices.Sorted(maps.Keys(t[topic])) {
				if !yield(topicPartition{topic, p}, t[topic][p]) {
					return
				}
			}
		}
	}
}

type topicPartition struct {
	topic     string
	partition int32
}

func compareTopicPartition(a, b topicPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// groupOffsets is offsets by group.
type groupOffsets map[string]topicOffsets

func (g groupOffsets) put(group, topic string, partition int32, o offset) {
	topics := g[group]
	if topics == nil {
		topics = make(topicOffsets)
		g[group] = topics
	}
	partitions := topics[topic]
	if partitions == nil {
		partitions = make(map[int32]offset)
		topics[topic] = partitions
	}
	partitions[partition] = o
}

func (g groupOffsets) remove(group, topic string, partition int32) {
	topics, ok := g[group]
	if !ok {
		return
	}
	topics.remove(topic, partition)
	if len(topics) == 0 {
		delete(g, group)
	}
}

// offsets is what the groups of one partition have committed, and what open transactions have pending.
type offsets struct {
	committed groupOffsets
	pending   map[int64]groupOffsets        // by producer id; moved to committed, or dropped, by its end marker
	open      map[string]map[int64]struct{} // by group: the producers with something pending
}

func newOffsets() offsets {
	return offsets{committed: make(groupOffsets), pending: make(map[int64]groupOffsets), open: make(map[string]map[int64]struct{})}
}

// hasPending says whether a transaction that may change a committed offset is open (KIP-447).
func (o *offsets) hasPending(group, topic string, partition int32) bool {
	for producer := range o.open[group] {
		if _, ok := o.pending[producer][group].get(topic, partition); ok {
			return true
		}
	}
	return false
}

// allOf lists where a group has a committed or pending offset, in order.
func (o *offsets) allOf(group string) []topicPartition {
	set := make(map[topicPartition]struct{})
	for tp := range o.committed[group].all() {
		set[tp] = struct{}{}
	}
	for producer := range o.open[group] {
		for tp := range o.pending[producer][group].all() {
			set[tp] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(set), compareTopicPartition)
}

func offsetFromValue(v *protocol.OffsetCommitValue, recordOffset int64) offset {
	return offset{
		offset: v.Offset, leaderEpoch: v.LeaderEpoch, metadata: v.Metadata, commitTimeMs: v.CommitTimestamp,
		expireTimeMs: v.ExpireTimestamp, topicID: v.TopicId, recordOffset: recordOffset,
	}
}

// replayCommit stores an offset: at once, or as pending in its producer's transaction.
func (o *offsets) replayCommit(producerID int64, group, topic string, partition int32, v offset) {
	if producerID < 0 {
		o.committed.put(group, topic, partition, v)
		return
	}
	if o.pending[producerID] == nil {
		o.pending[producerID] = make(groupOffsets)
	}
	o.pending[producerID].put(group, topic, partition, v)
	if o.open[group] == nil {
		o.open[group] = make(map[int64]struct{})
	}
	o.open[group][producerID] = struct{}{}
}

// replayTombstone removes an offset, and what open transactions would set it to.
func (o *offsets) replayTombstone(group, topic string, partition int32) {
	o.committed.remove(group, topic, partition)
	for producer := range o.open[group] {
		o.pending[producer].remove(group, topic, partition)
		if _, left := o.pending[producer][group]; !left {
			o.close(group, producer)
		}
	}
}

func (o *offsets) close(group string, producer int64) {
	delete(o.open[group], producer)
	if len(o.open[group]) == 0 {
		delete(o.open, group)
	}
}

// replayEnd ends a transaction. Between a plain commit and a transaction's the one whose record is later counts,
// not the one whose marker is: compaction of the log would keep the later record.
func (o *offsets) replayEnd(producerID int64, commit bool) {
	pending, ok := o.pending[producerID]
	if !ok {
		return
	}
	delete(o.pending, producerID)
	for group, topics := range pending {
		o.close(group, producerID)
		if !commit {
			continue
		}
		for tp, v := range topics.all() {
			if old, ok := o.committed[group].get(tp.topic, tp.partition); ok && old.recordOffset >= v.recordOffset {
				continue
			}
			o.committed.put(group, tp.topic, tp.partition, v)
		}
	}
}
