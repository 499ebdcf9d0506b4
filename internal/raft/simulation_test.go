package raft

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
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

// simulation is a cluster with a workload, faults and the ledger.
type simulation struct {
	*cluster
	t       *testing.T
	l       *ledger
	readers map[int32]*reader
	value   int64
	faults  simFaults
	check   *checker
	wiped   *peer   // lost its disk and was not replaced yet; or nil
	living  []*peer // those that come back when the faults end
}

// simFaults are chances per step of about 100 ms, and stale per request.
type simFaults struct {
	crash, kill, crashAfter, cut, partition, freeze, snapshot, resign, shutdown, clock, drift, disk, members, wipe, stale, damage float64
}

func newSimulation(t *testing.T, seed uint64, voters, observers, standbys int, onDisk bool) *simulation {
	s := &simulation{t: t, readers: map[int32]*reader{}}
	o := sim.Options{TraceLength: *traceLength}
	if *seedCount == 1 {
		o.Describe = describeFrame
	}
	if onDisk {
		o.Disk = sim.DiskFaults{Torn: 0.4, Garbled: 0.6, Slow: 0.001}
	}
	w := sim.NewWorld(seed, o)
	fail := func(format string, args ...any) {
		w.Report(t.Output(), *traceLength)
		t.Fatalf("seed %d: "+format+"\nagain: go test ./internal/raft -run 'TestSimulation$' -seeds 1 -seed %d -events 2000", append(append([]any{seed}, args...), seed)...)
	}
	s.l = &ledger{leaders: map[int32]int32{}, voted: map[string]int32{}, fail: fail}
	s.cluster = &cluster{world: w, kraft: int16(min(w.Workload.IntN(3), 1)), onDisk: onDisk, fail: fail, standbys: standbys}
	s.check = newChecker(s.voterSet(voters), fail, w.Count)
	s.watch = s.check.watch
	small := w.Workload.Chance(0.5)
	s.tune = func(c *Config) {
		c.RetentionBytes, c.SegmentBytes = 20_000, 4_000
		if s.kraft > 0 { // any controller may be the last one that was not removed
			c.Bootstrap = nil
			for _, p := range s.peers {
				if p.cfg.Voter {
					c.Bootstrap = append(c.Bootstrap, s.endpoint(p.id).address())
				}
			}
		}
		if small { // what fits into one answer elsewhere takes several
			c.MaxBatchBytes, c.FetchMaxBytes, c.FetchSnapshotMaxBytes, c.SegmentBytes = 1_000, 200, 700, 1_500
		}
	}
	s.cluster.listener = func(p *peer) Listener {
		r := &reader{p: p, l: s.l, told: LeaderAndEpoch{LeaderID: NoNode}}
		s.readers[p.id] = r
		return r
	}
	s.answered = func(from *peer, to destination, req protocol.Request, resp protocol.Response, _ error) {
		switch r := resp.(type) {
		case *protocol.VoteResponse:
			asked := &req.(*protocol.VoteRequest).Topics[0].Partitions[0]
			if !asked.PreVote && len(r.Topics) > 0 && r.Topics[0].Partitions[0].VoteGranted {
				s.l.votes(to.address, asked.ReplicaEpoch, from.id)
			}
		case *protocol.FetchResponse:
			if len(r.Responses) > 0 && r.Responses[0].Partitions[0].DivergingEpoch.Epoch >= 0 {
				w.Count("diverged")
			}
		case *protocol.FetchSnapshotResponse:
			w.Count("snapshot fetched")
		}
	}
	s.cluster.sent = s.repeatLater
	s.add(voters, observers)
	s.living = s.peers
	for _, p := range s.peers {
		p.start()
	}
	return s
}

// run lets time pass and looks at every node before each event.
func (s *simulation) run(d time.Duration, until func() bool) bool {
	return s.world.RunUntil(d, func() bool {
		for _, p := range s.peers {
			s.check.look(p)
			if p.leads() {
				s.l.leads(p)
			}
			if p.fault != nil && p.node.Alive() {
				s.world.Count("fault")
				if !p.badDisk {
					s.l.fail("%s: fault without a broken disk: %v", p.name, p.fault)
				}
				p.crash()
			}
		}
		return until != nil && until()
	})
}

