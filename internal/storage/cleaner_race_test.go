package storage

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Logs are appended to, read, flushed and shut down while they are compacted, on a real disk and by several goroutines; the race
// detector watches, and the last value of each key is there at each time.
func TestCleanerBesideOthers(t *testing.T) {
	const appends, keys = 1500, 10
	m := openManagerWith(t, t.TempDir(), func(o *ManagerOptions) {
		o.Cleaner = CleanerOptions{Threads: 2, DedupeBuffer: 2 * 24 * 8, LoadFactor: 0.9, IOBuffer: 4 * 512, MaxBytesPerSecond: math.MaxFloat64, Backoff: time.Millisecond}
	})
	settings := config.Topic{Layers: config.Layers{Node: nodeSettings(t)}, Own: map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "800", "min.cleanable.dirty.ratio": "0", "file.delete.delay.ms": "0", "index.interval.bytes": "100",
	}}
	var wg sync.WaitGroup
	for i := range 2 {
		l, err := m.Open(TopicPartition{Topic: "t", Partition: int32(i)}, uuid.UUID{9}, uuid.Zero, settings)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		wg.Go(func() {
			defer close(done)
			for n := range appends {
				b := record.NewBuilder(0, record.None)
				b.Append(int64(n), []byte(fmt.Sprint(n%keys)), []byte(fmt.Sprint(n)))
				batch, err := b.Build()
				if err == nil {
					_, err = l.AppendAsLeader(batch, 0, AppendOptions{ProduceVersion: 9})
				}
				if err != nil {
					t.Error(err)
					return
				}
				l.SetHighWatermark(l.EndOffset())
				if n%100 == 0 {
					if err := l.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
		wg.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				lastValues(t, l, keys)
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		l := m.Log(TopicPartition{Topic: "t", Partition: int32(i)})
		if l.cleaned.Load() < 0 {
			t.Error("nothing was cleaned")
		}
	}
	if err := m.Shutdown(1); err != nil {
		t.Fatal(err)
	}
}

// lastValues reads a log that counts up: of the keys that were written before, none is missing, and each has one of the last values.
func lastValues(t *testing.T, l *Log, keys int64) {
	end := l.EndOffset()
	last := map[string]int64{}
	for offset := l.StartOffset(); offset < end; {
		s, err := l.Read(offset, 4000, true, end)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := s.Bytes()
		s.Release()
		if err != nil {
			t.Error(err)
			return
		}
		if len(b) == 0 {
			break
		}
		for rest := record.Batch(b); len(rest) > 0; rest = rest[rest.Length():] {
			var r record.Record
			it := rest[:rest.Length()].Iter(nil)
			for it.Next(&r) {
				last[string(r.Key)] = r.Offset
			}
			offset = rest.NextOffset()
		}
	}
	for key := range keys {
		if want := end - 1 - (end-1-key)%keys; end > key && last[fmt.Sprint(key)] != want {
			// It was written again, and this record taken away, before the reader came there.
			if l.EndOffset() <= want+keys {
				t.Errorf("key %d was last seen at %d, it was written at %d; the log ended at %d", key, last[fmt.Sprint(key)], want, end)
			}
		}
	}
}
