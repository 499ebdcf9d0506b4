package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// noLeader stands for a partition without leader, noLeaderChange in a record for one whose leader stays.
const (
	noLeader       int32 = -1
	noLeaderChange int32 = -2
)

// States of a leader after an unclean election (KIP-704).
const (
	recovered        int8 = 0
	recovering       int8 = 1
	noRecoveryChange int8 = -1
)

// topicPartition names a partition by its topic's id.
type topicPartition struct {
	topicID   uuid.UUID
	partition int32
}

func compareTopicPartition(a, b topicPartition) int {
	if c := a.topicID.Compare(b.topicID); c != 0 {
		return c
	}
	return int(a.partition) - int(b.partition)
}

// partition is the registration of a partition. It is immutable: a change makes a new one, and slices are shared
// between them and with records.
//
// I7: ISR and ELR are subsets of the replicas and disjoint; the leader is in the ISR; both epochs only grow.
type partition struct {
	replicas       []int32
	directories    []uuid.UUID // by replica
	isr            []int32
	removing       []int32
	adding         []int32
	elr            []int32
	lastKnownELR   []int32
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32
	leaderRecovery int8
}

// newPartition reads a record. Kafka keeps no directories, or only zero ones, as "migrating" for each replica.
func newPartition(r *metadata.PartitionRecord) (*partition, error) {
	if len(r.Directories) > 0 && len(r.Directories) != len(r.Replicas) {
		return nil, fmt.Errorf("partition record with %d replicas has %d directories", len(r.Replicas), len(r.Directories))
	}
	return &partition{
		replicas:       r.Replicas,
		directories:    orMigrating(r.Directories, len(r.Replicas)),
		isr:            r.Isr,
		removing:       r.RemovingReplicas,
		adding:         r.AddingReplicas,
		elr:            r.EligibleLeaderReplicas,
		lastKnownELR:   r.LastKnownElr,
		leader:         r.Leader,
		leaderEpoch:    r.LeaderEpoch,
		partitionEpoch: r.PartitionEpoch,
		leaderRecovery: r.LeaderRecoveryState,
	}, nil
}

func orMigrating(directories []uuid.UUID, replicas int) []uuid.UUID {
	for _, d := range directories {
		if d != uuid.DirMigrating {
			return directories
		}
	}
	return make([]uuid.UUID, replicas)
}

// merge returns the partition after a change. The partition epoch always grows, the leader epoch exactly when the
// record names a leader, be it the same one.
func (p *partition) merge(r *metadata.PartitionChangeRecord) (*partition, error) {
	n := *p
	if r.Replicas != nil {
		n.replicas = r.Replicas
	}
	if r.Directories != nil {
		n.directories = r.Directories
	}
	n.directories = orMigrating(n.directories, len(n.replicas))
	if len(n.directories) != len(n.replicas) {
		return nil, fmt.Errorf("partition change leaves %d replicas with %d directories", len(n.replicas), len(n.directories))
	}
	if r.Isr != nil {
		n.isr = r.Isr
	}
	if r.RemovingReplicas != nil {
		n.removing = r.RemovingReplicas
	}
	if r.AddingReplicas != nil {
		n.adding = r.AddingReplicas
	}
	if r.EligibleLeaderReplicas != nil {
		n.elr = r.EligibleLeaderReplicas
	}
	if r.LastKnownElr != nil {
		n.lastKnownELR = r.LastKnownElr
	}
	if r.LeaderRecoveryState != noRecoveryChange {
		n.leaderRecovery = r.LeaderRecoveryState
	}
	if r.Leader != noLeaderChange {
		n.leader = r.Leader
		n.leaderEpoch++
	}
	n.partitionEpoch++
	return &n, nil
}

