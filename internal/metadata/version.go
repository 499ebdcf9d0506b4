package metadata

import "fmt"

// Version is a level of the feature metadata.version: which records, record versions and features the log of a
// cluster may hold.
type Version int16

// The levels that Kafka 4.4.0 knows.
const (
	MinVersion     Version = 7  // 3.3-IV3
	LatestVersion  Version = 33 // 4.4-IV2, the default of a new cluster
	TestingVersion Version = 34 // 4.5-IV0, not for production

	V3_3_IV3 Version = 7
	V3_4_IV0 Version = 8
	V3_5_IV0 Version = 9
	V3_5_IV1 Version = 10
	V3_5_IV2 Version = 11 // SCRAM
	V3_6_IV0 Version = 12 // the leader epoch stays when the ISR shrinks
	V3_6_IV1 Version = 13 // metadata transactions
	V3_6_IV2 Version = 14 // delegation tokens
	V3_7_IV0 Version = 15 // controller registration
	V3_7_IV1 Version = 16
	V3_7_IV2 Version = 17 // directory assignment
	V3_7_IV3 Version = 18
	V3_7_IV4 Version = 19
	V3_8_IV0 Version = 20
	V3_9_IV0 Version = 21
	V4_0_IV0 Version = 22
	V4_0_IV1 Version = 23 // eligible leader replicas
	V4_0_IV2 Version = 24
	V4_0_IV3 Version = 25
	V4_1_IV0 Version = 26
	V4_1_IV1 Version = 27
	V4_2_IV0 Version = 28
	V4_2_IV1 Version = 29
	V4_3_IV0 Version = 30 // cordoned log directories
	V4_4_IV0 Version = 31
	V4_4_IV1 Version = 32 // CIDR in ACL hosts
	V4_4_IV2 Version = 33 // controller unregistration
	V4_5_IV0 Version = 34
)

// level is a row of the table of versions.
type level struct {
	name            string
	changesMetadata bool // going below it loses metadata
	fetch           int16
	listOffsets     int16
	partition       int16 // PartitionRecord and PartitionChangeRecord
	registerBroker  int16
}

// levels are the rows from MinVersion on.
var levels = [...]level{
	{"3.3-IV3", true, 13, 7, 0, 1},
	{"3.4-IV0", true, 13, 7, 0, 2},
	{"3.5-IV0", false, 14, 8, 0, 2},
	{"3.5-IV1", false, 15, 8, 0, 2},
	{"3.5-IV2", true, 15, 8, 0, 2},
	{"3.6-IV0", false, 15, 8, 0, 2},
	{"3.6-IV1", true, 15, 8, 0, 2},
	{"3.6-IV2", true, 15, 8, 0, 2},
	{"3.7-IV0", true, 15, 8, 0, 2},
	{"3.7-IV1", false, 15, 8, 0, 2},
	{"3.7-IV2", true, 15, 8, 1, 3},
	{"3.7-IV3", false, 15, 8, 1, 3},
	{"3.7-IV4", false, 16, 8, 1, 3},
	{"3.8-IV0", false, 16, 8, 1, 3},
	{"3.9-IV0", false, 17, 9, 1, 3},
	{"4.0-IV0", false, 17, 9, 1, 3},
	{"4.0-IV1", true, 17, 9, 2, 3},
	{"4.0-IV2", false, 17, 9, 2, 3},
	{"4.0-IV3", false, 17, 10, 2, 3},
	{"4.1-IV0", false, 17, 10, 2, 3},
	{"4.1-IV1", false, 18, 10, 2, 3},
	{"4.2-IV0", false, 18, 10, 2, 3},
	{"4.2-IV1", false, 18, 11, 2, 3},
	{"4.3-IV0", true, 18, 11, 2, 4},
	{"4.4-IV0", false, 18, 11, 2, 4},
	{"4.4-IV1", true, 18, 11, 2, 4},
	{"4.4-IV2", true, 18, 11, 2, 4},
	{"4.5-IV0", false, 18, 11, 2, 4},
}

