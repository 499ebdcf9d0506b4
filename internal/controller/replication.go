package controller

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// replication owns topics and partitions, and finds the partitions that an event touches: by broker, by directory,
// those without leader, those not led by their preferred replica.
type replication struct {
	log      *slog.Logger
	registry *timeline.Registry
	features *features
	cluster  *cluster
	configs  *configs
	defaults topicDefaults
	newUUID  func() uuid.UUID
	intn     func(n int) int

	topics     *timeline.Map[uuid.UUID, *topic]
	byName     *timeline.Map[string, uuid.UUID]
	collisions *timeline.Map[string, *timeline.Set[string]] // names that contain . or _, by the name with _ for .

	inISR      *index[int32]     // by broker
	inELR      *index[int32]     // by broker
	led        *index[int32]     // by leader
	inDir      *index[uuid.UUID] // by log directory
	leaderless *timeline.Set[topicPartition]
	imbalanced *timeline.Set[topicPartition] // the leader is not the preferred replica
	reassigned *timeline.Set[topicPartition]
}

// topicDefaults are for requests that leave the counts open (KIP-464).
type topicDefaults struct {
	partitions  int32
	replication int16
}

// topic is a topic's name, id and partitions. Partitions are 0, 1, 2 and so on.
type topic struct {
	name       string
	id         uuid.UUID
	partitions *timeline.Map[int32, *partition]
}

func newReplication(log *slog.Logger, s *state, defaults topicDefaults, newUUID func() uuid.UUID, intn func(int) int) *replication {
	r := s.registry
	return &replication{
		log: log, registry: r, features: s.features, cluster: s.cluster, configs: s.configs,
		defaults: defaults, newUUID: newUUID, intn: intn,
		topics:     timeline.NewMap[uuid.UUID, *topic](r, uuid.UUID.Compare),
		byName:     timeline.NewOrderedMap[string, uuid.UUID](r),
		collisions: timeline.NewOrderedMap[string, *timeline.Set[string]](r),
		inISR:      newIndex(timeline.NewOrderedMap[int32, *timeline.Set[topicPartition]](r), r),
		inELR:      newIndex(timeline.NewOrderedMap[int32, *timeline.Set[topicPartition]](r), r),
		led:        newIndex(timeline.NewOrderedMap[int32, *timeline.Set[topicPartition]](r), r),
		inDir:      newIndex(timeline.NewMap[uuid.UUID, *timeline.Set[topicPartition]](r, uuid.UUID.Compare), r),
		leaderless: timeline.NewSet(r, compareTopicPartition),
		imbalanced: timeline.NewSet(r, compareTopicPartition),
		reassigned: timeline.NewSet(r, compareTopicPartition),
	}
}

// index finds partitions by a key.
type index[K any] struct {
	registry *timeline.Registry
	sets     *timeline.Map[K, *timeline.Set[topicPartition]]
}

func newIndex[K any](sets *timeline.Map[K, *timeline.Set[topicPartition]], r *timeline.Registry) *index[K] {
	return &index[K]{r, sets}
}

func (x *index[K]) add(key K, tp topicPartition) {
	set, ok := x.sets.Get(key)
	if !ok {
		set = timeline.NewSet(x.registry, compareTopicPartition)
		x.sets.Put(key, set)
	}
	set.Add(tp)
}

func (x *index[K]) remove(key K, tp topicPartition) {
	set, ok := x.sets.Get(key)
	if !ok {
		return
	}
	set.Delete(tp)
	if set.Len() == 0 {
		x.sets.Delete(key)
	}
}

// list are the partitions under a key, sorted. It is a copy: what is done with them may change the index.
func (x *index[K]) list(key K) []topicPartition {
	set, ok := x.sets.Get(key)
	if !ok {
		return nil
	}
	return listSet(set)
}

func (x *index[K]) has(key K) bool { return x.sets.Has(key) }

func listSet(set *timeline.Set[topicPartition]) []topicPartition {
	list := make([]topicPartition, 0, set.Len())
	for tp := range set.All() {
		list = append(list, tp)
	}
	return list
}

