package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// load is a kind of records.
type load struct {
	name  string
	size  int // bytes of a value
	codec kgo.CompressionCodec

	produceCPU, consumeCPU, produceSpeed, consumeSpeed *measure
}

func loadMeasures() []*load {
	loads := []*load{
		{name: "1 KB records", size: 1000, codec: kgo.NoCompression()},
		{name: "200 B lz4 records", size: 200, codec: kgo.Lz4Compression()},
	}
	for _, l := range loads {
		l.produceCPU = &measure{name: l.name + ": processor per GB produced", unit: "s/GB", limit: 0.5}
		l.consumeCPU = &measure{name: l.name + ": processor per GB consumed", unit: "s/GB", limit: 0.9}
		l.produceSpeed = &measure{name: l.name + ": produced", unit: "MB/s"}
		l.consumeSpeed = &measure{name: l.name + ": consumed", unit: "MB/s"}
	}
	return loads
}

// createTopics creates topics one after the other and returns the median time in milliseconds.
func createTopics(ctx context.Context, s *server, n int) (float64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var times []float64
	for i := range n {
		begin := time.Now()
		if err := createTopic(ctx, cl, fmt.Sprintf("created-%d", i), 1); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(begin).Microseconds())/1000)
	}
	return median(times), nil
}

func createTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	req.TimeoutMillis = 30_000
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	return err
}

// run produces and consumes so many MB of values.
func (l *load) run(ctx context.Context, s *server, megabytes int) error {
	topic := fmt.Sprintf("load-%d", l.size)
	n := megabytes * 1_000_000 / l.size
	gb := float64(n*l.size) / 1e9
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(l.codec),
		kgo.MaxBufferedRecords(50_000), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := createTopic(ctx, cl, topic, 6); err != nil {
		return err
	}
	if err := l.measured(s, gb, l.produceCPU, l.produceSpeed, func() error { return l.produce(ctx, cl, n) }); err != nil {
		return err
	}
	return l.measured(s, gb, l.consumeCPU, l.consumeSpeed, func() error { return consume(ctx, s, topic, n) })
}

// measured runs fn and notes the server's processor time and the speed.
func (l *load) measured(s *server, gb float64, cpu, speed *measure, fn func() error) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := fn(); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := s.cpu()
	cpu.add(s, (after-before).Seconds()/gb)
	speed.add(s, gb*1000/took.Seconds())
	return err
}

func (l *load) produce(ctx context.Context, cl *kgo.Client, n int) error {
	values := l.values()
	failed := make(chan error, 1)
	for i := range n {
		cl.Produce(ctx, &kgo.Record{Value: values[i%len(values)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// values are texts that compress to about a half.
func (l *load) values() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 500)
	for i := range words {
		words[i] = fmt.Sprintf("%x", r.Uint32())
	}
	out := make([][]byte, 1000)
	for i := range out {
		var b []byte
		for len(b) < l.size {
			b = append(append(b, words[r.IntN(len(words))]...), ' ')
		}
		out[i] = b[:l.size]
	}
	return out
}

func consume(ctx context.Context, s *server, topic string, n int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for n > 0 {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return err
		}
		n -= f.NumRecords()
	}
	return nil
}
