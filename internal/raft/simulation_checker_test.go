package raft

import (
	"fmt"
	"sort"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// checker knows every log of a cluster, because it stands between each quorum and its segments, and looks at every node
// after every event. It keeps its own, naive account of what raft keeps: what is committed, who leads, which voters are in
// force. The numbers are those of the project's list of invariants:
//
//	I1 one leader per epoch; epoch and vote never go back, whatever crashes, and are on disk.
//	I2 the leader of a new epoch has everything committed; same offset and epoch, same records.
//	I3 what is below the high watermark is durable on a majority of the voters of now, and ends in a record of the leader's epoch.
//	I4 nothing committed is ever truncated.
//	I5 one voter changes at a time, after the change before it is committed; a truncated change leaves no trace.
//
// I6, that every node is told the same, is the ledger's.
type checker struct {
	fail      func(format string, args ...any)
	count     func(what string)
	initial   *VoterSet // as formatted, or static
	written   map[batchKey]writtenBatch
	committed []writtenBatch // without gaps from offset 0
	leaders   map[int32]int32
	newest    int32 // epoch that had a leader
	logs      map[int32]*watchedLog
	lost      map[ReplicaKey]*watchedLog // with their disks; what they had acknowledged counts, as they never vote again
}

type batchKey struct {
	base  int64
	epoch int32
}

// writtenBatch is a batch as far as it matters here. Two of the same base and epoch are the same if all of it agrees, prev
// included: by induction everything before them agrees as well.
type writtenBatch struct {
	batchKey
	last     int64
	crc      uint32
	prev     int32     // epoch of the record before; unknownEpoch behind a snapshot
	voters   *VoterSet // that this batch sets
	votersAt int64
}

const unknownEpoch int32 = -2

func newChecker(initial *VoterSet, fail func(string, ...any), count func(string)) *checker {
	return &checker{fail: fail, count: count, initial: initial, written: map[batchKey]writtenBatch{}, leaders: map[int32]int32{}, logs: map[int32]*watchedLog{}, lost: map[ReplicaKey]*watchedLog{}}
}

// end is the offset below which everything is committed.
func (c *checker) end() int64 {
	if n := len(c.committed); n > 0 {
		return c.committed[n-1].last + 1
	}
	return 0
}

// find gives the batch of a list that holds an offset.
func find(list []writtenBatch, offset int64) (writtenBatch, bool) {
	i := sort.Search(len(list), func(i int) bool { return list[i].last >= offset })
	if i == len(list) || list[i].base > offset {
		return writtenBatch{}, false
	}
	return list[i], true
}

// votersBelow is the last voter set of a list below an offset; nil if there is none.
func votersBelow(list []writtenBatch, offset int64) (set *VoterSet, at int64) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].voters != nil && list[i].votersAt < offset {
			return list[i].voters, list[i].votersAt
		}
	}
	return nil, -1
}

// watchedLog is the log of one machine, through all its lives.
type watchedLog struct {
	segments
	c        *checker
	p        *peer
	start    int64
	batches  []writtenBatch
	durable  int64
	election Election // as last seen
	hw       int64
	leadsIn  int32 // the last epoch in which it was seen leading
	base     *VoterSet
	seen     watched
	wasVoter bool // in this life, by a voter set that was committed
}

// watched is what makes looking again worth it.
type watched struct {
	q          *Quorum
	generation uint64
	election   Election
	hw         int64
	start, end int64
	changes    int
}

// watch is the log of a new life. What a machine finds when it starts is durable: opening syncs it.
func (c *checker) watch(p *peer, s segments) segments {
	old := c.logs[p.id]
	w := &watchedLog{segments: s, c: c, p: p, election: NoElection, hw: -1, leadsIn: -1, base: c.initial}
	if old != nil {
		w.election, w.leadsIn, w.base = old.election, old.leadsIn, old.base
	}
	c.logs[p.id] = w
	w.start = s.StartOffset()
	f := p.node.Disk().Faults()
	p.node.Disk().SetFaults(withoutErrors(f))
	defer p.node.Disk().SetFaults(f)
	for at := w.start; at < s.EndOffset(); {
		region, err := s.Read(at, 1<<20)
		if err != nil {
			c.fail("%s: read log at offset %d: %v", p.name, at, err)
		}
		b, err := region.Bytes()
		if err != nil {
			c.fail("%s: read log at offset %d: %v", p.name, at, err)
		}
		before := at
		err = eachBatch(b, func(b record.Batch) error {
			if b.LastOffset() >= at {
				w.take(b)
				at = b.NextOffset()
			}
			return b.CheckCRC()
		})
		region.Release()
		if err != nil || at == before {
			c.fail("%s: log at offset %d: %v", p.name, at, err)
		}
	}
	w.durable = s.EndOffset()
	return w
}