// Known reports whether v is one of the levels.
func (v Version) Known() bool { return v >= MinVersion && v <= TestingVersion }

// Production reports whether v may be used outside of tests.
func (v Version) Production() bool { return v >= MinVersion && v <= LatestVersion }

// level returns the row of v. An unknown v has that of the nearest level.
func (v Version) level() *level {
	return &levels[min(max(v, MinVersion), TestingVersion)-MinVersion]
}

// String is the version as Kafka writes it: 4.4-IV2.
func (v Version) String() string {
	if !v.Known() {
		return fmt.Sprintf("unknown metadata.version %d", int16(v))
	}
	return v.level().name
}

// ParseVersion reads 4.4-IV2, or 4.4 for the latest production level of that release.
func ParseVersion(s string) (Version, error) {
	found := Version(0)
	for i := range levels {
		v, name := MinVersion+Version(i), levels[i].name
		if name == s {
			return v, nil
		}
		if len(name) > 4 && name[:len(name)-4] == s && v.Production() {
			found = v
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("metadata.version %q is not known", s)
	}
	return found, nil
}

// ChangesMetadata reports whether going from v to the level before it may lose metadata.
func (v Version) ChangesMetadata() bool { return v.level().changesMetadata }

// SafeDowngrade reports whether going from v down to the lower level to loses nothing.
func (v Version) SafeDowngrade(to Version) bool {
	for l := v; l > to; l-- {
		if l.ChangesMetadata() {
			return false
		}
	}
	return true
}

// FetchVersion is the version of Fetch between brokers.
func (v Version) FetchVersion() int16 { return v.level().fetch }

// ListOffsetsVersion is the version of ListOffsets between brokers.
func (v Version) ListOffsetsVersion() int16 { return v.level().listOffsets }

// Scram reports whether SCRAM credentials may be stored.
func (v Version) Scram() bool { return v >= V3_5_IV2 }

// BumpsLeaderEpochOnShrink reports whether the leader epoch rises when the ISR shrinks.
func (v Version) BumpsLeaderEpochOnShrink() bool { return v < V3_6_IV0 }

// Transactions reports whether metadata transactions may be used (KIP-868).
func (v Version) Transactions() bool { return v >= V3_6_IV1 }

// DelegationTokens reports whether delegation tokens may be stored.
func (v Version) DelegationTokens() bool { return v >= V3_6_IV2 }

// ControllerRegistration reports whether controllers register (KIP-919).
func (v Version) ControllerRegistration() bool { return v >= V3_7_IV0 }

// DirectoryAssignment reports whether partitions know their log directories (KIP-858).
func (v Version) DirectoryAssignment() bool { return v >= V3_7_IV2 }

// ELR reports whether partitions may have eligible leader replicas (KIP-966).
func (v Version) ELR() bool { return v >= V4_0_IV1 }

// CordonedLogDirs reports whether brokers may report cordoned log directories.
func (v Version) CordonedLogDirs() bool { return v >= V4_3_IV0 }

// CIDRACLs reports whether the host of an ACL may be a network.
func (v Version) CIDRACLs() bool { return v >= V4_4_IV1 }

// ControllerUnregistration reports whether controllers can be forgotten.
func (v Version) ControllerUnregistration() bool { return v >= V4_4_IV2 }

// RecordVersion is the version in which a record is written at level v. What a
// BrokerRegistrationChangeRecord says decides its version alone.
func (v Version) RecordVersion(rec Record) int16 {
	switch rec := rec.(type) {
	case *RegisterBrokerRecord:
		return v.level().registerBroker
	case *PartitionRecord, *PartitionChangeRecord:
		return v.level().partition
	case *BrokerRegistrationChangeRecord:
		switch {
		case rec.CordonedLogDirs != nil:
			return 3
		case len(rec.LogDirs) > 0:
			return 2
		case rec.InControlledShutdown != 0:
			return 1
		}
	}
	return 0
}

// Versioned is a record in the version that level v writes.
func (v Version) Versioned(rec Record) Versioned { return Versioned{rec, v.RecordVersion(rec)} }
