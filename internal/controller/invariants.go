package controller

// checkInvariants looks at what must hold after each event, as far as that is cheap. The rest is looked at by tests
// and the simulator, through CheckState.
func (c *Controller) checkInvariants(event string) {
	switch {
	case c.lastStable > c.lastCommitted:
		panic("controller: the stable offset is past the committed one after " + event)
	case c.claimEpoch >= 0 && c.lastAppended >= c.nextOffset:
		panic("controller: the next offset is not past the last after " + event)
	case c.claimEpoch < 0 && len(c.deferred) > 0:
		panic("controller: a controller that is not active has events waiting after " + event)
	case !c.state.registry.Has(c.lastStable) || !c.state.registry.Has(c.lastCommitted):
		panic("controller: there is no snapshot of the stable or the committed offset after " + event)
	}
}
