package raft

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/record"
)

// controlRecord is a control record of the metadata log or of a snapshot: one of *protocol.LeaderChangeMessage,
// *KRaftVersionRecord, *VotersRecord, *SnapshotHeaderRecord, *SnapshotFooterRecord.
type controlRecord struct {
	offset  int64
	message protocol.Message
}

// appendControl adds a control record to a batch. All of them are written in version 0.
func appendControl(b *record.Builder, timestamp int64, m protocol.Message) error {
	var t record.ControlType
	switch m.(type) {
	case *protocol.LeaderChangeMessage:
		t = record.LeaderChange
	case *protocol.SnapshotHeaderRecord:
		t = record.SnapshotHeader
	case *protocol.SnapshotFooterRecord:
		t = record.SnapshotFooter
	case *protocol.KRaftVersionRecord:
		t = record.KRaftVersion
	case *protocol.VotersRecord:
		t = record.KRaftVoters
	default:
		panic(fmt.Sprintf("raft: %T is not a control record", m))
	}
	value, err := m.Encode(nil, 0)
	if err != nil {
		return err
	}
	b.AppendControl(timestamp, t, value)
	return nil
}

// controlBatch builds one batch of control records.
func controlBatch(baseOffset int64, epoch int32, timestamp int64, messages ...protocol.Message) (record.Batch, error) {
	b := record.NewBuilder(baseOffset, record.None)
	b.SetLeaderEpoch(epoch)
	for _, m := range messages {
		if err := appendControl(b, timestamp, m); err != nil {
			return nil, fmt.Errorf("build control batch at %d: %w", baseOffset, err)
		}
	}
	return b.Build()
}

// decodeBatch reads a batch of metadata records or of control records. Control records of unknown types are left out.
func decodeBatch(b record.Batch) (Batch, []controlRecord, error) {
	out := Batch{BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Epoch: b.LeaderEpoch(), AppendTime: b.MaxTimestamp(), Bytes: len(b)}
	var controls []controlRecord
	var rec record.Record
	it := b.Iter(nil)
	for it.Next(&rec) {
		if !b.IsControl() {
			r, version, err := metadata.ParseRecord(rec.Value)
			if err != nil {
				return out, nil, fmt.Errorf("record at offset %d: %w", rec.Offset, err)
			}
			out.Records = append(out.Records, metadata.Versioned{Record: r, Version: version})
			continue
		}
		m, err := decodeControl(&rec)
		if err != nil {
			return out, nil, fmt.Errorf("control record at offset %d: %w", rec.Offset, err)
		}
		if m != nil {
			controls = append(controls, controlRecord{rec.Offset, m})
		}
	}
	if err := it.Err(); err != nil {
		return out, nil, fmt.Errorf("batch at offset %d: %w", out.BaseOffset, err)
	}
	return out, controls, nil
}

func decodeControl(rec *record.Record) (protocol.Message, error) {
	t, err := record.ParseControlKey(rec.Key)
	if err != nil {
		return nil, err
	}
	var m protocol.Message
	highest := int16(0)
	switch t {
	case record.LeaderChange:
		m, highest = protocol.NewLeaderChangeMessage(), 1
	case record.SnapshotHeader:
		m = protocol.NewSnapshotHeaderRecord()
	case record.SnapshotFooter:
		m = protocol.NewSnapshotFooterRecord()
	case record.KRaftVersion:
		m = protocol.NewKRaftVersionRecord()
	case record.KRaftVoters:
		m = protocol.NewVotersRecord()
	default:
		return nil, nil
	}
	// The version of the message is its own first field.
	version := int16(0)
	if len(rec.Value) >= 2 && highest > 0 {
		version = min(max(int16(rec.Value[0])<<8|int16(rec.Value[1]), 0), highest)
	}
	if err := m.Decode(wire.NewDecoder(rec.Value), version); err != nil {
		return nil, err
	}
	return m, nil
}
