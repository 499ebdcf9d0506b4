package controller

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
)

// testEnv is a clock, a random source and queues that run when told to, in the order of posting.
type testEnv struct {
	env.Env // the rest is not used
	now     time.Duration
	events  []func()
	timers  []*testTimer
	rng     *rand.Rand
	log     *slog.Logger
}

// nowhere takes what is logged: log lines are made, so that making them is tested too.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

func newTestEnv() *testEnv {
	return &testEnv{rng: rand.New(rand.NewPCG(1, 2)), log: slog.New(slog.NewTextHandler(nowhere{}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

func (e *testEnv) Monotonic() time.Duration  { return e.now }
func (e *testEnv) Now() time.Time            { return time.Unix(0, 0).Add(e.now) }
func (e *testEnv) NewQueue(string) env.Queue { return &testQueue{e} }
func (e *testEnv) Rand() env.Rand            { return testRand{e.rng} }
func (e *testEnv) Logger() *slog.Logger      { return e.log }

type testRand struct{ *rand.Rand }

func (r testRand) Read(p []byte) {
	for i := 0; i < len(p); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], r.Uint64())
		copy(p[i:], word[:])
	}
}

type testTimer struct {
	at      time.Duration
	fn      func()
	stopped bool
}

func (t *testTimer) Stop() bool {
	was := t.stopped
	t.stopped = true
	return !was
}

type testQueue struct{ e *testEnv }

func (q *testQueue) Post(_ string, fn func()) { q.e.events = append(q.e.events, fn) }
func (q *testQueue) After(d time.Duration, _ string, fn func()) env.Timer {
	t := &testTimer{at: q.e.now + d, fn: fn}
	q.e.timers = append(q.e.timers, t)
	return t
}
func (q *testQueue) Len() int          { return len(q.e.events) }
func (q *testQueue) Close(done func()) { q.e.events = append(q.e.events, done) }

// run does what is posted, and what that posts.
func (e *testEnv) run() {
	for len(e.events) > 0 {
		fn := e.events[0]
		e.events = e.events[1:]
		fn()
	}
}

// elapse moves the clock, firing timers on their way.
func (e *testEnv) elapse(d time.Duration) {
	end := e.now + d
	for {
		e.run()
		e.timers = slices.DeleteFunc(e.timers, func(t *testTimer) bool { return t.stopped })
		i := -1
		for j, t := range e.timers {
			if t.at <= end && (i < 0 || t.at < e.timers[i].at) {
				i = j
			}
		}
		if i < 0 {
			break
		}
		t := e.timers[i]
		t.stopped = true
		e.now = max(e.now, t.at)
		t.fn()
	}
	e.now = end
	e.run()
}

// raftNobody is before the first election.
var raftNobody = raft.LeaderAndEpoch{LeaderID: -1}

// testQuorum is a log in memory. What is appended is committed at once, unless hold is set.
type testQuorum struct {
	id       int32
	voters   []int32
	leader   raft.LeaderAndEpoch
	listener raft.Listener
	log      []raft.Batch
	prepared []raft.Batch
	hold     bool
	handed   int // batches told as committed
	// kraftBelow is how much kraft.version is below 1; upgradeErr is why it cannot be raised.
	kraftBelow int16
	upgradeErr error
}

func (q *testQuorum) LeaderAndEpoch() raft.LeaderAndEpoch { return q.leader }
func (q *testQuorum) KRaftVersion() int16                 { return 1 - q.kraftBelow }

// UpgradeKRaftVersion raises the level at once, unless the test has an error for it.
func (q *testQuorum) UpgradeKRaftVersion(_ int32, level int16, validateOnly bool) error {
	if q.upgradeErr == nil && !validateOnly {
		q.kraftBelow = 1 - level
	}
	return q.upgradeErr
}

func (q *testQuorum) Voters() *raft.VoterSet {
	var voters []raft.Voter
	for _, id := range q.voters {
		voters = append(voters, raft.Voter{Key: raft.ReplicaKey{ID: id}})
	}
	return raft.NewVoterSet(voters...)
}

func (q *testQuorum) LogEndOffset() int64 {
	if n := len(q.log); n > 0 {
		return q.log[n-1].LastOffset + 1
	}
	return 0
}

func (q *testQuorum) PrepareAppend(epoch int32, records []metadata.Versioned) (int64, error) {
	switch {
	case q.leader.LeaderID != q.id:
		return 0, raft.ErrNotLeader
	case q.leader.Epoch != epoch:
		return 0, raft.ErrEpochFenced
	}
	base := q.LogEndOffset()
	for _, b := range q.prepared {
		base = b.LastOffset + 1
	}
	b := raft.Batch{BaseOffset: base, LastOffset: base + int64(len(records)) - 1, Epoch: epoch, Records: slices.Clone(records)}
	q.prepared = append(q.prepared, b)
	return b.LastOffset, nil
}

func (q *testQuorum) SchedulePreparedAppend() {
	q.log = append(q.log, q.prepared...)
	q.prepared = nil
	if !q.hold {
		q.commit()
	}
}

func (q *testQuorum) commit() { q.commitUpTo(len(q.log)) }

// commitUpTo commits the first n batches of the log.
func (q *testQuorum) commitUpTo(n int) {
	if fresh := q.log[q.handed:n]; len(fresh) > 0 {
		q.listener.HandleCommit(slices.Clone(fresh))
	}
	q.handed = n
}

func (q *testQuorum) Resign(epoch int32) {
	if q.leader.LeaderID == q.id && q.leader.Epoch == epoch {
		q.leader.LeaderID = -1
	}
}

// lead makes this node the leader of a new epoch: its LeaderChange record is in the log and everything committed.
func (q *testQuorum) lead() {
	q.follow(q.id)
}

// follow changes the leader. What was not committed is gone.
func (q *testQuorum) follow(leader int32) {
	q.log = q.log[:q.handed]
	q.leader = raft.LeaderAndEpoch{LeaderID: leader, Epoch: q.leader.Epoch + 1}
	end := q.LogEndOffset()
	q.log = append(q.log, raft.Batch{BaseOffset: end, LastOffset: end, Epoch: q.leader.Epoch}) // control records
	q.commit()
	q.listener.HandleLeaderChange(q.leader)
}

// append is another leader's writing.
func (q *testQuorum) append(records ...metadata.Record) {
	b := raft.Batch{BaseOffset: q.LogEndOffset(), Epoch: q.leader.Epoch}
	b.LastOffset = b.BaseOffset + int64(len(records)) - 1
	for _, r := range records {
		b.Records = append(b.Records, metadata.Versioned{Record: r, Version: metadata.LatestVersion.RecordVersion(r)})
	}
	q.log = append(q.log, b)
	q.commit()
}

// committed are the batches told as committed.
func (q *testQuorum) committed() []raft.Batch { return q.log[:q.handed] }

func (q *testQuorum) String() string {
	return fmt.Sprintf("leader %d epoch %d", q.leader.LeaderID, q.leader.Epoch)
}
