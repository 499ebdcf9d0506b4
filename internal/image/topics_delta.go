package image

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// TopicsDelta says which topics and partitions changed between two images.
type TopicsDelta struct {
	base    *Topics
	byName  tableDelta[string, *Topic]
	byID    tableDelta[string, *Topic]
	changed map[uuid.UUID]*TopicDelta // created or changed, and still there
	deleted map[uuid.UUID]*Topic      // of base
}

// TopicDelta is the change of one topic that still exists.
type TopicDelta struct {
	Old *Topic // nil if the topic was created
	New *Topic
	// changed are the partitions that were created or changed.
	changed map[int32]struct{}
	// early are partitions whose predecessors are not there yet. The order of a snapshot is not promised. Those
	// that stay early to the end are not part of the image.
	early map[int32]*Partition
}

func newTopicsDelta(base *Topics) *TopicsDelta {
	d := &TopicsDelta{base: base, changed: map[uuid.UUID]*TopicDelta{}, deleted: map[uuid.UUID]*Topic{}}
	if base != nil {
		d.byName.base, d.byID.base = base.byName, base.byID
	}
	return d
}

func (d *TopicsDelta) put(t *Topic) {
	d.byName.put(t.Name, t)
	d.byID.put(idKey(t.ID), t)
}

func (d *TopicsDelta) apply() *Topics {
	return &Topics{byName: d.byName.current(), byID: d.byID.current()}
}

// topic returns the delta of a topic with a New that may be written to.
func (d *TopicsDelta) topic(id uuid.UUID) (*TopicDelta, error) {
	if td := d.changed[id]; td != nil {
		return td, nil
	}
	old, ok := d.byID.get(idKey(id))
	if !ok {
		return nil, fmt.Errorf("no topic with id %s", id)
	}
	td := &TopicDelta{Old: old, New: &Topic{Name: old.Name, ID: old.ID, Partitions: slices.Clone(old.Partitions)}, changed: map[int32]struct{}{}}
	d.changed[id] = td
	d.put(td.New)
	return td, nil
}

func (d *TopicsDelta) replayTopic(r *metadata.TopicRecord) error {
	if old, ok := d.byName.get(r.Name); ok && old.ID != r.TopicId {
		return fmt.Errorf("topic %s has id %s, cannot be created with id %s", r.Name, old.ID, r.TopicId)
	}
	if _, ok := d.byID.get(idKey(r.TopicId)); ok {
		return fmt.Errorf("topic with id %s is there already", r.TopicId)
	}
	td := &TopicDelta{New: &Topic{Name: r.Name, ID: r.TopicId}, changed: map[int32]struct{}{}}
	d.changed[r.TopicId] = td
	d.put(td.New)
	return nil
}

func (d *TopicsDelta) replayPartition(r *metadata.PartitionRecord) error {
	td, err := d.topic(r.TopicId)
	if err != nil {
		return err
	}
	p := newPartition(r)
	switch id := r.PartitionId; {
	case id < 0:
		return fmt.Errorf("partition %s-%d", td.New.Name, id)
	case int(id) < len(td.New.Partitions):
		td.New.Partitions[id] = p
	case int(id) == len(td.New.Partitions):
		td.New.Partitions = append(td.New.Partitions, p)
		td.appendEarly()
	default:
		if td.early == nil {
			td.early = map[int32]*Partition{}
		}
		td.early[id] = p
	}
	td.changed[r.PartitionId] = struct{}{}
	return nil
}

func (td *TopicDelta) appendEarly() {
	for len(td.early) > 0 {
		id := int32(len(td.New.Partitions))
		p, ok := td.early[id]
		if !ok {
			return
		}
		td.New.Partitions = append(td.New.Partitions, p)
		delete(td.early, id)
	}
}

func (d *TopicsDelta) replayPartitionChange(r *metadata.PartitionChangeRecord) error {
	td, err := d.topic(r.TopicId)
	if err != nil {
		return err
	}
	switch p, early := td.New.Partition(r.PartitionId), td.early[r.PartitionId]; {
	case p != nil:
		td.New.Partitions[r.PartitionId] = p.merge(r)
	case early != nil:
		td.early[r.PartitionId] = early.merge(r)
	default:
		return fmt.Errorf("no partition %s-%d", td.New.Name, r.PartitionId)
	}
	td.changed[r.PartitionId] = struct{}{}
	return nil
}

// remove deletes a topic and returns its name.
func (d *TopicsDelta) remove(id uuid.UUID) (string, error) {
	topic, ok := d.byID.get(idKey(id))
	if !ok {
		return "", fmt.Errorf("no topic with id %s", id)
	}
	d.byName.delete(topic.Name)
	d.byID.delete(idKey(id))
	delete(d.changed, id)
	if old := d.base.ByID(id); old != nil {
		d.deleted[id] = old
	}
	return topic.Name, nil
}

// clearELR empties the lists of eligible leader replicas of one topic, or of all if name is empty.
func (d *TopicsDelta) clearELR(name string) error {
	if name != "" {
		topic, ok := d.byName.get(name)
		if !ok {
			return fmt.Errorf("no topic %s", name)
		}
		return d.clearTopicELR(topic)
	}
	var ids []*Topic // collected first: the tree must not change under the iteration
	for _, topic := range d.byName.current().all() {
		ids = append(ids, topic)
	}
	for _, topic := range ids {
		if err := d.clearTopicELR(topic); err != nil {
			return err
		}
	}
	return nil
}

