// Package env owns what a core may ask of the outside world: time, a queue of its own, files, the network,
// random numbers and a logger.
//
// Called by every package that does anything but compute. Two implementations exist: env/real for processes and
// env/sim for the simulator, and the code above cannot tell them apart.
//
// Never decides anything by itself, and never calls back while the caller is inside one of its methods, except
// where a method says so.
package env

import (
	"log/slog"
	"time"
)

// Env is the world of one node.
type Env interface {
	// Now is the wall clock. It may step forwards and backwards.
	Now() time.Time
	// Monotonic is the time since the env began; it never goes back.
	Monotonic() time.Duration
	// AfterFunc calls fn once, d from now, on no queue in particular. fn must not block.
	AfterFunc(d time.Duration, fn func()) Timer
	// NewQueue makes a queue; the name appears in traces and in stack dumps.
	NewQueue(name string) Queue
	FS() FS
	Net() Network
	Rand() Rand
	// Logger has the node's id and, in the simulator, virtual time attached.
	Logger() *slog.Logger
	// Go runs a job that may take long and touches only files (recovery, cleaning). The simulator runs it to its
	// end as one event.
	Go(name string, fn func())
	// Each calls fn(0) to fn(n-1), up to threads of them at the same time, and returns when all have. They are jobs like those of
	// Go, and so is who calls it. The simulator runs them one after the other.
	Each(name string, threads, n int, fn func(i int))
}

// Timer is something that will happen unless it is stopped.
type Timer interface {
	// Stop reports whether it kept the function from running.
	Stop() bool
}

// Rand is a source of random numbers that any goroutine may use.
type Rand interface {
	Uint64() uint64
	// IntN returns a number in [0, n). n must be positive.
	IntN(n int) int
	// Read fills p; it never fails.
	Read(p []byte)
}