func (w *watchedLog) end() int64 {
	if n := len(w.batches); n > 0 {
		return w.batches[n-1].last + 1
	}
	return w.start
}

// take adds a batch to the account: I2, log matching.
func (w *watchedLog) take(b record.Batch) writtenBatch {
	e := writtenBatch{batchKey: batchKey{b.BaseOffset(), b.LeaderEpoch()}, last: b.LastOffset(), crc: b.CRC(), prev: unknownEpoch}
	if n := len(w.batches); n > 0 {
		e.prev = w.batches[n-1].epoch
		if w.end() != e.base || e.prev > e.epoch {
			w.c.fail("I2: %s: batch at offset %d of epoch %d behind one that ends at %d, of epoch %d", w.p.name, e.base, e.epoch, w.end(), e.prev)
		}
	} else if e.base == 0 {
		e.prev = -1
	}
	if b.IsControl() {
		_, controls, err := decodeBatch(b)
		if err != nil {
			w.c.fail("%s: control batch at offset %d: %v", w.p.name, e.base, err)
		}
		for _, c := range controls {
			if m, ok := c.message.(*protocol.VotersRecord); ok {
				e.voters, e.votersAt = votersFromRecord(m), c.offset
			}
		}
	}
	if old, ok := w.c.written[e.batchKey]; !ok || old.prev == unknownEpoch {
		w.c.written[e.batchKey] = e
	} else if old.last != e.last || old.crc != e.crc || e.prev != unknownEpoch && e.prev != old.prev {
		w.c.fail("I2: %s has a batch at offset %d of epoch %d (to %d, crc %08x, behind epoch %d), others another one (to %d, crc %08x, behind epoch %d)",
			w.p.name, e.base, e.epoch, e.last, e.crc, e.prev, old.last, old.crc, old.prev)
	}
	w.batches = append(w.batches, e)
	return e
}

// differences counts the replicas that are in one set only. A directory that is not known is any.
func differences(a, b *VoterSet) int {
	n := 0
	for _, x := range [][2]*VoterSet{{a, b}, {b, a}} {
		for _, v := range x[0].All() {
			o := x[1].Get(v.Key.ID)
			if o == nil || o.Key != v.Key && o.Key.DirectoryID != uuid.Zero && v.Key.DirectoryID != uuid.Zero {
				n++
			}
		}
	}
	return n
}

// voters are those in force at the end of this log, and the offset they are from.
func (w *watchedLog) voters() (*VoterSet, int64) {
	if set, at := votersBelow(w.batches, forever); set != nil {
		return set, at
	}
	if set, at := votersBelow(w.c.committed, w.start); w.start > 0 && set != nil {
		return set, at
	}
	return w.base, -1
}

// AppendAsLeader checks I5 for a batch with a voter set.
func (w *watchedLog) AppendAsLeader(b []byte, epoch int32) error {
	before, at := w.voters()
	if err := w.segments.AppendAsLeader(b, epoch); err != nil {
		return err
	}
	e := w.take(record.Batch(b))
	if n := 0; e.voters != nil {
		if n = differences(before, e.voters); n > 1 {
			w.c.fail("I5: %s changes %d voters at once: %s to %s", w.p.name, n, before.keysText(), e.voters.keysText())
		}
		if level := w.p.q.KRaftVersion(); level == 0 {
			w.c.count("kraft.version upgraded")
		}
		if n > 0 {
			w.c.count("voter set changed")
			if hw := w.p.q.highWatermark; at >= hw {
				w.c.fail("I5: %s changes the voters at offset %d, though those of offset %d are not committed: the high watermark is %d", w.p.name, e.votersAt, at, hw)
			}
		}
	}
	return nil
}

