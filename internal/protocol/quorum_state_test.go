package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/uuid"
)

// The files as Kafka 4.4.0 wrote them.
func TestQuorumStateFile(t *testing.T) {
	for _, tc := range []struct {
		text    string
		version int16
		want    QuorumStateData
	}{
		{`{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`, 1,
			QuorumStateData{LeaderId: 1, LeaderEpoch: 1, VotedId: -1, CurrentVoters: []QuorumStateDataVoter{}}},
		{`{"leaderId":-1,"leaderEpoch":9,"votedId":2,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAg","data_version":1}`, 1,
			QuorumStateData{LeaderId: -1, LeaderEpoch: 9, VotedId: 2, VotedDirectoryId: uuid.DirLost, CurrentVoters: []QuorumStateDataVoter{}}},
		{`{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`, 0,
			QuorumStateData{LeaderId: 1, LeaderEpoch: 1, VotedId: -1, CurrentVoters: []QuorumStateDataVoter{{VoterId: 1}}}},
		{`{"clusterId":"c","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":null,"data_version":0}`, 0,
			QuorumStateData{ClusterId: "c", LeaderId: 1, LeaderEpoch: 1, VotedId: -1}},
	} {
		var got QuorumStateData
		version, err := got.DecodeFile([]byte(tc.text))
		if err != nil || version != tc.version {
			t.Fatalf("%s: version %d, %v", tc.text, version, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.text, diff)
		}
		text, err := got.EncodeFile(version)
		if err != nil || string(text) != tc.text {
			t.Errorf("encoded %s, %v, want %s", text, err, tc.text)
		}
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"data_version":2}`, `{"leaderId":1,"data_version":1}`, `{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"short","data_version":1}`} {
		var m QuorumStateData
		if v, err := m.DecodeFile([]byte(bad)); err == nil {
			t.Errorf("%q was read as version %d", bad, v)
		}
	}
	if _, err := (&QuorumStateData{VotedDirectoryId: uuid.One}).EncodeFile(0); err == nil {
		t.Error("version 0 took a directory id")
	}
}
