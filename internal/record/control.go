package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type in the key of a control record.
type ControlType int16

const (
	Abort          ControlType = 0
	Commit         ControlType = 1
	LeaderChange   ControlType = 2
	SnapshotHeader ControlType = 3
	SnapshotFooter ControlType = 4
	KRaftVersion   ControlType = 5
	KRaftVoters    ControlType = 6
)

// Known says whether t is a type of Kafka 4.4. Readers skip others.
func (t ControlType) Known() bool { return t >= Abort && t <= KRaftVoters }

func (t ControlType) String() string {
	switch t {
	case Abort:
		return "ABORT"
	case Commit:
		return "COMMIT"
	case LeaderChange:
		return "LEADER_CHANGE"
	case SnapshotHeader:
		return "SNAPSHOT_HEADER"
	case SnapshotFooter:
		return "SNAPSHOT_FOOTER"
	case KRaftVersion:
		return "KRAFT_VERSION"
	case KRaftVoters:
		return "KRAFT_VOTERS"
	}
	return fmt.Sprintf("UNKNOWN(%d)", int16(t))
}

const controlKeyVersion = 0

// ControlKey returns the key of a control record: version 0 and the type, two bytes each.
func ControlKey(t ControlType) []byte {
	return binary.BigEndian.AppendUint16([]byte{0, controlKeyVersion}, uint16(t))
}

// ParseControlKey reads the key of a control record. Keys of later versions may be longer.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return 0, invalidf("control record key has %d bytes", len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, invalidf("control record key has version %d", v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// AppendControl adds a control record; value is a message of package protocol with its version in
// front. The batch becomes a control batch.
func (b *Builder) AppendControl(timestamp int64, t ControlType, value []byte) {
	b.SetControl()
	b.Append(timestamp, ControlKey(t), value)
}

// EndTxn is the end of a transaction as its marker says it (KIP-98, KIP-890).
type EndTxn struct {
	Commit           bool
	CoordinatorEpoch int32
}

const endTxnSize = 2 + 4

// AppendEndTxn adds the marker that ends a transaction of producer id with epoch. The batch becomes
// a transactional control batch.
func (b *Builder) AppendEndTxn(timestamp, producerID int64, epoch int16, m EndTxn) {
	b.SetProducer(producerID, epoch, NoSequence)
	b.SetTransactional()
	t := Abort
	if m.Commit {
		t = Commit
	}
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch))
	b.AppendControl(timestamp, t, value)
}

// EndTxn reads the marker that the control record r is; ok is false if it is another control record.
func (r *Record) EndTxn() (m EndTxn, ok bool, err error) {
	t, err := ParseControlKey(r.Key)
	if err != nil || (t != Abort && t != Commit) {
		return EndTxn{}, false, err
	}
	if len(r.Value) < endTxnSize {
		return EndTxn{}, false, invalidf("end transaction marker has %d bytes", len(r.Value))
	}
	if v := int16(binary.BigEndian.Uint16(r.Value)); v < 0 {
		return EndTxn{}, false, invalidf("end transaction marker has version %d", v)
	}
	return EndTxn{Commit: t == Commit, CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:]))}, true, nil
}
