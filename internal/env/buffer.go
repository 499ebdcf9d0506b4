package env

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is a run of pooled bytes with a count of owners. Whoever holds it last releases it; then nobody may look at
// B again.
type Buffer struct {
	B    []byte
	refs atomic.Int32
	size int // class in the pool; 0 = not pooled
}

// Poison makes released buffers unreadable, so that a use after release shows. Tests and the simulator turn it on.
var Poison atomic.Bool

const (
	minClass = 9  // 512 bytes
	maxClass = 21 // 2 MiB: larger buffers are rare and go to the garbage collector
)

var pools [maxClass + 1]sync.Pool

// NewBuffer returns a buffer of n bytes with one owner. The bytes are not cleared.
func NewBuffer(n int) *Buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		b := &Buffer{B: make([]byte, n)}
		b.refs.Store(1)
		return b
	}
	b, _ := pools[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{B: make([]byte, 1<<class), size: class}
	}
	b.B = b.B[:n]
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
		for i := range b.B {
			b.B[i] = 0xdb
		}
	}
	if b.size == 0 {
		b.B = nil
		return
	}
	b.B = b.B[:cap(b.B)]
	pools[b.size].Put(b)
}
