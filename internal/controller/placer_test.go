package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPlacerStripes draws what the placer does when every random start is zero: the leader goes to the next rack and the
// next broker each time.
func TestPlacerStripes(t *testing.T) {
	a, b, c := "a", "b", "c"
	brokers := []usableBroker{
		{0, &a, false}, {1, &a, false}, {2, &a, false},
		{10, &b, false}, {11, &b, false}, {12, &b, false},
		{20, &c, false}, {21, &c, false}, {22, &c, false},
	}
	p := newPlacer(brokers, func(int) int { return 0 })
	for i, want := range [][]int32{{0, 10, 20}, {11, 21, 1}, {22, 2, 12}, {0, 10, 20}} {
		if got := p.place(3); !slices.Equal(got, want) {
			t.Errorf("partition %d: %v, want %v", i, got, want)
		}
	}
}

// TestPlacerFenced: a fenced broker is used when its rack has no live one left, and never first.
func TestPlacerFenced(t *testing.T) {
	a, b := "a", "b"
	p := newPlacer([]usableBroker{{1, &a, true}, {2, &b, false}, {3, &b, true}}, func(int) int { return 0 })
	for range 5 {
		got := p.place(3)
		if slices.Sort(got[1:]); !slices.Equal(got, []int32{2, 1, 3}) {
			t.Errorf("got %v, want broker 2 first and the others", got)
		}
	}
}

// TestPlacerProperties looks at random clusters: no broker twice, a live leader, as many racks as there can be, and
// leaders spread evenly over one round of the live brokers.
func TestPlacerProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var brokers []usableBroker
		live := map[int32]bool{}
		rackOf := map[int32]string{}
		racks := map[string]bool{}
		anyFenced := rng.IntN(2) == 0
		for id := range int32(1 + rng.IntN(9)) {
			rack := fmt.Sprint("r", rng.IntN(4))
			b := usableBroker{id, &rack, anyFenced && rng.IntN(3) == 0}
			brokers = append(brokers, b)
			live[id], rackOf[id], racks[rack] = !b.fenced, rack, true
		}
		factor := 1 + rng.IntN(len(brokers))
		p := newPlacer(brokers, rng.IntN)
		if p.check(factor) != "" {
			continue // nobody is live
		}
		leaders := map[int32]int{}
		for range p.unfenced {
			got := p.place(factor)
			leaders[got[0]]++
			used := map[string]bool{}
			for _, id := range got {
				used[rackOf[id]] = true
			}
			switch {
			case len(got) != factor || hasDuplicates(got):
				t.Fatalf("%v for a factor of %d", got, factor)
			case !live[got[0]]:
				t.Fatalf("%v: the leader is fenced", got)
			case len(used) != min(factor, len(racks)):
				t.Fatalf("%v are in %d racks of %d", got, len(used), len(racks))
			}
		}
		if len(racks) == 1 && !anyFenced && len(leaders) != len(brokers) {
			t.Fatalf("leaders of one round: %v", leaders)
		}
	}
}