// step is some work and some trouble.
func (s *simulation) step() {
	w := s.world
	p := s.peers[w.Workload.IntN(len(s.peers))]
	for _, other := range s.peers {
		if other.leads() {
			s.append(other)
		}
	}
	f := s.faults
	switch alive := p.node.Alive(); {
	case !alive && w.Crashes.Chance(0.2):
		if w.Crashes.Chance(f.damage) {
			s.damage(p)
		}
		p.restart()
	case !alive:
	case w.Crashes.Chance(f.crash):
		p.crash()
	case w.Crashes.Chance(f.kill):
		p.node.Kill()
		p.mem.synced = len(p.mem.batches)
		p.q = nil
	case w.Crashes.Chance(f.crashAfter):
		p.node.CrashAfter(1 + w.Crashes.IntN(80))
	case w.Crashes.Chance(f.freeze):
		p.node.Freeze()
		node := p.node
		w.After(w.Crashes.Between(0, 4*time.Second), "thaw", func() {
			if node.Alive() {
				node.Thaw()
			}
		})
	case w.Crashes.Chance(f.clock):
		p.node.StepClock(w.Clocks.Between(-time.Hour, time.Hour))
	case w.Crashes.Chance(f.drift):
		p.node.SetDrift(float64(w.Clocks.IntN(41)-20) / 100)
	case w.Crashes.Chance(f.disk):
		s.breakDisk(p)
	case w.Crashes.Chance(f.wipe):
		s.wipe(p)
	case w.Workload.Chance(f.snapshot):
		s.snapshot(p)
	case w.Workload.Chance(f.resign) && p.leads():
		w.Count("resigned")
		p.q.Resign(p.q.election.Epoch)
	case w.Workload.Chance(f.shutdown) && p.q != nil && !p.q.failed:
		w.Count("shut down in order")
		p.leaving = true
		node := p.node
		p.q.Shutdown(func() { node.Do("exit", func() { w.After(0, "exit", node.Kill) }) })
	}
	if s.kraft > 0 && (w.Workload.Chance(f.members) || s.wiped != nil && w.Workload.Chance(0.3)) {
		s.changeVoters()
	}
	s.cutSomething()
	s.run(w.Workload.Between(10*time.Millisecond, 200*time.Millisecond), nil)
}

// breakDisk lets a disk give errors from now on, of some kinds, or fill up.
func (s *simulation) breakDisk(p *peer) {
	r, f := s.world.Disks, p.node.Disk().Faults()
	some := func(share float64) float64 {
		if r.Chance(0.5) {
			return share
		}
		return 0
	}
	f.SyncError, f.WriteError, f.ShortWrite, f.ReadError, f.Slow = some(0.01), some(0.005), some(0.005), some(0.005), some(0.02)
	if r.Chance(0.2) {
		s.world.Count("disk nearly full")
		f.Capacity = 40_000
	}
	p.badDisk = true
	s.world.Count("disk goes bad")
	p.node.Disk().SetFaults(f)
}

