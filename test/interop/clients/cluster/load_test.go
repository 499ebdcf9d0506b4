//go:build interop

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load is idempotent producers with acks=all, one a partition, each with a number in each record.
type load struct {
	c    *cluster
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	acked   [partitions]int // how many of each partition: they are acknowledged in order
	failed  error
	last    time.Time
	longest time.Duration // without any acknowledgement
}

// batch is how many records are under way at once, of each producer, and pause what is between two batches.
const (
	batch = 50
	pause = 5 * time.Millisecond
)

func (c *cluster) load() *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{c: c, stop: stop, last: time.Now()}
	for p := range partitions {
		client := c.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
		l.wg.Go(func() { l.produce(ctx, client, p) })
	}
	return l
}

func (l *load) produce(ctx context.Context, client *kgo.Client, p int) {
	for n := 0; ctx.Err() == nil; n += batch {
		var rs []*kgo.Record
		for i := range batch {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte(strconv.Itoa(n + i))})
		}
		err := client.ProduceSync(context.Background(), rs...).FirstErr()
		now := time.Now()
		l.mu.Lock()
		if err != nil {
			l.failed = fmt.Errorf("produce to partition %d: %w", p, err)
			l.mu.Unlock()
			return
		}
		l.acked[p] += batch
		l.longest = max(l.longest, now.Sub(l.last))
		l.last = now
		l.mu.Unlock()
		<-time.After(pause)
	}
}

// total is how many records are acknowledged.
func (l *load) total() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.acked {
		n += a
	}
	return n
}

// flows waits until every partition takes records again.
func (l *load) flows() {
	l.c.t.Helper()
	l.mu.Lock()
	before := l.acked
	l.mu.Unlock()
	l.c.waitFor("all partitions take records", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			l.c.t.Fatal(l.failed)
		}
		for p, n := range l.acked {
			if n == before[p] {
				return false
			}
		}
		return true
	})
}

// gap begins to measure the longest time without any acknowledgement.
func (l *load) gap() func() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest, l.last = 0, time.Now()
	return func() time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.longest
	}
}

// end stops the producers.
func (l *load) end() {
	l.c.t.Helper()
	l.stop()
	l.wg.Wait()
	if l.failed != nil {
		l.c.t.Fatal(l.failed)
	}
}

// readBack reads everything, and expects each record once and in order.
func (l *load) readBack() {
	l.c.t.Helper()
	reader := l.c.newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var next [partitions]int
	for read, want := 0, l.total(); read < want; {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		fs := reader.PollFetches(ctx)
		cancel()
		if err := fs.Err(); err != nil {
			l.c.t.Fatalf("after %d of %d records: %v", read, want, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != strconv.Itoa(next[r.Partition]) {
				l.c.t.Fatalf("partition %d offset %d holds record %s, expected %d", r.Partition, r.Offset, r.Value, next[r.Partition])
			}
			next[r.Partition]++
			read++
		})
	}
	if next != l.acked {
		l.c.t.Errorf("read %v records, acknowledged were %v", next, l.acked)
	}
}

// sameLogs waits until all brokers have the same bytes: the segments of each partition, one behind the other.
func (c *cluster) sameLogs(t testing.TB) {
	t.Helper()
	for p := range partitions {
		var logs [][]byte
		c.waitFor(fmt.Sprintf("the logs of partition %d are the same", p), func() bool {
			logs = nil
			for _, b := range c.brokers {
				logs = append(logs, segments(t, filepath.Join(b.Data, fmt.Sprintf("%s-%d", topic, p))))
			}
			return bytes.Equal(logs[0], logs[1]) && bytes.Equal(logs[0], logs[2])
		})
		if len(logs[0]) == 0 {
			t.Errorf("partition %d is empty", p)
		}
	}
}

func segments(t testing.TB, dir string) (all []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log")) // in the order of their names
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}
