package metadata

import (
	"encoding/binary"
	"fmt"

	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// Record is one record of the metadata log.
type Record interface {
	RecordKey() int16
	SetDefaults()
	Encode(b []byte, version int16) ([]byte, error)
	Decode(d *wire.Decoder, version int16) error
}

// frameVersion is the only version of the frame around a record.
const frameVersion = 1

// Versioned is a record with the version it is written in, or was read in.
type Versioned struct {
	Record  Record
	Version int16
}

// AppendRecord writes a framed record to b: frame version, key and version as varints, then the fields. That is
// the value of a record of the log; its key is null.
func AppendRecord(b []byte, rec Record, version int16) ([]byte, error) {
	b = binary.AppendUvarint(b, frameVersion)
	b = binary.AppendUvarint(b, uint64(rec.RecordKey()))
	b = binary.AppendUvarint(b, uint64(uint16(version)))
	return rec.Encode(b, version)
}

// ParseRecord reads a framed record and returns it with its version. As in Kafka an unknown frame version, key or
// version, and bytes left over, are errors. Fields of bytes alias b.
func ParseRecord(b []byte) (Record, int16, error) {
	d := wire.NewDecoder(b)
	frame, key, version := d.Uvarint(), d.Uvarint(), d.Uvarint()
	if d.Failed() {
		return nil, 0, fmt.Errorf("decode frame of metadata record: %w", d.Err())
	}
	if frame != frameVersion {
		return nil, 0, fmt.Errorf("decode metadata record: frame version %d", frame)
	}
	if key >= len(records) || records[key].name == "" {
		return nil, 0, fmt.Errorf("decode metadata record: unknown key %d", key)
	}
	if version > int(records[key].max) {
		return nil, 0, fmt.Errorf("decode %s: %w %d", records[key].name, wire.ErrUnsupportedVersion, version)
	}
	rec := NewRecord(int16(key))
	if err := rec.Decode(d, int16(version)); err != nil {
		return nil, 0, err
	}
	if n := d.Remaining(); n > 0 {
		return nil, 0, fmt.Errorf("decode %s: %d bytes left over", records[key].name, n)
	}
	return rec, int16(version), nil
}

// Name is the name of a record's type as tools print it: PARTITION_CHANGE_RECORD. Empty for an unknown key.
func Name(key int16) string {
	if key < 0 || int(key) >= len(records) {
		return ""
	}
	return records[key].name
}

// MaxVersion is the highest version of a record's type; -1 for an unknown key. The lowest is always 0.
func MaxVersion(key int16) int16 {
	if Name(key) == "" {
		return -1
	}
	return records[key].max
}
