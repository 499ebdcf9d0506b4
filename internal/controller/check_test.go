package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/uuid"
)

// history is what a test remembers of partitions and topic ids to see that epochs only grow and no id comes twice (I7).
type history struct {
	epochs map[topicPartition][2]int32
	gone   map[uuid.UUID]bool
	seen   map[uuid.UUID]bool
	broker map[int32]int64
}

func newHistory() *history {
	return &history{map[topicPartition][2]int32{}, map[uuid.UUID]bool{}, map[uuid.UUID]bool{}, map[int32]int64{}}
}

// check looks at I7 for every partition, and at every index against a naive version made from the partitions.
func (h *history) check(t testing.TB, s *state, committed bool) {
	t.Helper()
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	want := newIndexes()
	now := map[uuid.UUID]bool{}
	for id, topic := range s.replication.topics.All() {
		now[id] = true
		if byName, ok := s.replication.byName.Get(topic.name); !ok || byName != id {
			say("topic %s is not found by its name", topic.name)
		}
		if h.gone[id] {
			say("topic id %s came back", id)
		}
		next := int32(0)
		for pid, p := range topic.partitions.All() {
			name := fmt.Sprintf("%s-%d", topic.name, pid)
			if pid != next {
				say("%s: partition ids have a gap at %d", name, next)
			}
			next++
			tp := topicPartition{id, pid}
			h.checkPartition(say, name, tp, p, s, committed)
			want.add(tp, p)
		}
	}
	if s.replication.byName.Len() != len(now) {
		say("%d names for %d topics", s.replication.byName.Len(), len(now))
	}
	if committed {
		for id := range h.seen {
			if !now[id] {
				h.gone[id] = true
			}
		}
		for id := range now {
			h.seen[id] = true
		}
	}
	if got := indexesOf(s.replication).String(); got != want.String() {
		say("indexes\n%s\nwant\n%s", got, want)
	}
	dirs := map[uuid.UUID]int32{}
	for id, b := range s.cluster.brokers.All() {
		if b.epoch < h.broker[id] {
			say("broker %d: epoch went back from %d to %d", id, h.broker[id], b.epoch)
		}
		if committed {
			h.broker[id] = b.epoch
		}
		for _, dir := range b.dirs {
			dirs[dir] = id
		}
		if _, ok := s.cluster.registered.Get(id); !ok {
			say("broker %d: no offset of its registration", id)
		}
	}
	for dir, id := range s.cluster.dirs.All() {
		if dirs[dir] != id {
			say("directory %s is said to be broker %d's", dir, id)
		}
		delete(dirs, dir)
	}
	for dir, id := range dirs {
		say("directory %s of broker %d is not known", dir, id)
	}
	if len(bad) > 0 {
		t.Fatalf("invariants:\n%s", strings.Join(bad, "\n"))
	}
}

func (h *history) checkPartition(say func(string, ...any), name string, tp topicPartition, p *partition, s *state, committed bool) {
	switch {
	case !validISR(p.replicas, p.isr):
		say("%s: ISR %v is not a set of replicas %v", name, p.isr, p.replicas)
	case !validISR(p.replicas, p.elr):
		say("%s: ELR %v is not a set of replicas %v", name, p.elr, p.replicas)
	case hasDuplicates(slices.Concat(p.isr, p.elr)):
		say("%s: ISR %v and ELR %v overlap", name, p.isr, p.elr)
	case hasDuplicates(p.replicas):
		say("%s: a replica is there twice: %v", name, p.replicas)
	case len(p.directories) != len(p.replicas):
		say("%s: %d directories for %d replicas", name, len(p.directories), len(p.replicas))
	case p.leader != noLeader && !slices.Contains(p.isr, p.leader):
		say("%s: leader %d is not in ISR %v", name, p.leader, p.isr)
	case len(p.isr) == 0 && !s.features.elrEnabled():
		say("%s: ISR is empty without ELR", name)
	}
	if p.leader != noLeader && !s.cluster.isActive(p.leader) && s.cluster.broker(p.leader) != nil && !s.cluster.broker(p.leader).inControlledShutdown {
		say("%s: leader %d is fenced", name, p.leader)
	}
	if old, ok := h.epochs[tp]; ok && (p.leaderEpoch < old[0] || p.partitionEpoch < old[1]) {
		say("%s: epochs %d, %d went back to %d, %d", name, old[0], old[1], p.leaderEpoch, p.partitionEpoch)
	}
	if committed {
		h.epochs[tp] = [2]int32{p.leaderEpoch, p.partitionEpoch}
	}
}

