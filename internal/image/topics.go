package image

import (
	"iter"
	"slices"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Topics are the topics of the cluster.
type Topics struct {
	byName *table[string, *Topic]
	byID   *table[string, *Topic] // key: the 16 bytes of the id
}

// Topic is a topic. It is immutable.
type Topic struct {
	Name string
	ID   uuid.UUID
	// Partitions are the partitions in order: the index is the partition id.
	Partitions []*Partition
}

// Partition is what the metadata log says about a partition. It is immutable, and its slices may share memory.
type Partition struct {
	Replicas            []int32 // preferred leader first
	Directories         []uuid.UUID
	ISR                 []int32
	RemovingReplicas    []int32
	AddingReplicas      []int32
	ELR                 []int32 // eligible leader replicas (KIP-966)
	LastKnownELR        []int32
	Leader              int32 // NoLeader if there is none
	LeaderEpoch         int32
	PartitionEpoch      int32 // raised by every change
	LeaderRecoveryState int8  // 1 after an unclean election until the leader has recovered
}

func idKey(id uuid.UUID) string { return string(id[:]) }

// ByName returns a topic; nil if there is none of that name.
func (t *Topics) ByName(name string) *Topic {
	if t == nil {
		return nil
	}
	topic, _ := t.byName.get(name)
	return topic
}

// ByID returns a topic; nil if there is none with that id.
func (t *Topics) ByID(id uuid.UUID) *Topic {
	if t == nil {
		return nil
	}
	topic, _ := t.byID.get(string(id[:]))
	return topic
}

// Len is the number of topics.
func (t *Topics) Len() int {
	if t == nil {
		return 0
	}
	return t.byName.len()
}

// All iterates over the topics, sorted by name.
func (t *Topics) All() iter.Seq[*Topic] { return t.From("") }

// From iterates over the topics, sorted by name, from the first whose name is not below a name.
func (t *Topics) From(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		if t == nil {
			return
		}
		for _, topic := range t.byName.from(name) {
			if !yield(topic) {
				return
			}
		}
	}
}

// Partition returns a partition of a topic; nil if there is none.
func (t *Topics) Partition(name string, partition int32) *Partition {
	return t.ByName(name).Partition(partition)
}

// Partition returns a partition by its id; nil if there is none, or no topic.
func (t *Topic) Partition(id int32) *Partition {
	if t == nil || id < 0 || int(id) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[id]
}

// HasReplica reports whether a broker is one of the replicas.
func (p *Partition) HasReplica(broker int32) bool {
	return p != nil && slices.Contains(p.Replicas, broker)
}

// Directory is the log directory of a broker's replica; DirUnassigned if it is not one of the replicas.
func (p *Partition) Directory(broker int32) uuid.UUID {
	if i := slices.Index(p.Replicas, broker); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return uuid.DirUnassigned
}

func newPartition(r *metadata.PartitionRecord) *Partition {
	p := &Partition{
		Replicas: r.Replicas, Directories: r.Directories, ISR: r.Isr, RemovingReplicas: r.RemovingReplicas,
		AddingReplicas: r.AddingReplicas, ELR: r.EligibleLeaderReplicas, LastKnownELR: r.LastKnownElr, Leader: r.Leader,
		LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, LeaderRecoveryState: r.LeaderRecoveryState,
	}
	p.compact()
	return p
}

// merge is the partition after a change. The partition epoch always goes up; the leader epoch does when the record
// names a leader, be it the same.
func (p *Partition) merge(r *metadata.PartitionChangeRecord) *Partition {
	n := *p
	n.PartitionEpoch++
	if r.Isr != nil {
		n.ISR = r.Isr
	}
	if r.Leader != noLeaderChange {
		n.Leader = r.Leader
		n.LeaderEpoch++
	}
	if r.Replicas != nil {
		n.Replicas = r.Replicas
	}
	if r.RemovingReplicas != nil {
		n.RemovingReplicas = r.RemovingReplicas
	}
	if r.AddingReplicas != nil {
		n.AddingReplicas = r.AddingReplicas
	}
	if r.LeaderRecoveryState >= 0 {
		n.LeaderRecoveryState = r.LeaderRecoveryState
	}
	if r.Directories != nil {
		n.Directories = r.Directories
	}
	if r.EligibleLeaderReplicas != nil {
		n.ELR = r.EligibleLeaderReplicas
	}
	if r.LastKnownElr != nil {
		n.LastKnownELR = r.LastKnownElr
	}
	n.compact()
	return &n
}

// noLeaderChange is the leader in a PartitionChangeRecord that does not elect one.
const noLeaderChange int32 = -2

// compact brings a partition into the form in which equal partitions are deeply equal: empty lists are nil, one directory
// per replica. A list that equals the replicas shares their memory: in most partitions all replicas are in sync.
func (p *Partition) compact() {
	if len(p.Directories) != len(p.Replicas) { // a record older than KIP-858, or a change of replicas alone
		p.Directories = make([]uuid.UUID, len(p.Replicas)) // DirMigrating
	}
	if len(p.Directories) == 0 {
		p.Directories = nil
	}
	for _, list := range []*[]int32{&p.Replicas, &p.ISR, &p.RemovingReplicas, &p.AddingReplicas, &p.ELR, &p.LastKnownELR} {
		switch {
		case len(*list) == 0:
			*list = nil
		case slices.Equal(*list, p.Replicas):
			*list = p.Replicas
		}
	}
}

func (p *Partition) equal(o *Partition) bool {
	return p.Leader == o.Leader && p.LeaderEpoch == o.LeaderEpoch && p.PartitionEpoch == o.PartitionEpoch &&
		p.LeaderRecoveryState == o.LeaderRecoveryState && slices.Equal(p.Replicas, o.Replicas) &&
		slices.Equal(p.Directories, o.Directories) && slices.Equal(p.ISR, o.ISR) &&
		slices.Equal(p.RemovingReplicas, o.RemovingReplicas) && slices.Equal(p.AddingReplicas, o.AddingReplicas) &&
		slices.Equal(p.ELR, o.ELR) && slices.Equal(p.LastKnownELR, o.LastKnownELR)
}

func (t *Topic) equal(o *Topic) bool {
	return t.Name == o.Name && t.ID == o.ID && slices.EqualFunc(t.Partitions, o.Partitions, (*Partition).equal)
}
