//go:build interop

package compaction

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const topic = "latest"

// A server compacts a topic and __consumer_offsets while clients use them. Nothing is missing after it was killed, neither for Ottla
// nor for Kafka, which is started on its folders then.
func TestWhileRunning(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := servertest.New(t, "log.cleaner.backoff.ms=100", "log.cleaner.min.cleanable.ratio=0.01", "offsets.topic.num.partitions=1", "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500")
	c.Format(t)
	s := c.Start(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	id := create(ctx, t, cl)
	commit(ctx, t, cl, id, 0)
	rollAlways(ctx, t, cl, "__consumer_offsets")
	begin := time.Now().Add(-time.Hour)
	for i := range 100 {
		r := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", i%7), Value: fmt.Appendf(nil, "value-%d", i), Timestamp: begin.Add(time.Duration(i) * time.Second)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		commit(ctx, t, cl, id, int64(i))
	}
	s.WaitFor(t, "cleaned log "+topic+"-0")
	s.WaitFor(t, "cleaned log __consumer_offsets-0")
	for read(ctx, t, c) > 10 {
		time.Sleep(50 * time.Millisecond) // what was dirty when the last record came is cleaned soon
	}
	check := func(who string) {
		t.Helper()
		if n := read(ctx, t, c); n < 7 || n > 10 {
			t.Errorf("%s: there are %d records of 7 keys", who, n)
		}
		if at := committed(ctx, t, c, id); at != 99 {
			t.Errorf("%s: the group has committed %d, not 99", who, at)
		}
	}
	check("Ottla")
	s.Kill()
	s = c.Start(t)
	check("Ottla, after a kill")
	s.Kill()
	s = c.StartKafka(t)
	check("Kafka")
	s.Stop(t)
}

// read reads the topic from the beginning, checks the last value of each key, and counts the records.
func read(ctx context.Context, t *testing.T, c *servertest.Cluster) (n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	last := map[string]string{}
	for last["key-1"] != "value-99" {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			t.Fatal(err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			n++
			last[string(r.Key)] = string(r.Value)
		})
	}
	for i := 93; i < 100; i++ {
		if key, want := fmt.Sprintf("key-%d", i%7), fmt.Sprintf("value-%d", i); last[key] != want {
			t.Fatalf("%s has %q, not %q", key, last[key], want)
		}
	}
	return n
}

// request waits for an answer that is no error.
func request[R kmsg.Response](ctx context.Context, t *testing.T, cl *kgo.Client, req kmsg.Request, code func(R) int16) R {
	t.Helper()
	resp, err := cl.Request(ctx, req)
	if err == nil {
		err = kerr.ErrorForCode(code(resp.(R)))
	}
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// create makes the topic: compacted, and each batch has a segment.
func create(ctx context.Context, t *testing.T, cl *kgo.Client) (id [16]byte) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	tp := kmsg.NewCreateTopicsRequestTopic()
	tp.Topic, tp.NumPartitions, tp.ReplicationFactor = topic, 1, 1
	for name, value := range map[string]string{"cleanup.policy": "compact", "segment.ms": "1"} {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = name, &value
		tp.Configs = append(tp.Configs, cfg)
	}
	req.Topics = append(req.Topics, tp)
	return request(ctx, t, cl, req, func(r *kmsg.CreateTopicsResponse) int16 { return r.Topics[0].ErrorCode }).Topics[0].TopicID
}

// rollAlways gives each batch a segment.
func rollAlways(ctx context.Context, t *testing.T, cl *kgo.Client, name string) {
	t.Helper()
	one := "1"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
	cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cfg.Name, cfg.Value = "segment.ms", &one
	res.Configs = append(res.Configs, cfg)
	req.Resources = append(req.Resources, res)
	request(ctx, t, cl, req, func(r *kmsg.IncrementalAlterConfigsResponse) int16 { return r.Resources[0].ErrorCode })
}

func commit(ctx context.Context, t *testing.T, cl *kgo.Client, id [16]byte, offset int64) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = "group"
	tp := kmsg.NewOffsetCommitRequestTopic()
	tp.Topic, tp.TopicID = topic, id
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	tp.Partitions = append(tp.Partitions, p)
	req.Topics = append(req.Topics, tp)
	request(ctx, t, cl, req, func(r *kmsg.OffsetCommitResponse) int16 { return r.Topics[0].Partitions[0].ErrorCode })
}

// committed is the offset that the group has committed.
func committed(ctx context.Context, t *testing.T, c *servertest.Cluster, id [16]byte) int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "group"
	tp := kmsg.NewOffsetFetchRequestGroupTopic()
	tp.Topic, tp.TopicID, tp.Partitions = topic, id, []int32{0}
	g.Topics = append(g.Topics, tp)
	req.Groups = append(req.Groups, g)
	resp := request(ctx, t, cl, req, func(r *kmsg.OffsetFetchResponse) int16 { return r.Groups[0].ErrorCode })
	return resp.Groups[0].Topics[0].Partitions[0].Offset
}
