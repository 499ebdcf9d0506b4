package raft

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Election is what must survive a crash: the epoch, whom this node voted for in it, and who leads in it. It is the file
// quorum-state.
type Election struct {
	Epoch    int32
	LeaderID int32      // NoNode = none known
	Voted    ReplicaKey // ID is NoNode if there was no vote
}

// NoElection is the state of a node that was never in a quorum.
var NoElection = Election{LeaderID: NoNode, Voted: ReplicaKey{ID: NoNode}}

// QuorumStateFile is the name of the file in the folder of the metadata log.
const QuorumStateFile = "quorum-state"

// ReadElection reads the file quorum-state; NoElection if there is none.
func ReadElection(fsys env.FS, logDir string) (Election, error) {
	name := filepath.Join(logDir, QuorumStateFile)
	b, err := env.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return NoElection, nil
	}
	if err != nil {
		return NoElection, fmt.Errorf("read %s: %w", name, err)
	}
	var d protocol.QuorumStateData
	if _, err := d.DecodeFile(b); err != nil {
		return NoElection, fmt.Errorf("read %s: %w", name, err)
	}
	e := Election{Epoch: d.LeaderEpoch, LeaderID: d.LeaderId, Voted: ReplicaKey{d.VotedId, d.VotedDirectoryId}}
	if e.Epoch < 0 || e.LeaderID < NoNode || e.Voted.ID < NoNode {
		return NoElection, fmt.Errorf("read %s: epoch %d, leader %d, vote for %d", name, e.Epoch, e.LeaderID, e.Voted.ID)
	}
	return e, nil
}

// WriteElection replaces the file quorum-state. It is durable when WriteElection has returned nil. With kraft.version 0
// the file also names the voters.
func WriteElection(fsys env.FS, logDir string, e Election, kraftVersion int16, voters *VoterSet) error {
	d := protocol.NewQuorumStateData()
	d.LeaderId, d.LeaderEpoch, d.VotedId = e.LeaderID, e.Epoch, e.Voted.ID
	version := int16(1)
	if kraftVersion == 0 {
		version = 0
		d.CurrentVoters = []protocol.QuorumStateDataVoter{}
		for _, id := range voters.IDs() {
			d.CurrentVoters = append(d.CurrentVoters, protocol.QuorumStateDataVoter{VoterId: id})
		}
	} else if e.Voted.ID != NoNode {
		d.VotedDirectoryId = e.Voted.DirectoryID
	}
	b, err := d.EncodeFile(version)
	if err != nil {
		return err
	}
	name := filepath.Join(logDir, QuorumStateFile)
	if err := env.WriteFileAtomic(fsys, name, b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (e Election) hasVoted() bool { return e.Voted.ID != NoNode }

// votedFor reports whether the vote was for k. A vote of which only the id is known was for any directory.
func (e Election) votedFor(k ReplicaKey) bool {
	return e.Voted.ID != NoNode && e.Voted.ID == k.ID && (e.Voted.DirectoryID == uuid.Zero || e.Voted.DirectoryID == k.DirectoryID)
}

func (e Election) leaderText() string { return optionalInt(e.LeaderID) }

func (e Election) votedText() string {
	if !e.hasVoted() {
		return "Optional.empty"
	}
	return "Optional[" + e.Voted.String() + "]"
}

func optionalInt(id int32) string {
	if id == NoNode {
		return "OptionalInt.empty"
	}
	return fmt.Sprintf("OptionalInt[%d]", id)
}
