package process

import "sync"

// gate is what the node's functions pass before they run.
type gate struct {
	mu      sync.Mutex
	changed sync.Cond
	frozen  bool
	killed  bool
	cut     bool            // off from everybody
	cutFrom map[string]bool // off from these addresses, as far as this node has dialled them
	running int             // functions
	sending int             // frames that are not done
}

func newGate() *gate {
	g := &gate{cutFrom: map[string]bool{}}
	g.changed.L = &g.mu
	return g
}

// enter waits while the node is frozen, or as long as what it is for is held up. False means that the function must not run any
// more; else leave follows.
func (g *gate) enter(held func() bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.killed && (g.frozen || held != nil && held()) {
		g.changed.Wait()
	}
	if g.killed {
		return false
	}
	g.running++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.changed.Broadcast()
}

// run runs fn if the node lives, and when it is not frozen.
func (g *gate) run(fn func()) {
	if g.enter(nil) {
		defer g.leave()
		fn()
	}
}

// pass waits while the node is frozen, inside a function that runs already. False: it was killed.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.frozen && !g.killed {
		g.changed.Wait()
	}
	return !g.killed
}

// set changes the state, and lets everybody look at it.
func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.changed.Broadcast()
}

// await waits for a state.
func (g *gate) await(state func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !state() {
		g.changed.Wait()
	}
}
