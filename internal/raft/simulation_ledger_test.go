package raft

import (
	"fmt"
	"hash/fnv"

	"github.com/ottla-io/ottla/internal/metadata"
)

// ledger is what the whole quorum must agree on: every committed value, by offset. It is filled by whoever hands a batch
// to its listener first; all others, and all later lives, must be told the same.
type ledger struct {
	entries []ledgerEntry // by offset
	leaders map[int32]int32
	voted   map[string]int32 // by voter and epoch: the candidate that got its vote
	fail    func(format string, args ...any)
}

type ledgerEntry struct {
	epoch int32
	value int64
	sum   uint64 // of everything up to here
	known bool
}

func mix(sum uint64, value int64) uint64 {
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(sum>>(8*i)), byte(value>>(8*i))
	}
	h.Write(b[:])
	return h.Sum64()
}

// leads notes who leads an epoch: one node only.
func (l *ledger) leads(p *peer) {
	e := p.q.election.Epoch
	if other, ok := l.leaders[e]; ok && other != p.id {
		l.fail("two leaders in epoch %d: %d and %d", e, other, p.id)
	}
	l.leaders[e] = p.id
}

// votes notes who got a vote: one candidate per voter and epoch, whatever crashed in between.
func (l *ledger) votes(voter string, epoch, candidate int32) {
	key := fmt.Sprint(voter, " ", epoch)
	if other, ok := l.voted[key]; ok && other != candidate {
		l.fail("%s voted in epoch %d for %d and for %d", voter, epoch, other, candidate)
	}
	l.voted[key] = candidate
}

// sumBelow is the sum of everything below an offset.
func (l *ledger) sumBelow(offset int64) uint64 {
	if offset == 0 {
		return 0
	}
	return l.entries[offset-1].sum
}

// reader is a listener that keeps the state of one life: how far it was told, and the sum of what.
type reader struct {
	p     *peer
	l     *ledger
	next  int64
	sum   uint64
	epoch int32 // of the last batch
	told  LeaderAndEpoch
}

func (r *reader) HandleLoadBootstrap([]metadata.Versioned) {
	if r.next != 0 {
		r.l.fail("%s: bootstrap records after offset %d", r.p.name, r.next)
	}
}

func (r *reader) HandleCommit(batches []Batch) {
	if r.p.fault != nil {
		return // its disk broke in this very event
	}
	for _, b := range batches {
		if b.BaseOffset != r.next {
			r.l.fail("%s: told of a batch at %d, expected %d", r.p.name, b.BaseOffset, r.next)
		}
		if b.Epoch < r.epoch {
			r.l.fail("%s: batch at %d of epoch %d after one of epoch %d", r.p.name, b.BaseOffset, b.Epoch, r.epoch)
		}
		r.epoch = b.Epoch
		for o := b.BaseOffset; o <= b.LastOffset; o++ {
			value := int64(-1)
			if len(b.Records) > 0 {
				value = valueOf(b.Records[o-b.BaseOffset])
			}
			r.sum = mix(r.sum, value)
			r.l.committed(r, o, ledgerEntry{b.Epoch, value, r.sum, true})
		}
		r.next = b.LastOffset + 1
	}
}

func (l *ledger) committed(r *reader, offset int64, e ledgerEntry) {
	switch {
	case offset == int64(len(l.entries)):
		l.entries = append(l.entries, e)
	case offset > int64(len(l.entries)):
		l.fail("%s: offset %d is committed, though only %d were", r.p.name, offset, len(l.entries))
	case l.entries[offset] != e:
		l.fail("%s: offset %d has epoch %d value %d, but epoch %d value %d was committed there", r.p.name, offset, e.epoch, e.value, l.entries[offset].epoch, l.entries[offset].value)
	}
}

func (r *reader) HandleLoadSnapshot(s *SnapshotReader) {
	id := s.ID()
	if id.EndOffset < r.next {
		r.l.fail("%s: snapshot %s after offset %d", r.p.name, id, r.next)
	}
	var got []int64
	for {
		b, ok, err := s.Next()
		if err != nil {
			r.p.broken("read snapshot "+id.String(), err)
			return
		}
		if !ok {
			break
		}
		for _, v := range b.Records {
			got = append(got, valueOf(v))
		}
	}
	if id.EndOffset > int64(len(r.l.entries)) {
		r.l.fail("%s: snapshot %s of what was not committed", r.p.name, id)
	}
	if want := r.l.sumBelow(id.EndOffset); len(got) < 1 || uint64(got[0]) != want {
		r.l.fail("%s: snapshot %s has %v, not %d", r.p.name, id, got, int64(want))
	}
	r.next, r.sum, r.epoch = id.EndOffset, uint64(got[0]), id.Epoch
}

func (r *reader) HandleLeaderChange(now LeaderAndEpoch) {
	if r.p.fault != nil {
		return
	}
	if now.Epoch < r.told.Epoch {
		r.l.fail("%s: told of epoch %d after %d", r.p.name, now.Epoch, r.told.Epoch)
	}
	r.told = now
	if now.LeaderID == r.p.id {
		q := r.p.q
		if l, ok := q.state.(*leader); !ok || r.next <= l.epochStart {
			r.l.fail("%s: told that it leads before it was told everything", r.p.name)
		}
	}
}
