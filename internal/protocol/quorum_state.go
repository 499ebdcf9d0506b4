package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/ottla-io/ottla/internal/uuid"
)

// The file quorum-state holds QuorumStateData as one JSON object, without a newline at its end. data_version
// says which version of the schema it is: 1 goes with kraft.version 1 (KIP-853), 0 with kraft.version 0.

type quorumStateV0 struct {
	ClusterID     *string        `json:"clusterId"`
	LeaderID      *int32         `json:"leaderId"`
	LeaderEpoch   *int32         `json:"leaderEpoch"`
	VotedID       *int32         `json:"votedId"`
	AppliedOffset *int64         `json:"appliedOffset"`
	CurrentVoters *[]quorumVoter `json:"currentVoters"`
	DataVersion   int16          `json:"data_version"`
}

type quorumVoter struct {
	VoterID int32 `json:"voterId"`
}

type quorumStateV1 struct {
	LeaderID         *int32     `json:"leaderId"`
	LeaderEpoch      *int32     `json:"leaderEpoch"`
	VotedID          *int32     `json:"votedId"`
	VotedDirectoryID *uuid.UUID `json:"votedDirectoryId"`
	DataVersion      int16      `json:"data_version"`
}

// EncodeFile returns the content of the file quorum-state, byte for byte as Kafka writes it.
func (m *QuorumStateData) EncodeFile(version int16) ([]byte, error) {
	switch version {
	case 0:
		if m.VotedDirectoryId != uuid.Zero {
			return nil, fmt.Errorf("encode quorum-state version 0: no field VotedDirectoryId in this version")
		}
		f := quorumStateV0{&m.ClusterId, &m.LeaderId, &m.LeaderEpoch, &m.VotedId, &m.AppliedOffset, nil, 0}
		if m.CurrentVoters != nil {
			voters := make([]quorumVoter, len(m.CurrentVoters))
			for i, v := range m.CurrentVoters {
				voters[i].VoterID = v.VoterId
			}
			f.CurrentVoters = &voters
		}
		return json.Marshal(f)
	case 1:
		return json.Marshal(quorumStateV1{&m.LeaderId, &m.LeaderEpoch, &m.VotedId, &m.VotedDirectoryId, 1})
	}
	return nil, fmt.Errorf("encode quorum-state: unsupported version %d", version)
}

// DecodeFile reads the content of the file quorum-state and returns its version. Fields that are missing are
// errors, unknown ones are not.
func (m *QuorumStateData) DecodeFile(b []byte) (int16, error) {
	var head struct {
		DataVersion *int16 `json:"data_version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return 0, fmt.Errorf("decode quorum-state: %w", err)
	}
	if head.DataVersion == nil {
		return 0, fmt.Errorf("decode quorum-state: no field data_version")
	}
	m.SetDefaults()
	missing := false
	switch *head.DataVersion {
	case 0:
		var f quorumStateV0
		if err := json.Unmarshal(b, &f); err != nil {
			return 0, fmt.Errorf("decode quorum-state version 0: %w", err)
		}
		missing = !take(&m.ClusterId, f.ClusterID) || !take(&m.LeaderId, f.LeaderID) || !take(&m.LeaderEpoch, f.LeaderEpoch) ||
			!take(&m.VotedId, f.VotedID) || !take(&m.AppliedOffset, f.AppliedOffset)
		m.CurrentVoters = nil
		if f.CurrentVoters != nil {
			m.CurrentVoters = make([]QuorumStateDataVoter, len(*f.CurrentVoters))
			for i, v := range *f.CurrentVoters {
				m.CurrentVoters[i].VoterId = v.VoterID
			}
		}
	case 1:
		var f quorumStateV1
		if err := json.Unmarshal(b, &f); err != nil {
			return 0, fmt.Errorf("decode quorum-state version 1: %w", err)
		}
		missing = !take(&m.LeaderId, f.LeaderID) || !take(&m.LeaderEpoch, f.LeaderEpoch) || !take(&m.VotedId, f.VotedID) ||
			!take(&m.VotedDirectoryId, f.VotedDirectoryID)
	default:
		return 0, fmt.Errorf("decode quorum-state: unsupported version %d", *head.DataVersion)
	}
	if missing {
		return 0, fmt.Errorf("decode quorum-state version %d: a field is missing", *head.DataVersion)
	}
	return *head.DataVersion, nil
}

// take copies a field that is there.
func take[T any](to, from *T) bool {
	if from == nil {
		return false
	}
	*to = *from
	return true
}