// record is the partition as it is written when it is created.
func (p *partition) record(topicID uuid.UUID, id int32, v metadata.Version) metadata.Versioned {
	r := metadata.NewPartitionRecord()
	r.PartitionId, r.TopicId = id, topicID
	r.Replicas, r.Isr = p.replicas, p.isr
	r.RemovingReplicas, r.AddingReplicas = p.removing, p.adding
	r.Leader, r.LeaderRecoveryState = p.leader, p.leaderRecovery
	r.LeaderEpoch, r.PartitionEpoch = p.leaderEpoch, p.partitionEpoch
	if v.DirectoryAssignment() {
		r.Directories = p.directories
	}
	return metadata.Versioned{Record: r, Version: v.RecordVersion(r)}
}

func (p *partition) hasLeader() bool { return p.leader != noLeader }

func (p *partition) hasPreferredLeader() bool {
	return p.leader == p.preferredReplica()
}

func (p *partition) preferredReplica() int32 {
	if len(p.replicas) == 0 {
		return noLeader
	}
	return p.replicas[0]
}

func (p *partition) isReassigning() bool { return len(p.removing) > 0 || len(p.adding) > 0 }

// directory is where a replica keeps the partition; ok is false if there is no such replica.
func (p *partition) directory(replica int32) (dir uuid.UUID, ok bool) {
	i := slices.Index(p.replicas, replica)
	if i < 0 {
		return uuid.Zero, false
	}
	return p.directories[i], true
}

func (p *partition) equal(o *partition) bool {
	return slices.Equal(p.replicas, o.replicas) && slices.Equal(p.directories, o.directories) &&
		slices.Equal(p.isr, o.isr) && slices.Equal(p.removing, o.removing) && slices.Equal(p.adding, o.adding) &&
		slices.Equal(p.elr, o.elr) && slices.Equal(p.lastKnownELR, o.lastKnownELR) &&
		p.leader == o.leader && p.leaderEpoch == o.leaderEpoch && p.partitionEpoch == o.partitionEpoch &&
		p.leaderRecovery == o.leaderRecovery
}

// String is how Kafka's log lines show a partition.
func (p *partition) String() string {
	return fmt.Sprintf("PartitionRegistration(replicas=%s, directories=%s, isr=%s, removingReplicas=%s, "+
		"addingReplicas=%s, elr=%s, lastKnownElr=%s, leader=%d, leaderRecoveryState=%s, leaderEpoch=%d, partitionEpoch=%d)",
		listText(p.replicas), listText(p.directories), listText(p.isr), listText(p.removing), listText(p.adding),
		listText(p.elr), listText(p.lastKnownELR), p.leader, recoveryText(p.leaderRecovery), p.leaderEpoch, p.partitionEpoch)
}

// diff says what changed since prev, in Kafka's words; empty if nothing did.
func (p *partition) diff(prev *partition) string {
	var parts []string
	add := func(name, from, to string) {
		if from != to {
			parts = append(parts, name+": "+from+" -> "+to)
		}
	}
	add("replicas", listText(prev.replicas), listText(p.replicas))
	add("directories", listText(prev.directories), listText(p.directories))
	add("isr", listText(prev.isr), listText(p.isr))
	add("removingReplicas", listText(prev.removing), listText(p.removing))
	add("addingReplicas", listText(prev.adding), listText(p.adding))
	add("leader", fmt.Sprint(prev.leader), fmt.Sprint(p.leader))
	add("leaderRecoveryState", recoveryText(prev.leaderRecovery), recoveryText(p.leaderRecovery))
	add("leaderEpoch", fmt.Sprint(prev.leaderEpoch), fmt.Sprint(p.leaderEpoch))
	add("elr", listText(prev.elr), listText(p.elr))
	add("lastKnownElr", listText(prev.lastKnownELR), listText(p.lastKnownELR))
	add("partitionEpoch", fmt.Sprint(prev.partitionEpoch), fmt.Sprint(p.partitionEpoch))
	return strings.Join(parts, ", ")
}

// listText writes a list as Java does: [1, 2].
func listText[T any](list []T) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, list[i])
	}
	b.WriteByte(']')
	return b.String()
}

func recoveryText(state int8) string {
	if state == recovering {
		return "RECOVERING"
	}
	return "RECOVERED"
}
