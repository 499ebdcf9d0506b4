//go:build interop

package folders

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func codec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

func client(t testing.TB, c *servertest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func createTopic(t testing.TB, c *servertest.Cluster, name string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(deadline(t), client(t, c))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// value is the text of record i.
func value(codec string, i int) string { return fmt.Sprintf("%s-%d-%0*d", codec, i, i%50, 0) }

// produce sends n records that are all acknowledged.
func produce(t testing.TB, c *servertest.Cluster, topic, codecName string, n int) {
	t.Helper()
	cl := client(t, c, kgo.ProducerBatchCompression(codec(codecName)), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(20000))
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: []byte(value(codecName, i))})
	}
	if err := cl.ProduceSync(deadline(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// consumeAll reads a topic from its start to its end.
func consumeAll(t testing.TB, c *servertest.Cluster, topic string) []*kgo.Record {
	t.Helper()
	ends := ends(t, c, topic)
	want := int64(0)
	for _, end := range ends {
		want += end
	}
	cl := client(t, c, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var out []*kgo.Record
	next := map[int32]int64{}
	for read := int64(0); read < want; {
		fetches := cl.PollFetches(deadline(t))
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next[r.Partition] {
				t.Errorf("%s-%d: offset %d follows on %d", topic, r.Partition, r.Offset, next[r.Partition]-1)
			}
			next[r.Partition] = r.Offset + 1
			out = append(out, r)
			read++
		})
	}
	return out
}

// ends are the end offsets of the partitions of a topic.
func ends(t testing.TB, c *servertest.Cluster, topic string) map[int32]int64 {
	t.Helper()
	cl := client(t, c)
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	md, err := meta.RequestWith(deadline(t), cl)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	for _, p := range md.Topics[0].Partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp = p.Partition, -1
		lt.Partitions = append(lt.Partitions, lp)
	}
	req.ReplicaID = -1
	req.Topics = append(req.Topics, lt)
	resp, err := req.RequestWith(deadline(t), cl)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("end of %s-%d: %v", topic, p.Partition, err)
		}
		out[p.Partition] = p.Offset
	}
	return out
}

// produceUntilKilled sends records until the server is killed in the middle of it, and returns those that were acknowledged.
func produceUntilKilled(t testing.TB, c *servertest.Cluster, s *servertest.Server, topic string) map[string]string {
	t.Helper()
	cl := client(t, c, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(5*time.Second), kgo.MaxBufferedRecords(1000))
	var mu sync.Mutex
	acked := map[string]string{}
	enough := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			v := fmt.Sprintf("v%d", i)
			cl.Produce(ctx, &kgo.Record{Value: []byte(v)}, func(r *kgo.Record, err error) {
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				acked[v] = fmt.Sprintf("%d@%d", r.Offset, r.Partition)
				if len(acked) == 5000 {
					close(enough)
				}
			})
		}
	}()
	<-enough
	s.Kill()
	cancel()
	<-done
	cl.Close()
	mu.Lock()
	defer mu.Unlock()
	return acked
}
