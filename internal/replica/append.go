package replica

import (
	"errors"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
)

// Acks of a produce request.
const (
	AcksNone   int16 = 0  // no answer
	AcksLeader int16 = 1  // the leader has it
	AcksAll    int16 = -1 // every in-sync replica has it
)

// Append is one produce: batches for partitions, what became of them, and its place in the purgatory while
// it waits for the followers. They are reused (NewAppend, Release).
type Append struct {
	Acks    int16
	Timeout time.Duration
	Options AppendOptions
	Entries []AppendEntry

	m       *Manager
	done    func(*Append)
	waiter  waiter
	waiting int // entries that are not committed yet
}

// AppendEntry is the batches for one partition and the outcome.
type AppendEntry struct {
	Partition *Partition // nil if Err is set before
	// Records is one or several whole batches. Their headers are changed in place; nobody looks at them
	// after Append returned.
	Records []byte

	Err  error      // wraps a *kerr.Error
	Info AppendInfo // of -1 if nothing was appended
	// LogStart is the log start offset after the append; with an error it is -1 or the log start, as Kafka has it.
	LogStart int64

	committed bool
}

var appendPool = sync.Pool{New: func() any { return new(Append) }}

// NewAppend returns an empty append.
func (m *Manager) NewAppend() *Append {
	a := appendPool.Get().(*Append)
	a.m = m
	return a
}

// Release gives a back.
func (a *Append) Release() {
	clear(a.Entries)
	a.Entries = a.Entries[:0]
	a.Acks, a.Timeout, a.Options = 0, 0, AppendOptions{}
	a.m, a.done, a.waiting = nil, nil, 0
	appendPool.Put(a)
}

// Append appends each entry to its partition, as its leader, and calls done: at once, or with AcksAll when
// all in-sync replicas have everything, or at the time-out. done owns a then, and releases it. The data is
// in the page cache, not on disk; durability comes from replication, or from the flush settings.
//
// Errors of an entry: NotLeaderOrFollower; NotEnoughReplicas (with AcksAll, nothing is appended);
// NotEnoughReplicasAfterAppend and RequestTimedOut (it is appended, but not known to be committed);
// KafkaStorageError; those of Log.AppendAsLeader.
func (m *Manager) Append(a *Append, done func(*Append)) {
	a.done = done
	var room [16]*Partition
	wake := room[:0]
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.Err != nil {
			e.committed = true
			e.Info, e.LogStart = nothingAppended, -1
			continue
		}
		e.Partition.append(a, e)
		if e.Err == nil {
			wake = append(wake, e.Partition)
		}
		if e.committed = e.Err != nil || a.Acks != AcksAll; e.committed {
			continue
		}
		if e.committed, e.Err = e.Partition.reached(e.Info.LastOffset + 1); !e.committed {
			a.waiting++
		}
	}
	if a.waiting == 0 {
		done(a)
	} else {
		a.wait()
	}
	for _, p := range wake {
		p.wake()
	}
}

func (a *Append) wait() {
	a.waiter.watchAt(len(a.Entries), func(i int) *watchList {
		if a.Entries[i].committed {
			return nil
		}
		return &a.Entries[i].Partition.produces
	})
	a.m.purgatory.wait(&a.waiter, a, a.m.env.Monotonic()+max(a.Timeout, 0))
}

// changed implements waiting.
func (a *Append) changed(i int) bool {
	e := &a.Entries[i]
	if e.committed {
		return a.waiting == 0
	}
	if e.committed, e.Err = e.Partition.reached(e.Info.LastOffset + 1); e.committed {
		a.waiting--
	}
	return a.waiting == 0
}

// finish implements waiting.
func (a *Append) finish(timedOut bool) {
	for i := range a.Entries {
		if e := &a.Entries[i]; timedOut && !e.committed {
			e.Err = kerr.RequestTimedOut
		}
	}
	a.done(a)
}

// append writes an entry to the log.
func (p *Partition) append(a *Append, e *AppendEntry) {
	e.Info, e.LogStart = nothingAppended, -1
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.deleted:
		e.Err = p.m.absent(p.Topic, p.Index)
		return
	case p.log == nil:
		e.Err = kerr.KafkaStorageError
		return
	case !p.leader:
		e.Err = kerr.NotLeaderOrFollower
		return
	case a.Acks == AcksAll && len(p.state.ISR) < p.effectiveMinISR():
		e.Err = kerr.NotEnoughReplicas
		e.LogStart = p.log.StartOffset()
		return
	}
	info, err := p.log.AppendAsLeader(e.Records, p.state.LeaderEpoch, a.Options)
	if err != nil {
		e.Err = diskError(err)
		if tellsLogStart(e.Err) {
			e.LogStart = p.log.StartOffset()
		}
		return
	}
	e.Info, e.LogStart = info, p.log.StartOffset()
	p.advance()
}

var nothingAppended = AppendInfo{BaseOffset: -1, LastOffset: -1, AppendTime: -1}

// tellsLogStart: with these errors Kafka's answer has no log start offset.
func tellsLogStart(err error) bool {
	for _, k := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.CorruptMessage, kerr.KafkaStorageError, kerr.NotLeaderOrFollower} {
		if errors.Is(err, k) {
			return false
		}
	}
	return true
}
