package replica

import (
	"fmt"
	"testing"

	"github.com/ottla-io/ottla/internal/record"
)

// large is a batch of ten records of 1 KiB.
func large() record.Batch {
	b := record.NewBuilder(0, record.None)
	for range 10 {
		b.Append(1000, nil, make([]byte, 1024))
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return batch
}

func BenchmarkAppend(b *testing.B) {
	m := newRealManager(b)
	p := m.create("t", 1, 1)
	batch := large()
	released := func(a *Append) {
		if a.Entries[0].Err != nil {
			b.Fatal(a.Entries[0].Err)
		}
		a.Release()
	}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		batch.SetBaseOffset(0)
		a := m.NewAppend()
		a.Acks = AcksAll
		a.Entries = append(a.Entries, AppendEntry{Partition: p, Records: batch})
		m.Append(a, released)
	}
}

// BenchmarkFetch is a session of many partitions one of which has something to read.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newRealManager(b)
			var parts []FetchPart
			for i := range n {
				topic := fmt.Sprint("t", i)
				m.create(topic, byte(i+1), 1)
				parts = append(parts, part(topic, 0))
			}
			for range 100 {
				p, _ := m.Partition(TopicPartition{Topic: "t0"})
				a := m.NewAppend()
				a.Entries = append(a.Entries, AppendEntry{Partition: p, Records: large()})
				m.Append(a, func(a *Append) { a.Release() })
			}
			fetch := func(id, epoch int32, parts ...FetchPart) (session int32, bytes int) {
				f := m.NewFetch()
				f.ReplicaID, f.Version, f.MinBytes, f.MaxBytes = -1, 12, 1, 1<<20
				f.Parts = append(f.Parts, parts...)
				if err := m.Sessions.Begin(f, SessionRequest{ID: id, Epoch: epoch}); err != nil {
					b.Fatal(err)
				}
				m.Fetch(f, func(f *Fetch) {
					session, _ = m.Sessions.Finish(f)
					for i := range f.Results {
						bytes += f.Results[i].Records.Len
					}
					f.Release()
				})
				return session, bytes
			}
			id, bytes := fetch(0, 0, parts...)
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			epoch := int32(0)
			for b.Loop() {
				epoch++
				if _, n := fetch(id, epoch); n != bytes {
					b.Fatalf("%d bytes", n)
				}
			}
		})
	}
}