// reindex moves a partition from where its old registration put it to where the new one does; nil is none. Only
// differences are written: most changes leave most lists alone.
func (m *replication) reindex(tp topicPartition, old, now *partition) {
	none := &partition{leader: noLeader}
	was, is := old, now
	if was == nil {
		was = none
	}
	if is == nil {
		is = none
	}
	diff(was.isr, is.isr, func(id int32) { m.inISR.remove(id, tp) }, func(id int32) { m.inISR.add(id, tp) })
	diff(was.elr, is.elr, func(id int32) { m.inELR.remove(id, tp) }, func(id int32) { m.inELR.add(id, tp) })
	diff(was.directories, is.directories,
		func(dir uuid.UUID) {
			if !dir.Reserved() {
				m.inDir.remove(dir, tp)
			}
		},
		func(dir uuid.UUID) {
			if !dir.Reserved() {
				m.inDir.add(dir, tp)
			}
		})
	if was.leader != is.leader {
		if was.leader != noLeader {
			m.led.remove(was.leader, tp)
		}
		if is.leader != noLeader {
			m.led.add(is.leader, tp)
		}
	}
	mark(m.leaderless, tp, now != nil && !now.hasLeader())
	mark(m.imbalanced, tp, now != nil && !now.hasPreferredLeader())
	mark(m.reassigned, tp, now != nil && now.isReassigning())
}

func mark(set *timeline.Set[topicPartition], tp topicPartition, member bool) {
	if member {
		set.Add(tp)
	} else {
		set.Delete(tp)
	}
}

// diff calls gone and come for the elements that two short lists do not share.
func diff[T comparable](old, now []T, gone, come func(T)) {
	has := func(list []T, x T) bool {
		for _, y := range list {
			if x == y {
				return true
			}
		}
		return false
	}
	for _, x := range old {
		if !has(now, x) {
			gone(x)
		}
	}
	for _, x := range now {
		if !has(old, x) {
			come(x)
		}
	}
}

func (m *replication) find(tp topicPartition) (*topic, *partition) {
	t, ok := m.topics.Get(tp.topicID)
	if !ok {
		return nil, nil
	}
	p, _ := t.partitions.Get(tp.partition)
	return t, p
}

func (m *replication) topicByName(name string) *topic {
	id, ok := m.byName.Get(name)
	if !ok {
		return nil
	}
	t, _ := m.topics.Get(id)
	return t
}

// effectiveMinISR is what min.insync.replicas comes to: never more than there are replicas.
func (m *replication) effectiveMinISR(t *topic) int {
	minISR := m.configs.minISR(t.name)
	if p, ok := t.partitions.Get(0); ok {
		minISR = min(minISR, len(p.replicas))
	}
	return minISR
}

func (m *replication) defaultDir(broker int32) uuid.UUID {
	if !m.features.version().DirectoryAssignment() {
		return uuid.DirMigrating
	}
	return m.cluster.defaultDir(broker)
}

// leaderAcceptor says which replicas may lead: those that active accepts and whose directory is online.
func (m *replication) leaderAcceptor(p *partition, active func(broker int32) bool) func(broker int32) bool {
	return func(id int32) bool {
		if !active(id) {
			return false
		}
		dir, ok := p.directory(id)
		b := m.cluster.broker(id)
		return ok && b != nil && b.hasOnlineDir(dir)
	}
}

func (m *replication) replayTopic(r *metadata.TopicRecord) error {
	if id, ok := m.byName.Get(r.Name); ok {
		return fmt.Errorf("topic %s is there already, with id %s", r.Name, id)
	}
	if m.topics.Has(r.TopicId) {
		return fmt.Errorf("topic id %s of topic %s is in use", r.TopicId, r.Name)
	}
	m.byName.Put(r.Name, r.TopicId)
	if hasCollisionChars(r.Name) {
		key := unifyCollisionChars(r.Name)
		names, ok := m.collisions.Get(key)
		if !ok {
			names = timeline.NewOrderedSet[string](m.registry)
			m.collisions.Put(key, names)
		}
		names.Add(r.Name)
	}
	m.topics.Put(r.TopicId, &topic{r.Name, r.TopicId, timeline.NewOrderedMap[int32, *partition](m.registry)})
	m.log.Info(fmt.Sprintf("Replayed TopicRecord for topic %s with topic ID %s.", r.Name, r.TopicId))
	return nil
}

