package env

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is a run of pooled bytes with a count of owners. Whoever holds it last releases it; then nobody may look at
// B again.
type Buffer struct {
	B     []byte
	all   []byte // what B was at first, whatever its owner made of it
	refs  atomic.Int32
	class int // in pools; -1 = not pooled
}

// Poison makes released buffers unreadable, so that a use after release shows. Tests and the simulator turn it on.
var Poison atomic.Bool

const (
	smallest = 512      // bytes of the smallest class
	largest  = 16 << 20 // of the largest; larger buffers are rare and go to the garbage collector
)

// classOf gives the class that holds n bytes, and its size. There are four classes from one power of two to the next,
// so that a buffer is a quarter larger than asked for at most.
func classOf(n int) (class, size int) {
	if n <= smallest {
		return 0, smallest
	}
	below := 1 << (bits.Len(uint(n-1)) - 1) // below < n <= 2*below
	quarter := below / 4
	q := (n - below + quarter - 1) / quarter
	return 4*(bits.Len(uint(below))-bits.Len(uint(smallest))) + q, below + q*quarter
}

// pools has 4 classes for each of the 15 doublings from smallest to largest.
var pools [4*15 + 1]sync.Pool

// NewBuffer returns a buffer of n bytes with one owner. The bytes are not cleared.
func NewBuffer(n int) *Buffer {
	if n > largest {
		b := &Buffer{all: make([]byte, n), class: -1}
		b.B = b.all
		b.refs.Store(1)
		return b
	}
	class, size := classOf(n)
	b, _ := pools[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{all: make([]byte, size), class: class}
	}
	b.all = b.all[:n]
	b.B = b.all
	b.refs.Store(1)
	return b
}

// Retain adds an owner.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("env: buffer retained after its release")
	}
}

// Release takes one owner away; the last one returns the bytes to the pool.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("env: buffer released twice")
	}
	if Poison.Load() {
		for i := range b.all {
			b.all[i] = 0xdb
		}
	}
	b.B = nil
	if b.class < 0 {
		b.all = nil
		return
	}
	pools[b.class].Put(b)
}
