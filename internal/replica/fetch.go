package replica

import (
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Fetch is one fetch: what is asked, the answer, and its place in the purgatory while it waits. They are
// reused (NewFetch, Release), with their slices: a fetch of a session that goes on allocates nothing.
type Fetch struct {
	ReplicaID     int32 // -1 for a consumer
	ReplicaEpoch  int64 // broker epoch, -1 if not stated
	Version       int16 // of the request
	ReadCommitted bool
	MaxWait       time.Duration
	MinBytes      int
	MaxBytes      int // of records; the first batch is returned even if it is larger

	// Parts is what to read, in order of preference.
	Parts []FetchPart
	// Results has an entry for each of Parts.
	Results []FetchResult

	m    *Manager
	use  sessionUse
	done func(*Fetch)

	waiter waiter
	// readable is how many bytes each part could return while the fetch waits, sum their sum.
	readable []int
	sum      int
}

// FetchPart is one partition of a fetch.
type FetchPart struct {
	Topic              string
	TopicID            uuid.UUID // zero before version 13
	Index              int32
	CurrentLeaderEpoch int32 // -1: not stated
	LastFetchedEpoch   int32 // -1: not stated
	MaxBytes           int32
	Offset             int64
	LogStart           int64 // of a follower
	HighWatermark      int64 // that a follower knows; the largest int64 if it does not say

	// Err is an error known before the read: the part is answered with it, and does not end a wait.
	Err int16

	partition *Partition // found by the read, nil after an error
}

// FetchResult is the answer for one partition. Offsets are -1 if there is an error.
type FetchResult struct {
	Err              int16
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	DivergingEpoch   int32 // -1: none
	DivergingEnd     int64
	PreferredReplica int32 // -1: none
	// Aborted is not nil if the fetch is of committed records, or Err was known before.
	Aborted []AbortedTxn
	// Records is the region of the log to send; it stays pinned until Release.
	Records Slice
	// Omit says that the session knows all this.
	Omit bool
}

var noAborted = []AbortedTxn{}

var fetchPool = sync.Pool{New: func() any { return new(Fetch) }}

// NewFetch returns an empty fetch.
func (m *Manager) NewFetch() *Fetch {
	f := fetchPool.Get().(*Fetch)
	f.m = m
	return f
}

// Release unpins the records of f and gives it back. Nobody may use f or its results afterwards.
func (f *Fetch) Release() {
	f.unpin()
	clear(f.Parts)
	clear(f.Results)
	f.Parts, f.Results = f.Parts[:0], f.Results[:0]
	f.ReplicaID, f.ReplicaEpoch, f.Version, f.ReadCommitted = 0, 0, 0, false
	f.MaxWait, f.MinBytes, f.MaxBytes = 0, 0, 0
	f.m, f.use, f.done = nil, sessionUse{}, nil
	fetchPool.Put(f)
}

func (f *Fetch) unpin() {
	for i := range f.Results {
		r := &f.Results[i]
		if r.Records.Len > 0 {
			r.Records.Release()
			r.Records = Slice{}
		}
	}
}

func (f *Fetch) follower() bool { return f.ReplicaID >= 0 }

// onlyLeader: consumers may read from followers since version 11 (KIP-392).
func (f *Fetch) onlyLeader() bool { return f.follower() || f.Version < 11 }

// Fetch reads f.Parts into f.Results and calls done, at once if there are f.MinBytes, an error, or nothing
// to wait for; else when there are, or when f.MaxWait is over. done owns f then, and releases it.
//
// The order of checks in a partition: topic id, leader epoch, leadership, replica id, last fetched epoch,
// offset. A fetch offset between the high watermark and the log end is no error, it finds nothing.
func (m *Manager) Fetch(f *Fetch, done func(*Fetch)) {
	f.done = done
	if enough := f.read(true); enough || f.MaxWait <= 0 {
		done(f)
		return
	}
	f.unpin()
	n := len(f.Parts)
	if cap(f.readable) < n {
		f.readable = make([]int, n)
	}
	f.readable = f.readable[:n]
	clear(f.readable)
	f.sum = 0
	f.waiter.watchAt(n, func(i int) *watchList {
		if p := f.Parts[i].partition; p != nil {
			return &p.fetches
		}
		return nil
	})
	m.purgatory.wait(&f.waiter, f, m.env.Monotonic()+f.MaxWait)
}

// read reads all parts; enough says that the answer should not wait.
func (f *Fetch) read(first bool) (enough bool) {
	f.Results = f.Results[:0]
	limit, minOne := f.MaxBytes, true
	bytes, interesting := 0, false
	for i := range f.Parts {
		f.Results = append(f.Results, FetchResult{
			HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, DivergingEpoch: -1, DivergingEnd: -1, PreferredReplica: -1,
		})
		part, r := &f.Parts[i], &f.Results[i]
		if part.Err != 0 {
			r.Err, r.Aborted = part.Err, noAborted
			continue
		}
		interesting = true
		if err := f.readPart(part, min(int(part.MaxBytes), limit), minOne, first, r); err != nil {
			*r = FetchResult{
				Err: kerr.Code(err), HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
				DivergingEpoch: -1, DivergingEnd: -1, PreferredReplica: -1,
			}
		}
		if r.Records.Len > 0 {
			minOne = false
		}
		limit = max(limit-r.Records.Len, 0)
		bytes += r.Records.Len
		if r.Err != 0 || r.DivergingEpoch >= 0 || f.wantsHigh(part, r.HighWatermark) {
			enough = true
		}
	}
	return enough || !interesting || bytes >= f.MinBytes
}

// readPart reads one part, of the partition that has its name now: after a wait that may be another one than before.
func (f *Fetch) readPart(part *FetchPart, maxBytes int, minOne, first bool, r *FetchResult) (err error) {
	if part.partition, err = f.m.Partition(TopicPartition{Topic: part.Topic, Partition: part.Index}); err != nil {
		return err
	}
	return part.partition.fetch(f, part, maxBytes, minOne, first, r)
}

// wantsHigh: a follower that says which high watermark it knows gets a newer one without waiting (KIP-1166).
func (f *Fetch) wantsHigh(part *FetchPart, high int64) bool {
	return f.follower() && part.HighWatermark < high
}

// changed implements waiting: part i has more to read, or an error.
func (f *Fetch) changed(i int) bool {
	part := &f.Parts[i]
	n, err := part.partition.available(f, part)
	if err != nil {
		return true
	}
	f.sum += n - f.readable[i]
	f.readable[i] = n
	return f.sum >= f.MinBytes || f.follower() && f.wantsHigh(part, part.partition.HighWatermark())
}

// finish implements waiting.
func (f *Fetch) finish(bool) {
	f.read(false)
	f.done(f)
}

// bound is where the fetch must stop reading.
func (f *Fetch) bound(log Log) int64 {
	switch {
	case f.follower():
		return log.EndOffset()
	case f.ReadCommitted:
		return log.LastStableOffset()
	}
	return log.HighWatermark()
}

// available is how many bytes part could return now, if anything at all would end the wait then not exactly.
func (p *Partition) available(f *Fetch, part *FetchPart) (int, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	log, err := p.readable(part.CurrentLeaderEpoch, f.onlyLeader())
	if err != nil {
		return 0, err
	}
	bound := f.bound(log)
	switch {
	case part.Offset >= bound:
		if part.Offset > log.EndOffset() { // the log was truncated
			return 0, kerr.OffsetOutOfRange
		}
		return 0, nil
	case f.MinBytes <= 1:
		return 1, nil
	}
	s, err := log.Read(part.Offset, int(part.MaxBytes), true, bound)
	if err != nil {
		return 0, err
	}
	n := s.Len
	s.Release()
	return n, nil
}

// fetch reads the partition for one part of a fetch.
func (p *Partition) fetch(f *Fetch, part *FetchPart, maxBytes int, minOne, first bool, r *FetchResult) error {
	if part.TopicID != uuid.Zero && part.TopicID != p.ID {
		return kerr.InconsistentTopicId
	}
	p.mu.RLock()
	log, err := p.readable(part.CurrentLeaderEpoch, f.onlyLeader())
	if err == nil && f.follower() && !p.hasReplica(f.ReplicaID) {
		// With an epoch it may be that the metadata has not come here yet: let it try again.
		if err = kerr.NotLeaderOrFollower; part.CurrentLeaderEpoch >= 0 {
			err = kerr.UnknownLeaderEpoch
		}
	}
	if err != nil {
		p.mu.RUnlock()
		return err
	}
	// The log end before the read: appends that follow must not keep a follower from being in step.
	end := log.EndOffset()
	moved := false
	if err = p.readLog(log, f, part, maxBytes, minOne, r); err == nil && f.follower() && first && r.DivergingEpoch < 0 {
		moved = p.fetched(f.ReplicaID, f.ReplicaEpoch, part.Offset, part.LogStart, end)
	}
	p.mu.RUnlock()
	if moved {
		p.wake()
	}
	return err
}

// readLog fills r. mu is held shared.
func (p *Partition) readLog(log Log, f *Fetch, part *FetchPart, maxBytes int, minOne bool, r *FetchResult) error {
	bound := f.bound(log)
	start, end := log.StartOffset(), log.EndOffset()
	r.HighWatermark, r.LogStartOffset, r.LastStableOffset = log.HighWatermark(), start, log.LastStableOffset()
	if f.ReadCommitted {
		r.Aborted = noAborted
	}
	if part.LastFetchedEpoch >= 0 {
		epoch, epochEnd := log.EndOffsetForEpoch(part.LastFetchedEpoch)
		if epoch < 0 || epochEnd < 0 || part.Offset < start {
			return kerr.OffsetOutOfRange
		}
		if epoch < part.LastFetchedEpoch || epochEnd < part.Offset {
			r.DivergingEpoch, r.DivergingEnd = epoch, epochEnd
			return nil
		}
	}
	switch {
	case part.Offset < start || part.Offset > end:
		return kerr.OffsetOutOfRange
	case part.Offset >= bound:
		return nil
	case maxBytes < 0:
		return kerr.UnknownServerError
	case maxBytes == 0 && !minOne:
		return nil
	}
	s, err := log.Read(part.Offset, maxBytes, minOne, bound)
	if err != nil {
		return diskError(err)
	}
	r.Records = s
	if f.ReadCommitted && s.Len > 0 {
		if a := log.AbortedTxns(part.Offset, s.Next); len(a) > 0 {
			r.Aborted = a
		}
	}
	return nil
}
