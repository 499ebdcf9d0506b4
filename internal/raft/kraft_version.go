package raft

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// UpgradeError is why kraft.version cannot be raised. It wraps a protocol error.
type UpgradeError struct {
	Err     *kerr.Error
	Message string
}

func (e *UpgradeError) Error() string { return e.Message }

// Unwrap is the protocol error.
func (e *UpgradeError) Unwrap() error { return e.Err }

// UpgradeKRaftVersion raises kraft.version, and writes the static voters to the log with the directories that they have told this
// leader (UpdateRaftVoter). It returns before that is committed: what is appended behind it is committed with it or not at all.
// Nothing is done if the level is in force, or on its way. Any goroutine.
// Errors: ErrNotLeader, ErrEpochFenced; *UpgradeError with INVALID_UPDATE_VERSION, or UNKNOWN_SERVER_ERROR while a voter is unknown.
func (q *Quorum) UpgradeKRaftVersion(epoch int32, level int16, validateOnly bool) error {
	v := q.view.Load()
	invalid := func(format string, args ...any) error {
		return &UpgradeError{kerr.InvalidUpdateVersion, fmt.Sprintf(format, args...)}
	}
	switch {
	case level == v.level:
		return nil
	case level < v.level:
		return invalid("Invalid upgrade of %s from version %s to %s because the new version is a downgrade", metadata.FeatureKRaft, levelText(v.level), levelText(level))
	case v.volatile == nil:
		return ErrNotLeader
	}
	for _, voter := range v.volatile.All() {
		switch {
		case level < voter.MinKRaft || level > voter.MaxKRaft:
			q.log.Info(fmt.Sprintf("Not all voters support kraft version %s: %s", levelText(level), v.volatile))
			return invalid("Invalid upgrade of %s to %s because not all of the voters support it", metadata.FeatureKRaft, levelText(level))
		case voter.Key.DirectoryID == uuid.Zero:
			return &UpgradeError{kerr.UnknownServerError, fmt.Sprintf("Directory id must be known for all of the voters: %s", v.volatile)}
		}
	}
	if validateOnly {
		return nil
	}
	m := protocol.NewKRaftVersionRecord()
	m.KRaftVersion = level
	began, err := q.prepare.prepareUpgrade(epoch, q.env.Now().UnixMilli(), m, v.volatile.record())
	if err == nil && began {
		q.log.Info(fmt.Sprintf("Appended kraft.version %s and the voter set %s to the batch accumulator", levelText(level), v.volatile))
		q.SchedulePreparedAppend()
	}
	return err
}

func levelText(level int16) string { return fmt.Sprintf("KRAFT_VERSION_%d", level) }

// prepareUpgrade prepares the records of an upgrade, once in an epoch.
func (a *accumulator) prepareUpgrade(epoch int32, now int64, messages ...protocol.Message) (bool, error) {
	a.mu.Lock()
	done := a.upgraded && a.open && a.epoch == epoch
	if a.open && a.epoch == epoch {
		a.upgraded = true
	}
	a.mu.Unlock()
	if done {
		return false, nil
	}
	_, err := a.prepareControl(epoch, now, messages...)
	return err == nil, err
}
