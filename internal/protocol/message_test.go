package protocol

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
)

func TestDefaults(t *testing.T) {
	f := NewFetchRequest()
	p := NewFetchRequestFetchPartition()
	if f.ReplicaId != -1 || f.MaxBytes != math.MaxInt32 || f.SessionEpoch != -1 || f.ReplicaState.ReplicaEpoch != -1 || p.HighWatermark != math.MaxInt64 {
		t.Errorf("defaults of FetchRequest: %+v, %+v", f, p)
	}
	m := NewMetadataRequest()
	if m.Topics == nil || !m.AllowAutoTopicCreation {
		t.Errorf("defaults of MetadataRequest: %+v", m)
	}
	if n := NewMetadataRequestTopic(); n.Name == nil || *n.Name != "" {
		t.Errorf("default of a nullable name: %v", n.Name)
	}
}

// What a version cannot say is dropped where the schema allows it and an error elsewhere.
func TestFieldsOfOtherVersions(t *testing.T) {
	name := "x"
	for _, tc := range []struct {
		what    string
		msg     Message
		version int16
		err     string
	}{
		{"ignorable field", &FetchRequest{RackId: "r", ReplicaId: -1, ReplicaState: NewFetchRequestReplicaState()}, 4, ""},
		{"tagged ignorable field", &FetchRequest{ClusterId: &name, ReplicaState: NewFetchRequestReplicaState()}, 11, ""},
		{"struct", &FetchRequest{ReplicaState: FetchRequestReplicaState{ReplicaId: 1}}, 14, "no field ReplicaState in this version"},
		{"old field", &FetchRequest{ReplicaId: 1}, 15, "no field ReplicaId in this version"},
		{"old field at its default", &FetchRequest{ReplicaId: -1}, 15, ""},
		{"string", &JoinGroupRequest{GroupInstanceId: &name, RebalanceTimeoutMs: -1}, 4, "no field GroupInstanceId in this version"},
		{"array", &FindCoordinatorRequest{CoordinatorKeys: []string{"a"}}, 3, "no field CoordinatorKeys in this version"},
		{"null where it may be", &MetadataRequest{AllowAutoTopicCreation: true}, 1, ""},
		{"null where it may not", &MetadataRequest{AllowAutoTopicCreation: true}, 0, "field Topics must not be null"},
		{"long string", &HeartbeatRequest{GroupId: strings.Repeat("g", 1<<15)}, 4, "string too long"},
		{"unknown tags", &RequestHeader{ClientId: &name, UnknownTags: []wire.Tag{{Number: 1}}}, 1, "no field UnknownTags in this version"},
	} {
		_, err := tc.msg.Encode(nil, tc.version)
		if err == nil && tc.err != "" || err != nil && (tc.err == "" || !strings.HasSuffix(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", tc.what, err, tc.err)
		}
	}
	if _, err := NewFetchRequest().Encode(nil, 3); !errors.Is(err, wire.ErrUnsupportedVersion) {
		t.Errorf("Fetch 3: %v", err)
	}
}

// ClientId keeps its two-byte length in the flexible header.
func TestHeaderBytes(t *testing.T) {
	id := "ab"
	h := RequestHeader{RequestApiKey: 1, RequestApiVersion: 18, CorrelationId: 7, ClientId: &id}
	b, err := h.Encode(nil, RequestHeaderVersion(1, 18))
	if err != nil || !bytes.Equal(b, []byte("\x00\x01\x00\x12\x00\x00\x00\x07\x00\x02ab\x00")) {
		t.Errorf("header = %x, %v", b, err)
	}
	if v := RequestHeaderVersion(KeySaslHandshake, 1); v != 1 {
		t.Errorf("header of SaslHandshake: %d", v)
	}
	if v := ResponseHeaderVersion(KeyApiVersions, 4); v != 0 {
		t.Errorf("response header of ApiVersions: %d", v)
	}
	if v := RequestHeaderVersion(4, 0); v != -1 {
		t.Errorf("header of a removed API: %d", v)
	}
}

// Records that stay in a file leave a gap which, filled, gives the same bytes as encoding them.
func TestEncodeSplit(t *testing.T) {
	part := func(i int32, records string) FetchResponsePartitionData {
		p := NewFetchResponsePartitionData()
		p.PartitionIndex, p.Records = i, []byte(records)
		p.DivergingEpoch.Epoch = 3
		return p
	}
	long := strings.Repeat("r", 70_000)
	m := NewFetchResponse()
	m.Responses = []FetchResponseFetchableTopicResponse{
		{TopicId: uuid.Metadata, Partitions: []FetchResponsePartitionData{part(0, "short"), part(1, long)}},
		{TopicId: uuid.DirLost, Partitions: []FetchResponsePartitionData{part(2, "kept"), part(3, ""), part(4, "end")}},
	}
	for v := int16(13); v <= 18; v++ {
		want, err := m.Encode([]byte("size"), v)
		if err != nil {
			t.Fatal(err)
		}
		inFile := map[int]string{0: "short", 1: long, 3: "", 4: "end"}
		b, splits, err := m.EncodeSplit([]byte("size"), nil, v, func(i int) int {
			if s, ok := inFile[i]; ok {
				return len(s)
			}
			return -1
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		at, indexes := 0, []int{}
		for _, s := range splits {
			got = append(append(got, b[at:s.At]...), inFile[s.Index]...)
			if len(inFile[s.Index]) != s.Len {
				t.Errorf("split %+v has a wrong length", s)
			}
			at = s.At
			indexes = append(indexes, s.Index)
		}
		got = append(got, b[at:]...)
		if !bytes.Equal(got, want) {
			t.Errorf("version %d: joined %d bytes, want %d", v, len(got), len(want))
		}
		if diff := cmp.Diff([]int{0, 1, 3, 4}, indexes); diff != "" {
			t.Errorf("splits (-want +got):\n%s", diff)
		}
	}
}
