package cli

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/record"
)

// recordDecoder is the text of a record's key and value; hasKey and hasPayload say which of them there is to print.
// An error ends the dump.
type recordDecoder func(r *record.Record) (key, payload string, hasKey, hasPayload bool, err error)

// bytesDecoder prints keys and values through Kafka's decoder classes.
func bytesDecoder(key, value deserializer) recordDecoder {
	return func(r *record.Record) (k, p string, hasKey, hasPayload bool, err error) {
		if r.Key != nil {
			hasKey = true
			if k, err = key(r.Key); err != nil {
				return
			}
		}
		if r.Value != nil {
			hasPayload = true
			p, err = value(r.Value)
		}
		return
	}
}

// dumpDecoders are the classes that --key-decoder-class and --value-decoder-class know.
var dumpDecoders = map[string]deserializer{
	"org.apache.kafka.tools.api.StringDecoder": func(b []byte) (string, error) { return wire.Text(b), nil },
	"org.apache.kafka.tools.api.IntegerDecoder": func(b []byte) (string, error) {
		if len(b) < 4 {
			return "", fmt.Errorf("%d bytes instead of 4", len(b))
		}
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(b)))), nil
	},
	"org.apache.kafka.tools.api.LongDecoder": func(b []byte) (string, error) {
		if len(b) < 8 {
			return "", fmt.Errorf("%d bytes instead of 8", len(b))
		}
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10), nil
	},
}

// metadataDecoder prints the records of __cluster_metadata.
func metadataDecoder(r *record.Record) (key, payload string, hasKey, hasPayload bool, err error) {
	text, err := metadataJSON(r.Value)
	if err != nil {
		text = fmt.Sprintf("Error at %d, skipping. %v", r.Offset, err)
	}
	return "", text, false, true, nil
}

func metadataJSON(value []byte) (string, error) {
	frame, n := binary.Uvarint(value)
	if n <= 0 {
		return "", fmt.Errorf("Error while reading frame version") //nolint:staticcheck // Kafka's words
	}
	if frame != 1 {
		return "", fmt.Errorf("Could not deserialize metadata record due to unknown frame version %d(only frame version 1 is supported)", frame) //nolint:staticcheck // Kafka's words
	}
	rec, version, err := metadata.ParseRecord(value)
	if err != nil {
		return "", err
	}
	data, err := messageJSON(rec, version)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`{"type":"%s","version":%d,"data":%s}`, metadata.Name(rec.RecordKey()), version, data), nil
}

// coordinatorType is a kind of record in a coordinator's topic: what its key and its value decode into.
type coordinatorType struct {
	key, value func() protocol.Message
}

func kind[K, V protocol.Message](key func() K, value func() V) coordinatorType {
	return coordinatorType{func() protocol.Message { return key() }, func() protocol.Message { return value() }}
}

