package protocol

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
)

// shapes are numbers of topics and of partitions in each.
var shapes = []struct{ topics, partitions int }{{1, 1}, {10, 10}, {10, 100}}

func produceRequest(topics, partitions, recordBytes int) *ProduceRequest {
	m := NewProduceRequest()
	m.Acks, m.TimeoutMs = -1, 30_000
	for t := range topics {
		topic := ProduceRequestTopicProduceData{TopicId: uuid.UUID{15: byte(t + 1)}}
		for p := range partitions {
			topic.PartitionData = append(topic.PartitionData, ProduceRequestPartitionProduceData{Index: int32(p), Records: bytes.Repeat([]byte("r"), recordBytes)})
		}
		m.TopicData = append(m.TopicData, topic)
	}
	return m
}

func fetchRequest(topics, partitions int) *FetchRequest {
	m := NewFetchRequest()
	for t := range topics {
		topic := FetchRequestFetchTopic{TopicId: uuid.UUID{15: byte(t + 1)}}
		for p := range partitions {
			part := NewFetchRequestFetchPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = int32(p), 12345, 1<<20
			topic.Partitions = append(topic.Partitions, part)
		}
		m.Topics = append(m.Topics, topic)
	}
	return m
}

func fetchResponse(topics, partitions, recordBytes int) *FetchResponse {
	m := NewFetchResponse()
	for t := range topics {
		topic := FetchResponseFetchableTopicResponse{TopicId: uuid.UUID{15: byte(t + 1)}}
		for p := range partitions {
			part := NewFetchResponsePartitionData()
			part.PartitionIndex, part.HighWatermark, part.Records = int32(p), 12345, bytes.Repeat([]byte("r"), recordBytes)
			topic.Partitions = append(topic.Partitions, part)
		}
		m.Responses = append(m.Responses, topic)
	}
	return m
}

func decodeLoop(b *testing.B, m Message, version int16) {
	in, err := m.Encode(nil, version)
	if err != nil {
		b.Fatal(err)
	}
	var d wire.Decoder
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		d.Reset(in)
		if err := m.Decode(&d, version); err != nil {
			b.Fatal(err)
		}
	}
}

func encodeLoop(b *testing.B, m Message, version int16) {
	var buf []byte
	b.ReportAllocs()
	for range b.N {
		var err error
		if buf, err = m.Encode(buf[:0], version); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProduceRequestDecode(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			decodeLoop(b, produceRequest(s.topics, s.partitions, 1000), 13)
		})
	}
}

func BenchmarkFetchRequestDecode(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			decodeLoop(b, fetchRequest(s.topics, s.partitions), 18)
		})
	}
}

func BenchmarkFetchResponseDecode(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			decodeLoop(b, fetchResponse(s.topics, s.partitions, 1000), 18)
		})
	}
}

func BenchmarkFetchResponseEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			encodeLoop(b, fetchResponse(s.topics, s.partitions, 0), 18)
		})
	}
}

func BenchmarkFetchResponseEncodeSplit(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("%dx%d", s.topics, s.partitions), func(b *testing.B) {
			m := fetchResponse(s.topics, s.partitions, 0)
			var buf []byte
			var splits []wire.Split
			b.ReportAllocs()
			for range b.N {
				var err error
				if buf, splits, err = m.EncodeSplit(buf[:0], splits[:0], 18, func(int) int { return 65536 }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkProduceResponseEncode(b *testing.B) {
	m := NewProduceResponse()
	for t := range 10 {
		topic := ProduceResponseTopicProduceResponse{TopicId: uuid.UUID{15: byte(t + 1)}}
		for p := range 10 {
			part := NewProduceResponsePartitionProduceResponse()
			part.Index, part.BaseOffset = int32(p), 77
			topic.PartitionResponses = append(topic.PartitionResponses, part)
		}
		m.Responses = append(m.Responses, topic)
	}
	encodeLoop(b, m, 13)
}
