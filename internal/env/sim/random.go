package sim

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Rand is one seeded stream of random numbers.
type Rand struct {
	r *rand.Rand
}

// newRand derives a stream from the world's seed and a name.
func newRand(seed uint64, name string) *Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &Rand{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// Uint64 returns any number.
func (r *Rand) Uint64() uint64 { return r.r.Uint64() }

// IntN returns a number in [0, n).
func (r *Rand) IntN(n int) int { return r.r.IntN(n) }

// Read fills p.
func (r *Rand) Read(p []byte) {
	var word [8]byte
	for len(p) > 0 {
		binary.LittleEndian.PutUint64(word[:], r.r.Uint64())
		p = p[copy(p, word[:]):]
	}
}

// Chance is true with probability p. It draws nothing if p is 0: a fault that is off leaves the stream alone.
func (r *Rand) Chance(p float64) bool { return p > 0 && r.r.Float64() < p }

// Between returns a duration in [low, high].
func (r *Rand) Between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.r.Int64N(int64(high-low)+1))
}

// int64n returns a number in [0, n].
func (r *Rand) int64n(n int64) int64 { return r.r.Int64N(n + 1) }