// indexes is the naive version of what replication keeps to find partitions.
type indexes struct {
	isr, elr, led map[int32][]topicPartition
	dirs          map[uuid.UUID][]topicPartition
	leaderless    []topicPartition
	imbalanced    []topicPartition
	reassigned    []topicPartition
}

func newIndexes() *indexes {
	return &indexes{isr: map[int32][]topicPartition{}, elr: map[int32][]topicPartition{}, led: map[int32][]topicPartition{}, dirs: map[uuid.UUID][]topicPartition{}}
}

func (x *indexes) add(tp topicPartition, p *partition) {
	for _, id := range p.isr {
		x.isr[id] = append(x.isr[id], tp)
	}
	for _, id := range p.elr {
		x.elr[id] = append(x.elr[id], tp)
	}
	for _, dir := range p.directories {
		if !dir.Reserved() {
			x.dirs[dir] = append(x.dirs[dir], tp)
		}
	}
	if p.leader == noLeader {
		x.leaderless = append(x.leaderless, tp)
	} else {
		x.led[p.leader] = append(x.led[p.leader], tp)
	}
	if !p.hasPreferredLeader() {
		x.imbalanced = append(x.imbalanced, tp)
	}
	if p.isReassigning() {
		x.reassigned = append(x.reassigned, tp)
	}
}

func indexesOf(m *replication) *indexes {
	x := newIndexes()
	for id := range m.inISR.sets.All() {
		x.isr[id] = m.inISR.list(id)
	}
	for id := range m.inELR.sets.All() {
		x.elr[id] = m.inELR.list(id)
	}
	for id := range m.led.sets.All() {
		x.led[id] = m.led.list(id)
	}
	for dir := range m.inDir.sets.All() {
		x.dirs[dir] = m.inDir.list(dir)
	}
	x.leaderless, x.imbalanced, x.reassigned = listSet(m.leaderless), listSet(m.imbalanced), listSet(m.reassigned)
	return x
}

func (x *indexes) String() string {
	return fmt.Sprintln("isr", x.isr) + fmt.Sprintln("elr", x.elr) + fmt.Sprintln("led", x.led) + fmt.Sprintln("dirs", x.dirs) +
		fmt.Sprintln("leaderless", x.leaderless, "imbalanced", x.imbalanced, "reassigned", x.reassigned)
}

// dump is the whole state as text, in order: two states with the same dump are the same (I6).
func (s *state) dump() string {
	var b strings.Builder
	for name, level := range s.features.levels.All() {
		fmt.Fprintf(&b, "feature %s %d\n", name, level)
	}
	for id, br := range s.cluster.brokers.All() {
		offset, _ := s.cluster.registered.Get(id)
		fmt.Fprintf(&b, "broker %d at %d: %s\n", id, offset, br)
	}
	for id, n := range s.cluster.controllers.All() {
		fmt.Fprintf(&b, "controller %d: %+v\n", id, *n)
	}
	for name, id := range s.replication.byName.All() {
		t, _ := s.replication.topics.Get(id)
		fmt.Fprintf(&b, "topic %s %s\n", name, id)
		for pid, p := range t.partitions.All() {
			fmt.Fprintf(&b, "  %d: %s\n", pid, p)
		}
	}
	for key, names := range s.replication.collisions.All() {
		fmt.Fprintf(&b, "collisions %s %v\n", key, slices.Collect(names.All()))
	}
	for r, own := range s.configs.data.All() {
		for k, v := range own.All() {
			fmt.Fprintf(&b, "config %s %s=%s\n", r, k, v)
		}
	}
	fmt.Fprintf(&b, "producer ids from %d\n", s.producerIDs.next.Get())
	for id, r := range s.security.acls.All() {
		fmt.Fprintf(&b, "acl %s %+v\n", id, *r)
	}
	for x, n := range s.security.bindings.All() {
		fmt.Fprintf(&b, "binding %+v %d\n", x, n)
	}
	for k, r := range s.security.scram.All() {
		fmt.Fprintf(&b, "scram %v %+v\n", k, *r)
	}
	for id, r := range s.tokens.byID.All() {
		fmt.Fprintf(&b, "token %s %+v\n", id, *r)
	}
	for k, v := range s.security.quotas.All() {
		fmt.Fprintf(&b, "quota %v %g\n", k, v)
	}
	fmt.Fprintf(&b, "transaction %d\n", s.transactionStart.Get())
	b.WriteString(indexesOf(s.replication).String())
	return b.String()
}