// damage spoils a small file of a machine that is down: one that the log can make again. What cannot be made again, quorum-state and
// the snapshots, is not touched: without them a node must not vote.
func (s *simulation) damage(p *peer) {
	r := s.world.Disks
	var names []string
	for _, name := range p.node.Disk().Files() {
		switch filepath.Ext(name) {
		case ".index", ".timeindex":
			names = append(names, name)
		case "":
			if filepath.Base(name) == "leader-epoch-checkpoint" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[r.IntN(len(names))]
	b, err := p.node.Disk().ReadFile(name)
	what := []string{"lost", "emptied", "cut"}[r.IntN(3)]
	switch {
	case err != nil:
	case what == "lost":
		err = p.node.Disk().RemoveFile(name)
	case what == "emptied":
		err = p.node.Disk().WriteFile(name, nil, 0o644)
	default:
		err = p.node.Disk().WriteFile(name, b[:r.IntN(len(b)+1)], 0o644)
	}
	if err != nil {
		s.fail("%s: damage %s: %v", p.name, name, err)
	}
	s.world.Count("file " + what)
}

// cutSomething cuts links in every shape: one direction, one machine, halves, and a machine that sees all while the others do not
// see each other.
func (s *simulation) cutSomething() {
	w, r := s.world, s.world.Crashes
	if r.Chance(s.faults.cut) {
		from, to := s.peers[r.IntN(len(s.peers))], s.peers[r.IntN(len(s.peers))]
		if r.Chance(0.5) {
			w.HealAll()
		} else if from != to {
			w.Cut(from.name, to.name)
			if r.Chance(0.7) {
				w.Cut(to.name, from.name)
			}
		}
	}
	if !r.Chance(s.faults.partition) {
		return
	}
	w.HealAll()
	groups := make([][]string, 2)
	switch r.IntN(4) {
	case 0:
		w.Count("partition healed")
		return
	case 1:
		w.Count("leader cut off")
		if l := s.leader(); l != nil {
			groups[0] = []string{l.name}
			for _, p := range s.peers {
				if p != l {
					groups[1] = append(groups[1], p.name)
				}
			}
		}
	case 2:
		w.Count("halves")
		for _, p := range s.peers {
			i := r.IntN(2)
			groups[i] = append(groups[i], p.name)
		}
	case 3:
		w.Count("one sees all")
		groups = nil
		hub := r.IntN(len(s.peers))
		for i, p := range s.peers {
			if i != hub {
				groups = append(groups, []string{p.name})
			}
		}
	}
	w.Partition(groups...)
}

// repeatLater sends some requests a second time, perhaps much later: the network has kept a copy, or a former connection still
// delivers.
func (s *simulation) repeatLater(from *peer, to destination, req protocol.Request) {
	if !s.world.Net.Chance(s.faults.stale) {
		return
	}
	var version int16
	switch req.(type) {
	case *protocol.VoteRequest:
		version = 2
	case *protocol.BeginQuorumEpochRequest, *protocol.EndQuorumEpochRequest, *protocol.FetchSnapshotRequest:
		version = 1
	case *protocol.FetchRequest:
		version = 18
	default:
		return
	}
	node, net := from.node, from.q.net.(*watchedTransport).transport
	s.world.After(s.world.Net.Between(0, 3*time.Second), "stale", func() {
		node.Do("stale", func() {
			s.world.Count("request sent again later")
			net.send(to, req, version, time.Second, func(protocol.Response, error) {})
		})
	})
}

func (s *simulation) append(p *peer) {
	q, epoch := p.q, p.q.election.Epoch
	p.node.Do("append", func() {
		for range 1 + s.world.Workload.IntN(3) {
			s.value++
			_, err := q.PrepareAppend(epoch, values(s.value))
			if err != nil && !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrEpochFenced) {
				s.l.fail("%s: append: %v", p.name, err)
			}
		}
		q.SchedulePreparedAppend()
	})
}

// snapshot writes one of what a node was told.
func (s *simulation) snapshot(p *peer) {
	q, r := p.q, s.readers[p.id]
	if q == nil || r == nil || r.next == 0 {
		return
	}
	p.node.Do("snapshot", func() {
		if q.failed {
			return // shut down
		}
		w, err := q.CreateSnapshot(SnapshotID{r.next, r.epoch}, p.node.Now().UnixMilli())
		if err != nil {
			p.broken(fmt.Sprintf("create snapshot at %d-%d", r.next, r.epoch), err)
		}
		if w == nil {
			return
		}
		s.world.Count("snapshot")
		if err := errors.Join(w.Append(values(int64(r.sum))), w.Append(noOps(s.world.Workload.IntN(200))), w.Freeze(), w.Close()); err != nil {
			p.broken("write snapshot", err)
		}
	})
}

// loseLeader cuts the leader off from everybody: the others must elect another and go on. It comes back later.
func (s *simulation) loseLeader() {
	old := s.leader()
	for _, p := range s.peers {
		if p != old {
			s.world.Cut(old.name, p.name)
			s.world.Cut(p.name, old.name)
		}
	}
	before := len(s.l.entries)
	if !s.run(30*time.Second, func() bool {
		p := s.leader()
		return p != nil && p != old && len(s.l.entries) > before && s.readers[p.id].told.LeaderID == p.id
	}) {
		s.stuck("half a minute after the leader was cut off the other voters have not replaced it")
	}
	s.world.HealAll()
}

// settle ends all faults; then there must be a leader, it must be able to commit, and all that live must come to the same state.
func (s *simulation) settle() {
	s.world.SetNetworkFaults(sim.NetworkFaults{})
	s.faults.stale = 0
	s.world.HealAll()
	for _, p := range s.living {
		p.node.Disk().SetFaults(withoutErrors(p.node.Disk().Faults()))
		if p.node.Alive() {
			p.node.CrashAfter(0)
			p.node.Thaw()
		}
		if !p.node.Alive() || p.q == nil || p.q.failed || p.leaving {
			p.restart()
		}
	}
	if !s.run(120*time.Second, func() bool { p := s.leader(); return p != nil && s.readers[p.id].told.LeaderID == p.id }) {
		s.stuck("no leader two minutes after the last fault")
	}
	before := len(s.l.entries)
	all := func() bool {
		for _, p := range s.living {
			r := s.readers[p.id]
			if r == nil || p.q == nil || len(s.l.entries) <= before || r.next != int64(len(s.l.entries)) || p.q.LogEndOffset() != r.next {
				return false
			}
		}
		return true
	}
	agree := false
	for range 6 { // a leader may leave with what it was given: one that was removed, or resigns late
		if p := s.leader(); p != nil {
			if s.strayed(p) {
				p.q.Resign(p.q.election.Epoch)
			}
			s.append(p)
		}
		if agree = s.run(10*time.Second, all); agree {
			break
		}
	}
	if !agree {
		s.stuck("not all agree a minute after the last fault")
	}
	if p := s.leader(); p != nil && !p.q.Voters().Contains(p.cfg.key()) {
		s.stuck(p.name + " leads, and was removed")
	}
	for _, p := range s.living {
		if r := s.readers[p.id]; r.sum != s.l.sumBelow(r.next) {
			s.l.fail("I6: %s has another state", p.name)
		}
	}
}

// strayed reports whether an observer is in a later epoch than the leader: it heard of it from a candidate that then died. As with
// Kafka, fetches of a later epoch move nobody, and so it waits for the next election, which need not come by itself.
func (s *simulation) strayed(leader *peer) bool {
	for _, p := range s.living {
		if p.q != nil && p.q.election.Epoch > leader.q.election.Epoch && !p.q.isVoter() {
			s.world.Count("observer waits for the next election")
			return true
		}
	}
	return false
}

// returnOne cuts one voter off and lets it come back: a healthy leader goes on leading (KIP-996).
func (s *simulation) returnOne() {
	l := s.leader()
	before := l.q.election.Epoch
	for _, p := range s.peers {
		if p == l || !l.q.Voters().Contains(p.cfg.key()) {
			continue
		}
		for _, o := range s.peers {
			if o != p {
				s.world.Cut(o.name, p.name)
				s.world.Cut(p.name, o.name)
			}
		}
		s.run(8*time.Second, nil)
		s.world.HealAll()
		s.run(5*time.Second, nil)
		if now := s.leader(); now != l || l.q.election.Epoch != before {
			s.stuck(fmt.Sprintf("%s led epoch %d until %s, which had been cut off, came back", l.name, before, p.name))
		}
		return
	}
}

// stuck fails with what every node believes.
func (s *simulation) stuck(what string) {
	text := what
	for _, p := range s.peers {
		text += "\n\t" + p.name + ": "
		if p.q == nil || !p.node.Alive() {
			text += "down"
			continue
		}
		text += fmt.Sprintf("%s, failed %t, told up to %d", stateOf(p.q), p.q.failed, s.readers[p.id].next)
	}
	s.l.fail("I17: %s; %d offsets are committed", text, len(s.l.entries))
}

var (
	firstSeed   = flag.Uint64("seed", 0, "the first seed of the simulation")
	traceLength = flag.Int("events", 400, "how many events a failed simulation shows")
	seedCount   = flag.Uint64("seeds", 600, "how many seeds to simulate")
)

// shutdown ends all nodes in order, one after the other; each must come to its end.
func (s *simulation) shutdown() {
	for _, p := range append(s.living[1:len(s.living):len(s.living)], s.living[0]) {
		gone := false
		p.q.Shutdown(func() { gone = true })
		if !s.run(10*time.Second, func() bool { return gone }) {
			s.l.fail("I17: %s does not shut down", p.name)
		}
	}
}

// mustHappen is what a run of some hundred seeds shows, or the simulation does not do its work.
var mustHappen = []string{
	"crash", "kill", "freeze", "link cut", "leader cut off", "halves", "one sees all", "clock step", "clock drift", "disk goes bad", "disk nearly full",
	"fault", "disk lost", "machine replaced", "stays dead", "resigned", "shut down in order", "request sent again later", "frame late", "frame lost and sent again",
	"connection reset", "dial failed", "file lost", "file emptied", "file cut", "page torn at a crash", "page garbled at a crash", "snapshot", "snapshot fetched", "log replaced by a snapshot", "log cleaned",
	"diverged", "truncated", "voter set changed", "voter set truncated", "voter add acknowledged", "voter add refused: REQUEST_TIMED_OUT", "voter remove acknowledged",
	"voter remove refused: REQUEST_TIMED_OUT", "leader asked to remove itself",
}

// Quorums on simulated machines, with everything that can go wrong short of a lying disk: see checker for what must hold at every
// moment, and settle for what must be when the faults end.
//
// A long run, which says how much of a cluster's life it saw:
//
//	go test ./internal/raft -run 'TestSimulation$' -v -seed 1000 -seeds 100000 -timeout 0
//
// A seed that fails fails again with -seed N -seeds 1, and then the trace tells the requests; -events N shows more of it.
func TestSimulation(t *testing.T) {
	first, seeds := *firstSeed, *seedCount
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	counts := map[string]int{}
	began := time.Now()
	var simulated time.Duration
	for seed := first; seed < first+seeds; seed++ {
		_, d := runSimulation(t, seed, counts)
		simulated += d
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%8d %s", counts[what], what)
	}
	t.Logf("%d seeds, %.1f hours of clusters, %.0f in an hour", seeds, simulated.Hours(), simulated.Hours()/time.Since(began).Hours())
	if seeds < 600 {
		return
	}
	for _, what := range mustHappen {
		if counts[what] == 0 {
			t.Errorf("%d seeds, and never: %s", seeds, what)
		}
	}
}

// Seeds that have found something, in the simulation of their time: a node that is a voter for the others only and clings to a dead
// leader; an observer ahead of its leader's epoch; an observer whose leader died in the middle of a snapshot.
func TestSimulationFormerFindings(t *testing.T) {
	for _, seed := range []uint64{3056, 20652, 20839} {
		runSimulation(t, seed, map[string]int{})
	}
}

// One seed is one history, to the byte.
func TestSimulationRepeats(t *testing.T) {
	for seed := range uint64(16) {
		counts := map[string]int{}
		a, _ := runSimulation(t, seed, counts)
		if b, _ := runSimulation(t, seed, counts); a != b {
			t.Errorf("seed %d has hash %x and then %x", seed, a, b)
		}
	}
}

// swarm turns most faults off, and some of the rest far up: rare pairs meet.
func (s *simulation) swarm() {
	r := s.world.Workload
	maybe := func(p float64) float64 {
		switch n := r.IntN(10); {
		case n < 5:
			return 0
		case n < 9:
			return p
		}
		return 3 * p
	}
	s.faults = simFaults{
		crash: maybe(0.03), kill: maybe(0.03), crashAfter: maybe(0.05), cut: maybe(0.06), partition: maybe(0.06), freeze: maybe(0.03),
		snapshot: maybe(0.2), resign: maybe(0.05), shutdown: maybe(0.02), clock: maybe(0.02), drift: maybe(0.02), disk: maybe(0.01),
		members: maybe(0.2), wipe: maybe(0.02), stale: maybe(0.02), damage: maybe(0.3),
	}
	s.world.SetNetworkFaults(sim.NetworkFaults{Late: maybe(0.01), Lose: maybe(0.02), Reset: maybe(0.005), DialFail: maybe(0.1)})
	if !s.onDisk {
		s.faults.disk, s.faults.damage = 0, 0
	}
}

func runSimulation(t *testing.T, seed uint64, counts map[string]int) (hash uint64, simulated time.Duration) {
	sizes := [][3]int{{3, 0, 0}, {3, 1, 2}, {1, 1, 0}, {5, 0, 0}, {2, 0, 1}, {3, 2, 1}, {1, 0, 2}, {4, 0, 1}, {5, 1, 1}, {7, 0, 0}, {6, 0, 0}}
	size := sizes[seed%uint64(len(sizes))]
	var s *simulation
	defer func() {
		if r := recover(); r != nil {
			for _, line := range s.world.LastEvents(*traceLength) {
				fmt.Fprintln(t.Output(), line)
			}
			t.Fatalf("seed %d: %v", seed, r)
		}
	}()
	s = newSimulation(t, seed, size[0], size[1], size[2], seed/uint64(len(sizes))%2 == 0)
	s.swarm()
	for range 100 {
		s.step()
	}
	s.living = s.survivors()
	s.settle()
	if p := s.leader(); len(s.living) == len(s.peers) && p != nil && p.q.Voters().Len() >= 3 && s.wiped == nil && p.q.Voters().Contains(p.cfg.key()) {
		s.loseLeader()
		s.settle()
		s.returnOne()
	}
	s.shutdown()
	counts["epochs"] += len(s.l.leaders)
	counts["committed"] += len(s.l.entries)
	for what, n := range s.world.AllCounts() {
		counts[what] += n
	}
	return s.world.Hash(), s.world.Now()
}
