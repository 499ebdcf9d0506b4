// Package real is the env of a process: goroutines, the system's clocks, files and sockets.
//
// Called by cmd and by tests that embed a node. One Env serves one node; nothing in it is global.
//
// Never panics on what peers send. A panic in a queue's function is a bug of ours and goes to Options.OnPanic, by
// default the end of the process.
package real

import (
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// Options of an Env.
type Options struct {
	Logger *slog.Logger
	// OnPanic is told of a panic in a queue, a timer, a job or a connection's handler, and has to stop the node: its
	// state cannot be trusted any more. The queue runs nothing after that, the connection is closed. Default: log it
	// and exit with 1.
	OnPanic func(where string, reason any, stack []byte)
	// Listen opens a TCP listener. Default: net.Listen.
	Listen func(addr string) (net.Listener, error)
}

// Env implements env.Env.
type Env struct {
	start   time.Time
	logger  *slog.Logger
	onPanic func(where string, reason any, stack []byte)
	net     *network
}

var _ env.Env = (*Env)(nil)

// New makes the env of one node.
func New(o Options) *Env {
	e := &Env{start: time.Now(), logger: o.Logger, onPanic: o.OnPanic}
	if e.logger == nil {
		e.logger = slog.Default()
	}
	if e.onPanic == nil {
		e.onPanic = func(where string, reason any, stack []byte) {
			e.logger.Error("a broken invariant stops the node", "where", where, "reason", fmt.Sprint(reason), "stack", string(stack))
			os.Exit(1)
		}
	}
	e.net = &network{env: e, open: o.Listen}
	if e.net.open == nil {
		e.net.open = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	return e
}

// Now is the wall clock.
func (e *Env) Now() time.Time { return time.Now() }

// Monotonic is the time since New.
func (e *Env) Monotonic() time.Duration { return time.Since(e.start) }

// Logger returns the logger of the options.
func (e *Env) Logger() *slog.Logger { return e.logger }

// FS is the operating system's file system.
func (e *Env) FS() env.FS { return osFS{} }

// Net is TCP.
func (e *Env) Net() env.Network { return e.net }

// Rand is unpredictable.
func (e *Env) Rand() env.Rand { return random{} }

// AfterFunc runs fn on a goroutine of its own.
func (e *Env) AfterFunc(d time.Duration, fn func()) env.Timer {
	return time.AfterFunc(d, func() { e.guard("timer", "", fn) })
}

// Go runs fn on a goroutine.
func (e *Env) Go(name string, fn func()) {
	go e.guard("job", name, fn)
}

// Each runs the jobs on so many goroutines.
func (e *Env) Each(name string, threads, n int, fn func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(threads, n) {
		all.Go(func() {
			e.guard("job", name, func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					fn(int(i))
				}
			})
		})
	}
	all.Wait()
}

// guard runs fn; false means that it panicked, and that Options.OnPanic knows.
func (e *Env) guard(where, name string, fn func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		if r := recover(); r != nil { // or the goroutine ends by runtime.Goexit
			if name != "" {
				where += "/" + name
			}
			e.onPanic(where, r, debug.Stack())
		}
	}()
	fn()
	return true
}

type random struct{}

func (random) Uint64() uint64 { return rand.Uint64() }
func (random) IntN(n int) int { return rand.IntN(n) }
func (random) Read(p []byte)  { _, _ = crand.Read(p) } // never fails