func (m *replication) replayPartition(r *metadata.PartitionRecord) error {
	tp := topicPartition{r.TopicId, r.PartitionId}
	t, prev := m.find(tp)
	if t == nil {
		return fmt.Errorf("no topic has the id %s of partition %d", r.TopicId, r.PartitionId)
	}
	p, err := newPartition(r)
	if err != nil {
		return err
	}
	if prev != nil && prev.equal(p) {
		return nil
	}
	t.partitions.Put(r.PartitionId, p)
	m.reindex(tp, prev, p)
	what := "new"
	if prev != nil {
		what = "existing"
	}
	if m.log.Enabled(context.Background(), slog.LevelInfo) {
		m.log.Info(fmt.Sprintf("Replayed PartitionRecord for %s partition %s-%d with topic ID %s and %s.", what, t.name, r.PartitionId, t.id, p))
	}
	return nil
}

func (m *replication) replayPartitionChange(r *metadata.PartitionChangeRecord) error {
	tp := topicPartition{r.TopicId, r.PartitionId}
	t, prev := m.find(tp)
	if t == nil {
		return fmt.Errorf("no topic has the id %s of partition %d", r.TopicId, r.PartitionId)
	}
	if prev == nil {
		return fmt.Errorf("topic %s has no partition %d", t.name, r.PartitionId)
	}
	p, err := prev.merge(r)
	if err != nil {
		return err
	}
	t.partitions.Put(r.PartitionId, p)
	m.reindex(tp, prev, p)
	level, what := slog.LevelDebug, "partition change for"
	switch {
	case p.leaderRecovery == recovering:
		level, what = slog.LevelInfo, "UNCLEAN partition change for"
	case r.RemovingReplicas != nil || r.AddingReplicas != nil:
		level, what = slog.LevelInfo, "Replayed partition assignment change for"
	}
	if m.log.Enabled(context.Background(), level) {
		m.log.Log(context.Background(), level, fmt.Sprintf("%s %s-%d with topic ID %s: %s", what, t.name, r.PartitionId, t.id, p.diff(prev)))
	}
	return nil
}

func (m *replication) replayRemoveTopic(r *metadata.RemoveTopicRecord) error {
	t, ok := m.topics.Delete(r.TopicId)
	if !ok {
		return fmt.Errorf("no topic has the id %s to remove", r.TopicId)
	}
	m.byName.Delete(t.name)
	if hasCollisionChars(t.name) {
		key := unifyCollisionChars(t.name)
		if names, ok := m.collisions.Get(key); ok {
			names.Delete(t.name)
			if names.Len() == 0 {
				m.collisions.Delete(key)
			}
		}
	}
	m.configs.deleteTopic(t.name)
	for id, p := range t.partitions.All() {
		m.reindex(topicPartition{t.id, id}, p, nil)
	}
	m.log.Info(fmt.Sprintf("Replayed RemoveTopicRecord for topic %s with ID %s.", t.name, t.id))
	return nil
}

// replayClearELR empties the ELR of a topic, or of all topics.
func (m *replication) replayClearELR(r *metadata.ClearElrRecord) error {
	if r.TopicName != "" {
		t := m.topicByName(r.TopicName)
		if t == nil {
			return fmt.Errorf("no topic named %s in order to clear its ELRs", r.TopicName)
		}
		n, err := m.clearELR(t)
		m.log.Info(fmt.Sprintf("Removed ELRs from %d partitions of topic %s.", n, t.name))
		return err
	}
	total := 0
	for _, t := range m.topics.All() {
		n, err := m.clearELR(t)
		if err != nil {
			return err
		}
		total += n
	}
	m.log.Info(fmt.Sprintf("Removed ELRs from %d partitions in all topics.", total))
	return nil
}

func (m *replication) clearELR(t *topic) (int, error) {
	var ids []int32
	for id, p := range t.partitions.All() {
		if len(p.elr) > 0 || len(p.lastKnownELR) > 0 {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		prev, _ := t.partitions.Get(id)
		r := metadata.NewPartitionChangeRecord()
		r.EligibleLeaderReplicas, r.LastKnownElr = []int32{}, []int32{}
		p, err := prev.merge(r)
		if err != nil {
			return 0, err
		}
		t.partitions.Put(id, p)
		m.reindex(topicPartition{t.id, id}, prev, p)
	}
	return len(ids), nil
}
