package metadata

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
)

// The frame as a real log holds it.
func TestFrame(t *testing.T) {
	name := "Bootstrap records"
	want := append([]byte{1, 0x17, 0, 1, 0, 0x12, 0x12}, name...)
	got, err := AppendRecord(nil, &BeginTransactionRecord{Name: &name}, 0)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("encoded %x, %v, want %x", got, err, want)
	}
	rec, version, err := ParseRecord(want)
	if err != nil || version != 0 {
		t.Fatal(version, err)
	}
	if diff := cmp.Diff(&BeginTransactionRecord{Name: &name}, rec); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestBadFrames(t *testing.T) {
	for _, tc := range []struct {
		b   string
		err string
	}{
		{"", "input ends too early"},
		{"\x00\x14\x00\x00", "frame version 0"},
		{"\x02\x14\x00\x00", "frame version 2"},
		{"\x01\x06\x00\x00", "unknown key 6"},
		{"\x01\x1e\x00\x00", "unknown key 30"},
		{"\x01\x81\x80\x04\x00\x00", "unknown key 65537"},
		{"\x01\x14\x01\x00", "unsupported version 1"},
		{"\x01\x14\x00", "input ends too early"},
		{"\x01\x14\x00\x00!", "1 bytes left over"},
	} {
		rec, _, err := ParseRecord([]byte(tc.b))
		if err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("ParseRecord(%x) = %v, %v, want an error with %q", tc.b, rec, err, tc.err)
		}
	}
	if _, _, err := ParseRecord([]byte("\x01\x14\x01\x00")); !errors.Is(err, wire.ErrUnsupportedVersion) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	n := 0
	for key := int16(-1); key < 40; key++ {
		rec := NewRecord(key)
		if (rec == nil) != (Name(key) == "") || (rec == nil) != (MaxVersion(key) < 0) || rec != nil && rec.RecordKey() != key {
			t.Errorf("key %d: record %T, name %q, version %d", key, rec, Name(key), MaxVersion(key))
		}
		if rec != nil {
			n++
		}
	}
	if n != 27 {
		t.Errorf("%d records, want 27", n)
	}
	for key, want := range map[int16]string{5: "PARTITION_CHANGE_RECORD", 20: "NO_OP_RECORD", 21: "ZK_MIGRATION_STATE_RECORD", 28: "CLEAR_ELR_RECORD"} {
		if got := Name(key); got != want {
			t.Errorf("Name(%d) = %s, want %s", key, got, want)
		}
	}
}

func TestRecordVersion(t *testing.T) {
	for _, tc := range []struct {
		level Version
		rec   Record
		want  int16
	}{
		{V3_3_IV3, &RegisterBrokerRecord{}, 1},
		{V3_4_IV0, &RegisterBrokerRecord{}, 2},
		{V3_7_IV2, &RegisterBrokerRecord{}, 3},
		{V4_4_IV2, &RegisterBrokerRecord{}, 4},
		{V3_7_IV1, &PartitionRecord{}, 0},
		{V3_7_IV2, &PartitionChangeRecord{}, 1},
		{V4_0_IV1, &PartitionRecord{}, 2},
		{V4_4_IV2, &TopicRecord{}, 0},
		{V4_4_IV2, &BrokerRegistrationChangeRecord{Fenced: 1}, 0},
		{V4_4_IV2, &BrokerRegistrationChangeRecord{InControlledShutdown: 1}, 1},
		{V4_4_IV2, &BrokerRegistrationChangeRecord{LogDirs: []uuid.UUID{uuid.One}}, 2},
		{V4_4_IV2, &BrokerRegistrationChangeRecord{CordonedLogDirs: []uuid.UUID{}}, 3},
	} {
		if got := tc.level.RecordVersion(tc.rec); got != tc.want {
			t.Errorf("%s: %T has version %d, want %d", tc.level, tc.rec, got, tc.want)
		}
	}
}

func TestVersions(t *testing.T) {
	if len(levels) != int(TestingVersion-MinVersion)+1 {
		t.Fatalf("%d levels", len(levels))
	}
	for _, tc := range []struct {
		text string
		want Version
	}{{"3.3-IV3", 7}, {"3.3", 7}, {"3.9", 21}, {"4.0", 25}, {"4.4", 33}, {"4.4-IV0", 31}, {"4.5-IV0", 34}} {
		if got, err := ParseVersion(tc.text); err != nil || got != tc.want {
			t.Errorf("ParseVersion(%q) = %d, %v, want %d", tc.text, got, err, tc.want)
		}
	}
	for _, bad := range []string{"", "3.3-IV0", "4.5", "2.8"} {
		if got, err := ParseVersion(bad); err == nil {
			t.Errorf("ParseVersion(%q) = %d", bad, got)
		}
	}
	if !V4_4_IV0.SafeDowngrade(V4_3_IV0) || V4_4_IV1.SafeDowngrade(V4_4_IV0) || V4_3_IV0.SafeDowngrade(V4_2_IV1) || !V4_2_IV1.SafeDowngrade(V4_0_IV1) {
		t.Error("SafeDowngrade is wrong")
	}
}

func TestFeatures(t *testing.T) {
	for _, tc := range []struct {
		name  string
		level Version
		want  int16
	}{
		{FeatureMetadata, V4_0_IV0, 22},
		{FeatureKRaft, V3_8_IV0, 0}, {FeatureKRaft, V3_9_IV0, 1},
		{FeatureTransaction, V4_0_IV1, 0}, {FeatureTransaction, V4_0_IV2, 2},
		{FeatureShare, V4_2_IV0, 1}, {FeatureShare, LatestVersion, 2},
		{FeatureELR, V4_0_IV3, 0}, {FeatureELR, LatestVersion, 1},
	} {
		if got := LookupFeature(tc.name).Default(tc.level); got != tc.want {
			t.Errorf("%s at %s: %d, want %d", tc.name, tc.level, got, tc.want)
		}
	}
	elr := LookupFeature(FeatureELR)
	if elr.Check(1, V4_0_IV0) == nil || elr.Check(1, V4_0_IV1) != nil || elr.Check(0, MinVersion) != nil || elr.Check(2, LatestVersion) == nil {
		t.Error("Check is wrong")
	}
	if LookupFeature("none") != nil {
		t.Error("an unknown feature was found")
	}
}