func (d *TopicsDelta) clearTopicELR(topic *Topic) error {
	for i, p := range topic.Partitions {
		if len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
			continue
		}
		td, err := d.topic(topic.ID)
		if err != nil {
			return err
		}
		n := *p
		n.ELR, n.LastKnownELR = nil, nil
		n.PartitionEpoch++
		td.New.Partitions[i] = &n
		td.changed[int32(i)] = struct{}{}
	}
	return nil
}

// replace makes the topics what next is.
func (d *TopicsDelta) replace(next *Topics) {
	for topic := range d.base.All() {
		if next.ByID(topic.ID) == nil {
			_, _ = d.remove(topic.ID)
		}
	}
	for topic := range next.All() {
		old := d.base.ByID(topic.ID)
		if old != nil && old.equal(topic) {
			continue
		}
		td := &TopicDelta{Old: old, New: topic, changed: map[int32]struct{}{}}
		for i, p := range topic.Partitions {
			if o := old.Partition(int32(i)); o == nil || !o.equal(p) {
				td.changed[int32(i)] = struct{}{}
			}
		}
		d.changed[topic.ID] = td
		d.put(topic)
	}
}

func byName(a, b *Topic) int { return strings.Compare(a.Name, b.Name) }

// Changed are the topics that were created or changed and still exist, sorted by name.
func (d *TopicsDelta) Changed() []*TopicDelta {
	if d == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.changed), func(a, b *TopicDelta) int { return byName(a.New, b.New) })
}

// Created are the topics that the base does not have, sorted by name.
func (d *TopicsDelta) Created() []*Topic {
	var out []*Topic
	for _, td := range d.Changed() {
		if td.Old == nil {
			out = append(out, td.New)
		}
	}
	return out
}

// Deleted are the topics of the base that are gone, sorted by name. There may be a new one of the same name.
func (d *TopicsDelta) Deleted() []*Topic {
	if d == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.deleted), byName)
}

// Topic returns the change of a topic; nil if it did not change or is gone.
func (d *TopicsDelta) Topic(id uuid.UUID) *TopicDelta {
	if d == nil {
		return nil
	}
	return d.changed[id]
}

// Partitions are the ids of the partitions that were created or changed, sorted.
func (td *TopicDelta) Partitions() []int32 {
	ids := slices.Sorted(maps.Keys(td.changed))
	n := len(ids)
	for n > 0 && int(ids[n-1]) >= len(td.New.Partitions) { // early to the end
		n--
	}
	return ids[:n]
}

// LocalChanges are the changes of partitions that concern one broker, each list sorted by topic and partition.
type LocalChanges struct {
	// Deletes: the broker is not a replica any more, or the topic is gone. Topic and Partition are those of the base.
	Deletes []LocalPartition
	// Leaders: the broker leads, and something about the partition changed.
	Leaders []LocalPartition
	// Followers: the broker is a replica that does not lead, and something about the partition changed.
	Followers []LocalPartition
}

// LocalPartition is a partition of which a broker has a replica.
type LocalPartition struct {
	Topic     *Topic
	ID        int32
	Partition *Partition
	Old       *Partition // nil if the topic or the partition is new
}

// Elected reports whether the change began a new leader epoch.
func (l LocalPartition) Elected() bool {
	return l.Old == nil || l.Old.LeaderEpoch != l.Partition.LeaderEpoch
}

// LocalChanges are the changes that concern a broker.
func (d *TopicsDelta) LocalChanges(broker int32) LocalChanges {
	var c LocalChanges
	for _, topic := range d.Deleted() {
		for id, p := range topic.Partitions {
			if p.HasReplica(broker) {
				c.Deletes = append(c.Deletes, LocalPartition{topic, int32(id), p, p})
			}
		}
	}
	for _, td := range d.Changed() {
		td.addLocal(&c, broker)
	}
	slices.SortStableFunc(c.Deletes, func(a, b LocalPartition) int {
		return cmp.Or(strings.Compare(a.Topic.Name, b.Topic.Name), cmp.Compare(a.ID, b.ID))
	})
	return c
}

// LocalChanges are the changes of this topic that concern a broker.
func (td *TopicDelta) LocalChanges(broker int32) LocalChanges {
	var c LocalChanges
	if td != nil {
		td.addLocal(&c, broker)
	}
	return c
}

func (td *TopicDelta) addLocal(c *LocalChanges, broker int32) {
	for _, id := range td.Partitions() {
		p, old := td.New.Partitions[id], td.Old.Partition(id)
		local := LocalPartition{td.New, id, p, old}
		switch {
		case !p.HasReplica(broker):
			if old.HasReplica(broker) {
				c.Deletes = append(c.Deletes, LocalPartition{td.Old, id, old, old})
			}
		case p.Leader == broker:
			c.Leaders = append(c.Leaders, local)
		default:
			c.Followers = append(c.Followers, local)
		}
	}
}