// The kinds of records of the three coordinators' topics, by the number in front of the key.
var (
	groupTypes = map[int16]coordinatorType{
		0:  kind(protocol.NewLegacyOffsetCommitKey, protocol.NewLegacyOffsetCommitValue),
		1:  kind(protocol.NewOffsetCommitKey, protocol.NewOffsetCommitValue),
		2:  kind(protocol.NewGroupMetadataKey, protocol.NewGroupMetadataValue),
		3:  kind(protocol.NewConsumerGroupMetadataKey, protocol.NewConsumerGroupMetadataValue),
		4:  kind(protocol.NewConsumerGroupPartitionMetadataKey, protocol.NewConsumerGroupPartitionMetadataValue),
		5:  kind(protocol.NewConsumerGroupMemberMetadataKey, protocol.NewConsumerGroupMemberMetadataValue),
		6:  kind(protocol.NewConsumerGroupTargetAssignmentMetadataKey, protocol.NewConsumerGroupTargetAssignmentMetadataValue),
		7:  kind(protocol.NewConsumerGroupTargetAssignmentMemberKey, protocol.NewConsumerGroupTargetAssignmentMemberValue),
		8:  kind(protocol.NewConsumerGroupCurrentMemberAssignmentKey, protocol.NewConsumerGroupCurrentMemberAssignmentValue),
		10: kind(protocol.NewShareGroupMemberMetadataKey, protocol.NewShareGroupMemberMetadataValue),
		11: kind(protocol.NewShareGroupMetadataKey, protocol.NewShareGroupMetadataValue),
		12: kind(protocol.NewShareGroupTargetAssignmentMetadataKey, protocol.NewShareGroupTargetAssignmentMetadataValue),
		13: kind(protocol.NewShareGroupTargetAssignmentMemberKey, protocol.NewShareGroupTargetAssignmentMemberValue),
		14: kind(protocol.NewShareGroupCurrentMemberAssignmentKey, protocol.NewShareGroupCurrentMemberAssignmentValue),
		15: kind(protocol.NewShareGroupStatePartitionMetadataKey, protocol.NewShareGroupStatePartitionMetadataValue),
		16: kind(protocol.NewConsumerGroupRegularExpressionKey, protocol.NewConsumerGroupRegularExpressionValue),
		17: kind(protocol.NewStreamsGroupMetadataKey, protocol.NewStreamsGroupMetadataValue),
		19: kind(protocol.NewStreamsGroupMemberMetadataKey, protocol.NewStreamsGroupMemberMetadataValue),
		20: kind(protocol.NewStreamsGroupTargetAssignmentMetadataKey, protocol.NewStreamsGroupTargetAssignmentMetadataValue),
		21: kind(protocol.NewStreamsGroupTargetAssignmentMemberKey, protocol.NewStreamsGroupTargetAssignmentMemberValue),
		22: kind(protocol.NewStreamsGroupCurrentMemberAssignmentKey, protocol.NewStreamsGroupCurrentMemberAssignmentValue),
		23: kind(protocol.NewStreamsGroupTopologyKey, protocol.NewStreamsGroupTopologyValue),
	}
	transactionTypes = map[int16]coordinatorType{
		0: kind(protocol.NewTransactionLogKey, protocol.NewTransactionLogValue),
	}
	shareTypes = map[int16]coordinatorType{
		0: kind(protocol.NewShareSnapshotKey, protocol.NewShareSnapshotValue),
		1: kind(protocol.NewShareUpdateKey, protocol.NewShareUpdateValue),
	}
)

// coordinatorDecoder prints the records of a coordinator's topic.
func coordinatorDecoder(types map[int16]coordinatorType) recordDecoder {
	return func(r *record.Record) (key, payload string, hasKey, hasPayload bool, err error) {
		if r.Key == nil {
			return "", "", false, false, fmt.Errorf("Failed to decode message at offset %d using the specified decoder (message had a missing key)", r.Offset) //nolint:staticcheck // Kafka's words
		}
		if len(r.Key) < 2 {
			return fmt.Sprintf("Error at offset %d, skipping. key of %d bytes", r.Offset, len(r.Key)), "", true, false, nil
		}
		number := int16(binary.BigEndian.Uint16(r.Key))
		t, ok := types[number]
		if !ok {
			return fmt.Sprintf("Unknown record type %d at offset %d, skipping.", number, r.Offset), "", true, false, nil
		}
		if key, payload, err = coordinatorJSON(t, number, r); err != nil {
			return fmt.Sprintf("Error at offset %d, skipping. %v", r.Offset, err), "", true, false, nil
		}
		return key, payload, true, true, nil
	}
}

func coordinatorJSON(t coordinatorType, number int16, r *record.Record) (key, payload string, err error) {
	k := t.key()
	if err := k.Decode(wire.NewDecoder(r.Key[2:]), 0); err != nil {
		return "", "", err
	}
	data, err := messageJSON(k, 0)
	if err != nil {
		return "", "", err
	}
	key = fmt.Sprintf(`{"type":"%d","data":%s}`, number, data)
	if r.Value == nil {
		return key, "<DELETE>", nil
	}
	if len(r.Value) < 2 {
		return "", "", fmt.Errorf("value of %d bytes", len(r.Value))
	}
	version := int16(binary.BigEndian.Uint16(r.Value))
	v := t.value()
	if err := v.Decode(wire.NewDecoder(r.Value[2:]), version); err != nil {
		return "", "", err
	}
	switch v := v.(type) {
	case *protocol.GroupMetadataValue:
		data, err = groupMetadataJSON(v, version)
	case *protocol.TransactionLogValue:
		data, err = transactionJSON(v, version)
	default:
		data, err = messageJSON(v, version)
	}
	return key, fmt.Sprintf(`{"version":"%d","data":%s}`, version, data), err
}
