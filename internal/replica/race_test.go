package replica

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// newRealManager is a manager on the machine's own files.
func newRealManager(t testing.TB) *testManager {
	e := real.New(real.Options{Logger: slog.New(slog.DiscardHandler)})
	m := newTestManager(t, e, t.TempDir(), func(done func() bool) {})
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), m.logs.Shutdown(1)); err != nil {
			t.Error(err)
		}
	})
	return m
}

// stress is producers, consumers and a follower of one partition at work at the same time, while its leader epoch changes.
type stress struct {
	*testManager
	acknowledged atomic.Int64
	read         atomic.Int64 // records
	stop         atomic.Bool
	wg           sync.WaitGroup
}

const recordsPerBatch = 3

func TestManyAtOnce(t *testing.T) {
	env.Poison.Store(true)
	defer env.Poison.Store(false)
	s := &stress{testManager: newRealManager(t)}
	s.replay(brokerRecord(1), brokerRecord(2))
	p := s.create("t", 1, 1, 2)
	perProducer := 300
	if testing.Short() {
		perProducer = 50
	}
	var producers sync.WaitGroup
	for range 3 {
		producers.Go(func() { s.produce(perProducer) })
	}
	for range 2 {
		s.wg.Go(s.consume)
	}
	s.wg.Go(s.follow)
	for range 20 {
		s.replay(change(1, 1)) // a new epoch, the same leader
		s.poll(-1, p.HighWatermark())
	}
	producers.Wait()
	s.stop.Store(true)
	s.wg.Wait()
	if n := s.acknowledged.Load(); n == 0 || p.HighWatermark() < n || s.read.Load() == 0 {
		t.Errorf("%d records acknowledged, high watermark %d, %d read", n, p.HighWatermark(), s.read.Load())
	}
}

// produce sends batches from buffers that are poisoned as soon as they are acknowledged.
func (s *stress) produce(n int) {
	template := records(recordsPerBatch)
	done := make(chan error)
	for range n {
		buf := env.NewBuffer(len(template))
		copy(buf.B, template)
		p, err := s.Partition(TopicPartition{Topic: "t"})
		a := s.NewAppend()
		a.Acks, a.Timeout = AcksAll, 10*time.Second
		a.Entries = append(a.Entries, AppendEntry{Partition: p, Records: buf.B, Err: err})
		go s.Append(a, func(a *Append) {
			err := a.Entries[0].Err
			a.Release()
			buf.Release()
			done <- err
		})
		if err := <-done; err != nil {
			s.t.Errorf("produce: %v", err)
			return
		}
		s.acknowledged.Add(recordsPerBatch)
	}
}

// poll fetches from offset on and returns the records that came.
func (s *stress) poll(replica int32, offset int64) (b []byte, code int16) {
	f := s.NewFetch()
	f.ReplicaID, f.ReplicaEpoch, f.Version = replica, -1, 17
	f.MaxWait, f.MinBytes, f.MaxBytes = 20*time.Millisecond, 1, 4096
	f.Parts = append(f.Parts, part("t", offset))
	done := make(chan struct{})
	s.Fetch(f, func(f *Fetch) {
		var err error
		code = f.Results[0].Err
		if b, err = f.Results[0].Records.Bytes(); err != nil {
			s.t.Error(err)
		}
		f.Release()
		close(done)
	})
	<-done
	return b, code
}

// consume reads everything and looks at every byte.
func (s *stress) consume() {
	for offset := int64(0); !s.stop.Load(); {
		b, code := s.poll(-1, offset)
		if code != 0 {
			s.t.Errorf("fetch: %s", kerr.Name(code))
			return
		}
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err == nil {
				err = batch.CheckCRC()
			}
			if err != nil || batch.BaseOffset() != offset {
				s.t.Errorf("batch at %d, expected at %d: %v", batch.BaseOffset(), offset, err)
				return
			}
			b, offset = rest, batch.NextOffset()
			s.read.Add(recordsPerBatch)
		}
	}
}

// follow fetches as the other replica.
func (s *stress) follow() {
	for offset := int64(0); !s.stop.Load(); {
		b, _ := s.poll(2, offset)
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				s.t.Error(err)
				return
			}
			b, offset = rest, batch.NextOffset()
		}
	}
}

// Topics come and go while others work with them.
func TestDeletionsAmongRequests(t *testing.T) {
	s := &stress{testManager: newRealManager(t)}
	s.create("t", 1, 1)
	for range 2 {
		s.wg.Go(func() {
			for !s.stop.Load() {
				s.poll(-1, 0)
			}
		})
		s.wg.Go(func() {
			for !s.stop.Load() {
				p, err := s.Partition(TopicPartition{Topic: "t"})
				a := s.NewAppend()
				a.Acks = AcksAll
				a.Entries = append(a.Entries, AppendEntry{Partition: p, Records: records(1), Err: err})
				s.Append(a, func(a *Append) {
					if err := a.Entries[0].Err; err != nil && kerr.Code(err) != 3 && kerr.Code(err) != 6 {
						t.Errorf("produce: %v", err)
					}
					a.Release()
				})
			}
		})
	}
	for i := range byte(20) {
		s.replay(removal(i+1), topicRecord("t", i+2), partitionRecord(i+2, 1))
	}
	s.stop.Store(true)
	s.wg.Wait()
	if n := s.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}
