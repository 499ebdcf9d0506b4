package controller

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
)

// replay takes one record into the state: the only way in. inSnapshot: the record is of a snapshot up to offset. An
// error means that the log and we do not agree what the state is, and is the end of the node.
func (c *Controller) replay(rec metadata.Record, offset int64, inSnapshot bool) error {
	s := c.state
	switch r := rec.(type) {
	case *metadata.RegisterBrokerRecord:
		return s.cluster.replayRegisterBroker(r, offset)
	case *metadata.UnregisterBrokerRecord:
		return s.cluster.replayUnregisterBroker(r)
	case *metadata.FenceBrokerRecord:
		return s.cluster.replayRegistrationChange("FenceBrokerRecord", r.Id, r.Epoch, registrationChange{fenced: 1})
	case *metadata.UnfenceBrokerRecord:
		return s.cluster.replayRegistrationChange("UnfenceBrokerRecord", r.Id, r.Epoch, registrationChange{fenced: -1})
	case *metadata.BrokerRegistrationChangeRecord:
		return s.cluster.replayRegistrationChange("BrokerRegistrationChangeRecord", r.BrokerId, r.BrokerEpoch,
			registrationChange{r.Fenced, r.InControlledShutdown, r.LogDirs, r.CordonedLogDirs})
	case *metadata.RegisterControllerRecord:
		s.cluster.replayRegisterController(r)
	case *metadata.UnregisterControllerRecord:
		return s.cluster.replayUnregisterController(r)

	case *metadata.TopicRecord:
		return s.replication.replayTopic(r)
	case *metadata.PartitionRecord:
		return s.replication.replayPartition(r)
	case *metadata.PartitionChangeRecord:
		return s.replication.replayPartitionChange(r)
	case *metadata.RemoveTopicRecord:
		return s.replication.replayRemoveTopic(r)
	case *metadata.ClearElrRecord:
		return s.replication.replayClearELR(r)

	case *metadata.ConfigRecord:
		s.configs.replay(r)
	case *metadata.FeatureLevelRecord:
		return s.features.replay(r)
	case *metadata.ProducerIdsRecord:
		return s.producerIDs.replay(r)

	case *metadata.ClientQuotaRecord:
		s.security.replayQuota(r)
	case *metadata.AccessControlEntryRecord:
		return s.security.replayACL(r)
	case *metadata.RemoveAccessControlEntryRecord:
		return s.security.replayRemoveACL(r)
	case *metadata.UserScramCredentialRecord:
		s.security.replayScram(r)
	case *metadata.RemoveUserScramCredentialRecord:
		return s.security.replayRemoveScram(r)
	case *metadata.DelegationTokenRecord:
		s.tokens.replay(r)
	case *metadata.RemoveDelegationTokenRecord:
		s.tokens.replayRemove(r)

	case *metadata.NoOpRecord: // moves the high watermark, that is all
	case *metadata.ZkMigrationStateRecord: // of clusters that once migrated; nothing depends on it

	case *metadata.BeginTransactionRecord, *metadata.EndTransactionRecord, *metadata.AbortTransactionRecord:
		return c.replayTransaction(rec, offset, inSnapshot)
	default:
		return fmt.Errorf("there is no replay of %T", rec)
	}
	return nil
}

// replayTransaction follows metadata transactions: what is in an open one is not stable, and an aborted one never was.
func (c *Controller) replayTransaction(rec metadata.Record, offset int64, inSnapshot bool) error {
	s := c.state
	if inSnapshot {
		return fmt.Errorf("%T cannot appear within a snapshot", rec)
	}
	start := s.transactionStart.Get()
	if _, begin := rec.(*metadata.BeginTransactionRecord); begin != (start < 0) {
		return fmt.Errorf("%T at offset %d with transaction at %d", rec, offset, start)
	}
	switch rec.(type) {
	case *metadata.BeginTransactionRecord:
		s.registry.Snapshot(offset - 1)
		s.transactionStart.Set(offset)
		c.log.Info("Replayed BeginTransactionRecord.", "offset", offset)
	case *metadata.EndTransactionRecord:
		s.transactionStart.Set(-1)
		c.log.Info("Replayed EndTransactionRecord.", "offset", offset)
	case *metadata.AbortTransactionRecord:
		s.registry.Restore(start - 1) // not RevertTo: our own abort may come to nothing, and the transaction be open again
		c.log.Info("Replayed AbortTransactionRecord.", "offset", offset, "revertedTo", start-1)
	}
	return nil
}