// AppendAsFollower notes the batches.
func (w *watchedLog) AppendAsFollower(b []byte) error {
	if err := w.segments.AppendAsFollower(b); err != nil {
		return err
	}
	return eachBatch(b, func(b record.Batch) error { w.take(b); return nil })
}

// Flush makes everything durable.
func (w *watchedLog) Flush() error {
	err := w.segments.Flush()
	if err == nil {
		w.durable = w.end()
	}
	return err
}

// TruncateTo checks I4.
func (w *watchedLog) TruncateTo(offset int64) error {
	w.c.count("truncated")
	if hw := w.p.q.highWatermark; offset < hw {
		w.c.fail("I4: %s truncates to offset %d, below its high watermark %d", w.p.name, offset, hw)
	}
	for i, e := range w.batches {
		if e.last < offset {
			continue
		}
		if e.voters != nil {
			w.c.count("voter set truncated")
		}
		if c, ok := find(w.c.committed, e.base); ok && c.batchKey == e.batchKey {
			w.c.fail("I4: %s truncates to offset %d what is committed there with epoch %d", w.p.name, offset, e.epoch)
		}
		if err := w.segments.TruncateTo(offset); err != nil {
			return err
		}
		w.batches = w.batches[:i]
		w.durable = min(w.durable, w.end())
		return nil
	}
	return w.segments.TruncateTo(offset)
}

// TruncateFullyAndStartAt checks I4: a snapshot that replaces a log ends in what is committed.
func (w *watchedLog) TruncateFullyAndStartAt(offset int64) error {
	w.c.count("log replaced by a snapshot")
	if offset > w.c.end() || offset < w.hw {
		w.c.fail("I4: %s begins anew at offset %d; its high watermark is %d, the quorum's %d", w.p.name, offset, w.hw, w.c.end())
	}
	if err := w.segments.TruncateFullyAndStartAt(offset); err != nil {
		return err
	}
	w.start, w.batches, w.durable = offset, nil, offset
	return nil
}

// AdvanceStart forgets what was cleaned.
func (w *watchedLog) AdvanceStart(offset int64) error {
	w.c.count("log cleaned")
	if offset > w.c.end() {
		w.c.fail("I4: %s cleans up to offset %d, of which %d are committed", w.p.name, offset, w.c.end())
	}
	if err := w.segments.AdvanceStart(offset); err != nil {
		return err
	}
	w.start = offset
	for len(w.batches) > 0 && w.batches[0].last < offset {
		w.batches = w.batches[1:]
	}
	return nil
}

// holds reports whether a batch is durable in this log, or covered by the snapshot before it.
func (w *watchedLog) holds(e writtenBatch) bool {
	if e.last < w.start {
		return true
	}
	mine, ok := find(w.batches, e.base)
	return ok && mine.batchKey == e.batchKey && w.durable > e.last
}

// look is what happens after every event, for every node. A node that died in the middle of it has shown what it did until
// then to others.
func (c *checker) look(p *peer) {
	w := c.logs[p.id]
	if w == nil || p.q == nil || !p.q.started {
		return
	}
	q := p.q
	now := watched{q, q.generation, q.election, q.highWatermark, w.start, w.end(), len(q.history.voters)}
	if now == w.seen {
		return
	}
	w.seen = now
	if q.election != w.election {
		c.lookAtElection(w, q.election)
	}
	if q.highWatermark > w.hw && !q.failed {
		c.lookAtHighWatermark(w, q)
	}
	if !q.failed && p.node.Alive() {
		want, at := w.voters()
		w.wasVoter = w.wasVoter || at < w.hw && want.Contains(p.cfg.key())
		if got := q.voters(); differences(got, want) > 0 {
			c.fail("I5: %s takes %s for the voters, its log to offset %d says %s", p.name, got.keysText(), w.end(), want.keysText())
		}
	}
}

