package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
)

// againDelay is how soon a periodic task runs again that did not get to its end.
const againDelay = 10 * time.Millisecond

// task is work that the active controller does by itself. again asks for another run soon.
type task struct {
	name  string
	every time.Duration
	run   func() (records []metadata.Versioned, again bool)
}

// periodic runs tasks while the controller is active.
type periodic struct {
	c      *Controller
	tasks  []task
	timers []env.Timer // by task; nil: not active
	term   int         // counts activations: a timer of an earlier one does nothing
}

func newPeriodic(c *Controller) *periodic {
	p := &periodic{c: c}
	add := func(name string, every time.Duration, run func() ([]metadata.Versioned, bool)) {
		if every > 0 {
			p.tasks = append(p.tasks, task{name, every, run})
		}
	}
	add("maybeFenceStaleBroker", max(time.Millisecond, c.cfg.Session/8), func() ([]metadata.Versioned, bool) {
		return c.state.replication.fenceOneStale()
	})
	add("writeNoOpRecord", c.cfg.MaxIdle, func() ([]metadata.Versioned, bool) {
		return []metadata.Versioned{{Record: metadata.NewNoOpRecord()}}, false
	})
	add("electPreferred", c.cfg.BalanceInterval, func() ([]metadata.Versioned, bool) {
		return c.state.replication.balanceLeaders()
	})
	add("electUnclean", c.cfg.UncleanInterval, func() ([]metadata.Versioned, bool) {
		return c.state.replication.electUncleanly()
	})
	if c.cfg.Tokens.Secret != "" {
		add("expireDelegationTokens", c.cfg.Tokens.CheckEvery, func() ([]metadata.Versioned, bool) {
			records := c.state.tokens.sweep()
			return records, len(records) == maxRecordsPerBatch
		})
	}
	return p
}

func (p *periodic) names() string {
	var names []string
	for _, t := range p.tasks {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (p *periodic) activate() {
	p.term++
	p.timers = make([]env.Timer, len(p.tasks))
	for i := range p.tasks {
		p.schedule(i, p.tasks[i].every)
	}
	p.c.log.Info("Activated periodic tasks: " + p.names())
}

func (p *periodic) deactivate() {
	if p.timers == nil {
		return
	}
	p.term++
	for _, t := range p.timers {
		t.Stop()
	}
	p.timers = nil
	p.c.log.Info("Deactivated periodic tasks: " + p.names())
}

func (p *periodic) schedule(i int, after time.Duration) {
	term := p.term
	p.timers[i] = p.c.queue.After(after, p.tasks[i].name, func() {
		if term == p.term {
			p.run(i)
			p.c.checkInvariants(p.tasks[i].name)
		}
	})
}

func (p *periodic) run(i int) {
	again := false
	p.c.start(&write{
		name: p.tasks[i].name,
		compute: func() (records []metadata.Versioned, atomic bool, err error) {
			records, again = p.tasks[i].run()
			return records, false, nil
		},
		done: func(error) {},
	})
	switch {
	case p.timers == nil: // the write ended our term
	case again:
		p.schedule(i, againDelay)
	default:
		p.schedule(i, p.tasks[i].every)
	}
}
