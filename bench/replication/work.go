package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const recordSize = 1000

// value is bytes that do not compress.
func value() []byte {
	b := make([]byte, recordSize)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// throughput produces with acks=all to six partitions, once to warm up and once that counts.
func (c *cluster) throughput(ctx context.Context, s size, out *figures) error {
	if err := c.create(ctx, "load", 6); err != nil {
		return err
	}
	if err := c.produce(ctx, "load", s.megabytes/4); err != nil {
		return err
	}
	before, err := c.cpu()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := c.produce(ctx, "load", s.megabytes); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := c.whole(ctx, "load"); err != nil {
		return err
	}
	after, err := c.cpu()
	if err != nil {
		return err
	}
	gb := float64(s.megabytes) / 1000
	out.add("1 KB records, acks=all, RF 3: produced", "MB/s", 0, gb*1000/took.Seconds())
	out.add("processor of the whole cluster per GB produced", "s/GB", 1.0/3, (after-before).Seconds()/gb)
	return nil
}

func (c *cluster) produce(ctx context.Context, topic string, megabytes int) error {
	cl, err := c.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	v := value()
	var failed atomic.Pointer[error]
	for range megabytes * 1_000_000 / recordSize {
		cl.Produce(ctx, &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// latency sends single records at fixed rates and measures the time to their acknowledgement.
func (c *cluster) latency(ctx context.Context, s size, out *figures) error {
	for _, rate := range []int{500, 5000} {
		times, err := c.paced(ctx, "load", rate, s.seconds)
		if err != nil {
			return err
		}
		for _, q := range []struct {
			name  string
			at    float64
			limit float64
		}{{"p50", 0.5, 0}, {"p99", 0.99, 0.5}, {"p999", 0.999, 0}} {
			ms := float64(times[int(q.at*float64(len(times)-1))].Microseconds()) / 1000
			out.add(fmt.Sprintf("%d records a second: %s until acknowledged", rate, q.name), "ms", q.limit, ms)
		}
	}
	return nil
}

// paced sends records at a rate, and returns the sorted times to their acknowledgements, from when each was due.
func (c *cluster) paced(ctx context.Context, topic string, rate, seconds int) ([]time.Duration, error) {
	cl, err := c.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	v := value()
	for range 12 { // connections and leaders are known before it counts
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: v}).FirstErr(); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var times []time.Duration
	var failed error
	begin := time.Now()
	for i := range rate * seconds {
		due := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due)) // the rate
		cl.Produce(ctx, &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took)
			if err != nil {
				failed = err
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(times)
	return times, failed
}

// gap kills the leader of a partition three times, and measures the longest time without an acknowledgement; then it freezes one.
func (c *cluster) gap(ctx context.Context, _ size, out *figures) error {
	if err := c.create(ctx, "gap", 1, []int32{1, 2, 3}); err != nil {
		return err
	}
	var killed []float64
	for range 3 {
		longest, err := c.without(ctx, syscall.SIGKILL)
		if err != nil {
			return err
		}
		killed = append(killed, longest.Seconds())
	}
	slices.Sort(killed)
	out.add("longest time without acknowledgement after a leader's kill -9", "s", 0, killed[1])
	frozen, err := c.without(ctx, syscall.SIGSTOP)
	out.add("the same after its kill -STOP", "s", 1.1, frozen.Seconds())
	return err
}

// without sends records one after the other, sends a signal to the leader, and measures the longest time between two acknowledgements.
// Then the leader is brought back.
func (c *cluster) without(ctx context.Context, how syscall.Signal) (time.Duration, error) {
	cl, err := c.client(kgo.DefaultProduceTopic("gap"), kgo.ProducerLinger(0), kgo.RequestTimeoutOverhead(time.Second), kgo.ProduceRequestTimeout(time.Second))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	md, err := c.metadata(ctx, "gap")
	if err != nil {
		return 0, err
	}
	victim := c.brokers[md.Topics[0].Partitions[0].Leader-1]
	var longest time.Duration
	last, again := time.Now(), 0
	for i := 0; again < 200; i++ {
		if i == 200 {
			if err := victim.Signal(how); err != nil {
				return 0, err
			}
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr(); err != nil {
			return 0, err
		}
		now := time.Now()
		if i >= 200 {
			longest, again = max(longest, now.Sub(last)), again+1
		}
		last = now
	}
	if how == syscall.SIGSTOP {
		err = victim.Signal(syscall.SIGCONT)
	} else {
		victim.End(how)
		err = victim.Start()
	}
	if err == nil {
		err = c.whole(ctx, "gap", "load")
	}
	return longest, err
}

// restart gives broker 3 many partitions of its own, kills it and measures the time from its start until it leads them all again.
func (c *cluster) restart(ctx context.Context, s size, out *figures) error {
	if err := c.create(ctx, "own", s.partitions, []int32{3}); err != nil {
		return err
	}
	b := c.brokers[2]
	b.End(syscall.SIGKILL)
	begin := time.Now()
	if err := b.Start(); err != nil {
		return err
	}
	if err := c.serves(ctx, 3, "own", s.partitions); err != nil {
		return err
	}
	out.add(fmt.Sprintf("start after kill -9 until all of %d partitions are served", s.partitions), "s", 0.1, time.Since(begin).Seconds())
	return nil
}

// serves waits until a broker answers ListOffsets for all partitions of a topic.
func (c *cluster) serves(ctx context.Context, id int32, topic string, partitions int) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = int32(i), -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return c.until(ctx, "answers to ListOffsets", func() (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		cl, err := c.client() // a new one: the old one may wait before it dials again
		if err != nil {
			return false, err
		}
		defer cl.Close()
		resp, err := cl.Broker(int(id)).Request(attempt, req)
		if err != nil {
			return false, nil //nolint:nilerr // it is not there yet
		}
		n := 0
		for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					n++
				}
			}
		}
		return n == partitions, nil
	})
}

// replace takes the folder of broker 2 away and measures the time until it has everything again.
func (c *cluster) replace(ctx context.Context, _ size, out *figures) error {
	b := c.brokers[1]
	b.End(syscall.SIGTERM)
	if err := b.Format(); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.Start(); err != nil {
		return err
	}
	if err := c.until(ctx, "broker 2 out of the ISRs, or back", func() (bool, error) {
		md, err := c.metadata(ctx)
		return err == nil && len(md.Brokers) == 3, nil
	}); err != nil {
		return err
	}
	err := c.whole(ctx, "load", "gap")
	out.add("start of a broker with an empty folder until all are in sync", "s", 1, time.Since(begin).Seconds())
	return err
}

// idle measures what the cluster needs when nobody asks anything.
func (c *cluster) idle(ctx context.Context, s size, out *figures) error {
	if err := c.create(ctx, "idle", s.partitions); err != nil {
		return err
	}
	before, err := c.cpu()
	if err != nil {
		return err
	}
	const span = 10 * time.Second
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(span): // what is measured
	}
	after, err := c.cpu()
	if err != nil {
		return err
	}
	out.add(fmt.Sprintf("processor of the idle cluster, %d partitions more", s.partitions), "%", 1, 100*(after-before).Seconds()/span.Seconds())
	var memory float64
	for _, n := range c.brokers {
		mb, err := n.ResidentMB()
		if err != nil {
			return err
		}
		memory += mb
	}
	out.add("resident memory of the three brokers", "MB", 0, memory)
	return nil
}
