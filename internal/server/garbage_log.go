package server

import (
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// linesPerSecond is how many connections that sent garbage are logged one by one; of the others the number.
const linesPerSecond = 20

// garbageLog writes one line for each connection that is closed because of what it sent, unless there are very many.
type garbageLog struct {
	env env.Env

	mu      sync.Mutex
	since   time.Duration
	lines   int
	skipped int
}

func newGarbageLog(e env.Env) *garbageLog { return &garbageLog{env: e} }

func (g *garbageLog) line(what string, k *connection, err error) {
	g.mu.Lock()
	if now := g.env.Monotonic(); now-g.since >= time.Second {
		g.since, g.lines = now, 0
	}
	g.lines++
	if g.lines > linesPerSecond {
		g.skipped++
		g.mu.Unlock()
		return
	}
	skipped := g.skipped
	g.skipped = 0
	g.mu.Unlock()
	args := []any{"peer", k.remote, "listener", k.l.name}
	if err != nil {
		args = append(args, "err", err)
	}
	if skipped > 0 {
		args = append(args, "notLogged", skipped)
	}
	g.env.Logger().Warn("Closing connection: "+what, args...)
}
