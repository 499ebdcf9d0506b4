package raft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ReplicaKey is one replica of the log: a node, and which of its directories. A node that lost its disk is another
// replica (KIP-853). A zero DirectoryID is unknown, as with static voters.
type ReplicaKey struct {
	ID          int32
	DirectoryID uuid.UUID
}

func (k ReplicaKey) String() string {
	dir := "<undefined>"
	if k.DirectoryID != uuid.Zero {
		dir = k.DirectoryID.String()
	}
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", k.ID, dir)
}

// Endpoint is a listener of a node.
type Endpoint struct {
	Name string
	Host string
	Port uint16
}

// Voter is a member of the voter set.
type Voter struct {
	Key       ReplicaKey
	Endpoints []Endpoint // the first is the one voters dial
	// MinKRaft..MaxKRaft are the levels of kraft.version that its software knows.
	MinKRaft, MaxKRaft int16
}

// MaxKRaftVersion is the highest level of kraft.version that is known here.
const MaxKRaftVersion int16 = 1

func (v *Voter) endpoint(name string) (Endpoint, bool) {
	for _, e := range v.Endpoints {
		if strings.EqualFold(e.Name, name) {
			return e, true
		}
	}
	return Endpoint{}, false
}

func (v *Voter) String() string {
	eps := make([]string, len(v.Endpoints))
	for i, e := range v.Endpoints {
		eps[i] = fmt.Sprintf("ListenerName(%s)=%s/<unresolved>:%d", e.Name, e.Host, e.Port)
	}
	return fmt.Sprintf("VoterNode(voterKey=%s, listeners=Endpoints(endpoints={%s}), supportedKRaftVersion=SupportedVersionRange[min_version:%d, max_version:%d])",
		v.Key, strings.Join(eps, ", "), v.MinKRaft, v.MaxKRaft)
}

// VoterSet are the voters as of some offset, sorted by id. It is immutable; nil is the empty set.
type VoterSet struct {
	voters []Voter
}

// NewVoterSet sorts voters by id.
func NewVoterSet(voters ...Voter) *VoterSet {
	s := &VoterSet{voters: slices.Clone(voters)}
	slices.SortFunc(s.voters, func(a, b Voter) int { return int(a.Key.ID) - int(b.Key.ID) })
	return s
}

// All are the voters in the order of their ids. Not to be changed.
func (s *VoterSet) All() []Voter {
	if s == nil {
		return nil
	}
	return s.voters
}

// Len is the number of voters.
func (s *VoterSet) Len() int { return len(s.All()) }

// IDs are the voters' ids, rising.
func (s *VoterSet) IDs() []int32 {
	ids := make([]int32, s.Len())
	for i, v := range s.All() {
		ids[i] = v.Key.ID
	}
	return ids
}

// Get returns the voter with an id; nil if there is none.
func (s *VoterSet) Get(id int32) *Voter {
	for i := range s.All() {
		if s.voters[i].Key.ID == id {
			return &s.voters[i]
		}
	}
	return nil
}

// Contains reports whether a replica is a voter. A voter whose directory is unknown is matched by id alone.
func (s *VoterSet) Contains(k ReplicaKey) bool {
	v := s.Get(k.ID)
	return v != nil && (v.Key.DirectoryID == uuid.Zero || v.Key.DirectoryID == k.DirectoryID)
}

// with is the set with what a member now says of itself, and whether that is anything new. Others than members change nothing.
func (s *VoterSet) with(v Voter) (*VoterSet, bool) {
	old := s.Get(v.Key.ID)
	if !s.Contains(v.Key) || old.Key == v.Key && old.MinKRaft == v.MinKRaft && old.MaxKRaft == v.MaxKRaft && sameEndpoints(old.Endpoints, v.Endpoints) {
		return s, false
	}
	return NewVoterSet(append(s.others(v.Key.ID), v)...), true
}

// others are the voters but one.
func (s *VoterSet) others(id int32) []Voter {
	return slices.DeleteFunc(slices.Clone(s.All()), func(v Voter) bool { return v.Key.ID == id })
}

// keys are the voters as replicas, in the order of their ids.
func (s *VoterSet) keys() []ReplicaKey {
	keys := make([]ReplicaKey, s.Len())
	for i, v := range s.All() {
		keys[i] = v.Key
	}
	return keys
}

func (s *VoterSet) keysText() string {
	var text []string
	for _, k := range s.keys() {
		text = append(text, k.String())
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// sameEndpoints compares them in any order.
func sameEndpoints(a, b []Endpoint) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(e Endpoint) bool { return !slices.Contains(b, e) })
}

// isOnly reports whether k is the one voter there is.
func (s *VoterSet) isOnly(k ReplicaKey) bool { return s.Len() == 1 && s.Contains(k) }

func (s *VoterSet) String() string {
	items := make([]string, s.Len())
	for i := range s.All() {
		items[i] = fmt.Sprintf("%d=%s", s.voters[i].Key.ID, s.voters[i].String())
	}
	return "VoterSet(voters={" + strings.Join(items, ", ") + "})"
}

// idList prints ids as Java prints a set of integers.
func idList(ids []int32) string {
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = fmt.Sprint(id)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// record is the set as it stands in the log.
func (s *VoterSet) record() *protocol.VotersRecord {
	r := protocol.NewVotersRecord()
	for _, v := range s.All() {
		rv := protocol.VotersRecordVoter{VoterId: v.Key.ID, VoterDirectoryId: v.Key.DirectoryID}
		for _, e := range v.Endpoints {
			rv.Endpoints = append(rv.Endpoints, protocol.VotersRecordEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		rv.KRaftVersionFeature.MinSupportedVersion, rv.KRaftVersionFeature.MaxSupportedVersion = v.MinKRaft, v.MaxKRaft
		r.Voters = append(r.Voters, rv)
	}
	return r
}

func votersFromRecord(r *protocol.VotersRecord) *VoterSet {
	var out []Voter
	for _, rv := range r.Voters {
		v := Voter{
			Key:      ReplicaKey{rv.VoterId, rv.VoterDirectoryId},
			MinKRaft: rv.KRaftVersionFeature.MinSupportedVersion, MaxKRaft: rv.KRaftVersionFeature.MaxSupportedVersion,
		}
		for _, e := range rv.Endpoints {
			v.Endpoints = append(v.Endpoints, Endpoint{e.Name, e.Host, e.Port})
		}
		out = append(out, v)
	}
	return NewVoterSet(out...)
}
