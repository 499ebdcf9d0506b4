package controller

import (
	"cmp"
	"fmt"
	"slices"
)

// placer chooses brokers for new partitions as Kafka's striped placer does: racks take turns, and within a rack the
// brokers do, each from a random start, so that replicas spread over racks and leaders over brokers. Fenced brokers
// come only when the live ones of their rack are used up, and never first. A new one is made for each topic.
//
// For racks A, B, C with three brokers each, and all starts zero: A0 B0 C0, B1 C1 A1, C2 A2 B2.
type placer struct {
	intn     func(n int) int // random
	racks    []*rack         // in the order they take turns
	brokers  int
	unfenced int
	epoch    int // how many partitions were placed since the last shuffle
	offset   int // the rack that is first next
}

// usableBroker is a broker that may get replicas.
type usableBroker struct {
	id     int32
	rack   *string
	fenced bool
}

type rack struct {
	name             *string
	unfenced, fenced turns
}

// turns is a list of brokers of which each partition starts one further on.
type turns struct {
	ids           []int32
	offset, index int
	epoch         int
}

func (t *turns) next(epoch int) (id int32, ok bool) {
	if len(t.ids) == 0 {
		return 0, false
	}
	if t.epoch != epoch {
		t.epoch, t.index = epoch, 0
		t.offset = (t.offset + 1) % len(t.ids)
	}
	if t.index >= len(t.ids) {
		return 0, false
	}
	id = t.ids[(t.index+t.offset)%len(t.ids)]
	t.index++
	return id, true
}

func (r *rack) next(epoch int) (int32, bool) {
	if id, ok := r.unfenced.next(epoch); ok {
		return id, true
	}
	return r.fenced.next(epoch)
}

func newPlacer(brokers []usableBroker, intn func(n int) int) *placer {
	p := &placer{intn: intn, brokers: len(brokers)}
	for _, b := range brokers {
		i := slices.IndexFunc(p.racks, func(r *rack) bool { return compareNullable(r.name, b.rack) == 0 })
		if i < 0 {
			i = len(p.racks)
			p.racks = append(p.racks, &rack{name: b.rack})
		}
		r := p.racks[i]
		if b.fenced {
			r.fenced.ids = append(r.fenced.ids, b.id)
		} else {
			r.unfenced.ids = append(r.unfenced.ids, b.id)
			p.unfenced++
		}
	}
	slices.SortFunc(p.racks, func(a, b *rack) int { return compareNullable(a.name, b.name) })
	for _, r := range p.racks {
		for _, t := range []*turns{&r.fenced, &r.unfenced} {
			if len(t.ids) > 0 {
				slices.Sort(t.ids)
				t.offset = intn(len(t.ids))
			}
		}
	}
	if len(p.racks) > 0 {
		p.offset = intn(len(p.racks))
	}
	return p
}

func compareNullable(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// check says why partitions with so many replicas cannot be placed; empty if they can.
func (p *placer) check(replicationFactor int) string {
	switch {
	case replicationFactor <= 0:
		return fmt.Sprintf("Invalid replication factor %d: the replication factor must be positive.", replicationFactor)
	case p.unfenced == 0:
		return "All brokers are currently fenced."
	case replicationFactor > p.brokers:
		return fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.", replicationFactor, p.brokers)
	}
	return ""
}

// place returns the replicas of the next partition. check must have passed.
func (p *placer) place(replicationFactor int) []int32 {
	// Each live broker has led once: shuffle, lest the same assignments come again. With one there is nothing to.
	if p.epoch == p.unfenced && p.unfenced > 1 {
		p.shuffle()
		p.epoch = 0
	}
	if p.offset == len(p.racks) {
		p.offset = 0
	}
	replicas := make([]int32, 0, replicationFactor)
	first := p.offset
	for {
		if id, ok := p.racks[first].unfenced.next(p.epoch); ok {
			replicas = append(replicas, id)
			break
		}
		first = (first + 1) % len(p.racks)
	}
	// The others go on from the first rack, skipping once the one that gave the leader.
	at := p.offset
	for len(replicas) < replicationFactor {
		if at == first {
			first = -1
		} else if id, ok := p.racks[at].next(p.epoch); ok {
			replicas = append(replicas, id)
		}
		at = (at + 1) % len(p.racks)
	}
	p.epoch++
	p.offset++
	return replicas
}

func (p *placer) shuffle() {
	shuffle(p.racks, p.intn)
	for _, r := range p.racks {
		shuffle(r.fenced.ids, p.intn)
		shuffle(r.unfenced.ids, p.intn)
	}
}

func shuffle[T any](list []T, intn func(n int) int) {
	for i := len(list) - 1; i > 0; i-- {
		j := intn(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
