package controller

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
)

// claim makes this controller the active one. Its first write is the activation, before anything else is let in.
func (c *Controller) claim(epoch int32) {
	c.claimEpoch = epoch
	c.nextOffset = c.quorum.LogEndOffset()
	c.lastAppended = c.lastStable
	c.log.Info(fmt.Sprintf("Becoming the active controller at epoch %d, next write offset %d.", epoch, c.nextOffset))
	t := newTracker(c.cfg.Session, c.env.Monotonic)
	c.state.cluster.activate(t)
	c.tracker.Store(t)
	c.start(&write{
		name: fmt.Sprintf("completeActivation[%d]", epoch),
		compute: func() ([]metadata.Versioned, bool, error) {
			return c.activationRecords(), true, nil
		},
		appended: func(int64) { c.periodic.activate() },
		done: func(err error) {
			if err != nil {
				c.log.Info(fmt.Sprintf("completeActivation[%d]: %v", epoch, err))
			}
		},
	})
}

// renounce ends this controller's term: the state goes back to what is committed, and those who wait learn that they do
// not know what became of their request.
func (c *Controller) renounce() {
	c.quorum.Resign(c.claimEpoch)
	c.claimEpoch = -1
	c.nextOffset, c.lastAppended = -1, -1
	c.tracker.Store(nil)
	c.periodic.deactivate()
	c.state.cluster.deactivate()
	c.state.registry.RevertTo(c.lastCommitted)
	c.failDeferred(c.notController())
}

// activationRecords are the first records of a term: those of a new cluster in a transaction of their own, or the abort
// of a transaction that the last active controller left open.
func (c *Controller) activationRecords() []metadata.Versioned {
	s := c.state
	open := s.transactionStart.Get()
	// What an open transaction says about features does not count: it may be the bootstrap records that are cut short.
	level, _ := s.features.levels.GetAt(metadata.FeatureMetadata, c.lastStable)
	if v := metadata.Version(level); v != 0 {
		if open < 0 {
			c.log.Warn("Performing controller activation.")
			return nil
		}
		if !v.Transactions() {
			panic(fmt.Sprintf("controller: transaction at offset %d is open, but metadata.version %s does not support transactions", open, v))
		}
		c.log.Warn(fmt.Sprintf("Performing controller activation. Aborting in-progress metadata transaction at offset %d.", open))
		return []metadata.Versioned{abortRecord()}
	}

	v, elr := metadata.Version(0), int16(0)
	for _, b := range c.bootstrap {
		if r, ok := b.Record.(*metadata.FeatureLevelRecord); ok {
			switch r.Name {
			case metadata.FeatureMetadata:
				v = metadata.Version(r.FeatureLevel)
			case metadata.FeatureELR:
				elr = r.FeatureLevel
			}
		}
	}
	var records []metadata.Versioned
	switch {
	case v == 0:
		panic("controller: the bootstrap records have no metadata.version")
	case open >= 0:
		c.log.Warn(fmt.Sprintf("Performing controller activation. Aborting partial bootstrap records transaction at offset %d. Re-appending %d bootstrap record(s) in new metadata transaction at metadata.version %s.",
			open, len(c.bootstrap), v))
		records = append(records, abortRecord())
	default:
		c.log.Warn(fmt.Sprintf("Performing controller activation. The metadata log appears to be empty. Appending %d bootstrap record(s) at metadata.version %s.", len(c.bootstrap), v))
	}
	if v.Transactions() {
		begin := metadata.NewBeginTransactionRecord()
		name := "Bootstrap records"
		begin.Name = &name
		records = append(records, metadata.Versioned{Record: begin})
	}
	records = append(records, c.bootstrap...)
	if elr > 0 {
		records = append(records, configRecord(resource{resourceBroker, clusterWideName}, minISRKey, s.configs.staticMinISR(), true))
	}
	if v.Transactions() {
		records = append(records, metadata.Versioned{Record: metadata.NewEndTransactionRecord()})
	}
	return records
}

func abortRecord() metadata.Versioned {
	abort := metadata.NewAbortTransactionRecord()
	reason := "Controller failover"
	abort.Reason = &reason
	return metadata.Versioned{Record: abort}
}