func (c *checker) lookAtElection(w *watchedLog, now Election) {
	p, last := w.p, w.election
	w.election = now
	switch {
	case now.Epoch < last.Epoch:
		c.fail("I1: the epoch of %s went back from %d to %d", p.name, last.Epoch, now.Epoch)
	case now.Epoch > last.Epoch:
	case last.LeaderID != NoNode && now.LeaderID != last.LeaderID:
		c.fail("I1: %s takes %d for the leader of epoch %d, and before it took %d", p.name, now.LeaderID, now.Epoch, last.LeaderID)
	case last.hasVoted() && now.LeaderID != p.id && !now.votedFor(last.Voted) && !last.votedFor(now.Voted):
		c.fail("I1: %s voted in epoch %d for %s and then for %s", p.name, now.Epoch, last.Voted, now.Voted)
	}
	if now.LeaderID != NoNode {
		if other, ok := c.leaders[now.Epoch]; ok && other != now.LeaderID {
			c.fail("I1: epoch %d has two leaders, %d and %d", now.Epoch, other, now.LeaderID)
		}
		c.leaders[now.Epoch] = now.LeaderID
	}
	if p.node.Alive() && !p.q.failed {
		b, err := p.node.Disk().ReadFile(p.cfg.LogDir() + "/" + QuorumStateFile)
		var d protocol.QuorumStateData
		if err == nil {
			_, err = d.DecodeFile(b)
		}
		if err != nil || d.LeaderEpoch != now.Epoch || d.LeaderId != now.LeaderID || d.VotedId != now.Voted.ID {
			c.fail("I1: %s believes in %+v, its disk in %+v (%v)", p.name, now, d, err)
		}
	}
	if now.LeaderID == p.id && now.Epoch > w.leadsIn {
		w.leadsIn = now.Epoch
		if now.Epoch > c.newest {
			c.newest = now.Epoch
			if n := len(c.committed); n > 0 && !w.has(c.committed[n-1]) {
				c.fail("I2: %s leads epoch %d and does not have what was committed at offset %d", p.name, now.Epoch, c.end()-1)
			}
		}
	}
}

// has is holds, synced or not.
func (w *watchedLog) has(e writtenBatch) bool {
	mine, ok := find(w.batches, e.base)
	return e.last < w.start || ok && mine.batchKey == e.batchKey
}

func (c *checker) lookAtHighWatermark(w *watchedLog, q *Quorum) {
	w.hw = q.highWatermark
	if q.election.LeaderID == w.p.id && w.hw > c.end() {
		for _, e := range w.batches {
			if e.last < w.hw && e.base >= c.end() {
				c.committed = append(c.committed, e)
			}
		}
		last, ok := find(w.batches, w.hw-1)
		if !ok || last.epoch != q.election.Epoch || last.last != w.hw-1 || c.end() != w.hw {
			c.fail("I3: %s leads epoch %d and sets the high watermark to %d, behind a batch of epoch %d", w.p.name, q.election.Epoch, w.hw, last.epoch)
		}
		c.lookAtMajority(w, q.voters(), last)
	}
	if w.hw > c.end() {
		c.fail("I3: %s has the high watermark %d, the quorum %d", w.p.name, w.hw, c.end())
	}
	if e, ok := find(c.committed, w.hw-1); ok && !w.has(e) {
		c.fail("I3: %s has the high watermark %d, and not what was committed below it", w.p.name, w.hw)
	}
}

func (c *checker) lookAtMajority(w *watchedLog, voters *VoterSet, last writtenBatch) {
	var have []string
	for _, v := range voters.All() {
		l := c.lost[v.Key]
		if l == nil {
			l = c.logs[v.Key.ID]
		}
		if l != nil && l.holds(last) {
			have = append(have, fmt.Sprint(v.Key.ID))
		}
	}
	if len(have) <= voters.Len()/2 {
		c.fail("I3: %s sets the high watermark to %d, which only %v of the voters %s have on their disks", w.p.name, w.hw, have, idList(voters.IDs()))
	}
}

// sent checks that a voter that was removed does not ask to be one again.
func (c *checker) sent(p *peer, req protocol.Request) {
	r, ok := req.(*protocol.AddRaftVoterRequest)
	if !ok {
		return
	}
	c.count("controller joins by itself")
	if w := c.logs[p.id]; w.wasVoter && p.cfg.key() == (ReplicaKey{r.VoterId, r.VoterDirectoryId}) {
		c.fail("I5: %s asks to be a voter, though it was one and was removed", p.name)
	}
}

// forget is a machine that lost its disk: another replica from now on.
func (c *checker) forget(p *peer) {
	c.lost[p.cfg.key()] = c.logs[p.id]
	c.logs[p.id] = &watchedLog{c: c, p: p, election: NoElection, hw: -1, leadsIn: -1, base: NewVoterSet()}
}
