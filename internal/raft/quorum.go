package raft

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// Quorum is one node's part in the quorum of the metadata log.
type Quorum struct {
	env   env.Env
	cfg   Config
	log   *slog.Logger
	queue env.Queue
	net   transport

	disk    *metadataLog
	history *history
	prepare *accumulator

	// Everything below belongs to the queue.

	// election is what quorum-state says: it was made durable before it was put here. Its epoch never goes back, and
	// in one epoch its leader is set at most once and its vote at most once.
	election        Election
	leaderEndpoints []Endpoint // of election.LeaderID, as far as known
	state           state
	// generation counts transitions: what was armed or sent in an earlier state is told apart by it.
	generation uint64
	timers     []env.Timer // of this generation
	// highWatermark: everything below is on a majority of the voters. It never goes back, and
	// log start <= highWatermark <= log end. -1 until it is known.
	highWatermark int64
	listeners     []*listenerContext
	// tail are batches that this node appended as leader and that are not all handed to listeners yet.
	tail         []Batch
	delivering   bool // a deliver event is on its way
	waiting      []*waitingFetch
	cleaner      env.Timer
	started      bool
	stopping     *shutdown
	failed       bool
	checked      invariants
	bootstrapped int  // which of cfg.Bootstrap was asked last
	wasVoter     bool // this replica was a voter by a voter set that is committed, as far as anybody has looked

	view atomic.Pointer[view]
}

// view is what other goroutines may see of the state, as of the last event.
type view struct {
	leader        LeaderAndEpoch
	highWatermark int64
	endOffset     int64
	level         int16
	voters        *VoterSet
	volatile      *VoterSet // of a leader, while kraft.version is 0
}

// Open loads the metadata log, its snapshots and quorum-state. Nothing runs before Start. The folder of the metadata
// log is made if it is not there.
func Open(e env.Env, cfg Config) (*Quorum, error) {
	segments, err := openSegments(e, &cfg)
	if err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	q, err := open(e, cfg, segments)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log: %w", err), segments.Close())
	}
	q.net = newRPCTransport(e, cfg.NodeID)
	return q, nil
}

func open(e env.Env, cfg Config, s segments) (*Quorum, error) {
	q := &Quorum{
		env: e, cfg: cfg, log: e.Logger().With("component", "RaftManager"),
		disk:          &metadataLog{segments: s, fsys: e.FS(), dir: cfg.LogDir()},
		history:       &history{static: NewVoterSet(cfg.StaticVoters...)},
		prepare:       newAccumulator(cfg.MaxBatchBytes),
		election:      NoElection,
		highWatermark: -1,
	}
	removed, err := q.disk.loadSnapshots()
	for _, name := range removed {
		q.log.Info("Deleted unneeded snapshot file with path " + name)
	}
	if err != nil {
		return nil, err
	}
	truncated, obsolete, err := q.disk.truncateToLatestSnapshot()
	if err == nil {
		err = q.disk.startAtEarliestSnapshot()
	}
	if err == nil && truncated {
		q.log.Info(fmt.Sprintf("Truncated the log fully to the latest snapshot; it starts at offset %d", q.disk.StartOffset()))
		if err = q.disk.markDeleted(obsolete); err == nil {
			err = q.disk.removeDeleted(obsolete)
		}
	}
	if err != nil {
		return nil, err
	}
	q.disk.mu.Lock()
	names := make([]string, len(q.disk.snapshots))
	for i, id := range q.disk.snapshots {
		names[i] = id.String()
	}
	q.disk.mu.Unlock()
	q.log.Info(fmt.Sprintf("Initialized snapshots with IDs [%s] from %s", strings.Join(names, ", "), q.disk.dir))
	q.log.Info("Reading KRaft snapshot and log as part of the initialization")
	if err := q.loadHistory(); err != nil {
		return nil, err
	}
	_, voters, _, _ := q.history.current()
	q.log.Info("Starting voters are " + voters.String())
	if q.election, err = ReadElection(e.FS(), q.disk.dir); err != nil {
		return nil, err
	}
	q.state = &unattached{}
	q.publish()
	q.queue = e.NewQueue("raft")
	return q, nil
}

// loadHistory reads the control records of the latest snapshot and of the log.
func (q *Quorum) loadHistory() error {
	from := q.disk.StartOffset()
	if id, ok := q.disk.latestSnapshot(); ok {
		r, err := OpenSnapshot(q.env.FS(), q.disk.dir, id)
		if err != nil {
			return err
		}
		q.history.startFrom(id, r.Head(), q.log)
		if err := r.Close(); err != nil {
			return err
		}
		from = max(from, id.EndOffset)
		q.noteWasVoter(id.EndOffset)
	}
	return q.scan(from)
}

// scanBytes is how much of the log is read at a time.
const scanBytes = 1 << 20

// scan takes the control records from an offset on into the history.
func (q *Quorum) scan(from int64) error {
	for from < q.disk.EndOffset() {
		next := from
		err := q.readBatches(from, func(b record.Batch) error {
			next = b.NextOffset()
			if b.LastOffset() < from {
				return nil
			}
			return q.noteControls(b)
		})
		if err != nil {
			return fmt.Errorf("read metadata log from offset %d: %w", from, err)
		}
		if next == from {
			return fmt.Errorf("read metadata log from offset %d: no batch there, though the end is %d", from, q.disk.EndOffset())
		}
		from = next
	}
	return nil
}

// noteControls takes the control records of a batch of the log into the history.
func (q *Quorum) noteControls(b record.Batch) error {
	if !b.IsControl() {
		return nil
	}
	_, controls, err := decodeBatch(b)
	for _, c := range controls {
		q.history.addControl(c, q.log)
	}
	return err
}

func (q *Quorum) readBatches(from int64, fn func(record.Batch) error) error {
	region, err := q.disk.Read(from, scanBytes)
	if err != nil {
		return err
	}
	defer region.Release()
	b, err := region.Bytes()
	if err != nil {
		return err
	}
	return eachBatch(b, fn)
}

// Event is something that happens to a quorum.
//
//sumtype:decl
type Event interface{ event() string }

// Handle runs one event to its end, on the queue. It does not block but for the disk, spawns nothing and reads no clock
// but env's: what has to happen elsewhere goes out, and comes back later as another event.
func (q *Quorum) Handle(ev Event) {
	if q.failed {
		q.refuse(ev)
		return
	}
	switch ev := ev.(type) {
	case start:
		q.onStart() // start.go
	case registration:
		q.onRegister(ev) // listener.go
	case appendScheduled:
		q.onAppendScheduled() // append.go
	case deliver:
		q.onDeliver() // listener.go
	case electionTimeout:
		q.onElectionTimeout(ev) // transition.go
	case fetchTimeout:
		q.onFetchTimeout(ev) // follower.go
	case earlyPreVote:
		q.onEarlyPreVote(ev) // early.go
	case fetchAgain:
		q.onFetchAgain(ev) // follower.go
	case sendAgain:
		q.onSendAgain(ev) // vote.go, epoch.go
	case checkQuorum:
		q.onCheckQuorum(ev) // leader.go
	case beginEpochTimer:
		q.onBeginEpochTimer(ev) // leader.go
	case voteRequest:
		q.onVoteRequest(ev) // vote.go
	case voteResponse:
		q.onVoteResponse(ev) // vote.go
	case beginEpochRequest:
		q.onBeginEpochRequest(ev) // epoch.go
	case beginEpochResponse:
		q.onBeginEpochResponse(ev) // epoch.go
	case endEpochRequest:
		q.onEndEpochRequest(ev) // epoch.go
	case endEpochResponse:
		q.onEndEpochResponse(ev) // epoch.go
	case fetchRequest:
		q.onFetchRequest(ev) // fetch.go
	case fetchExpired:
		q.onFetchExpired(ev) // fetch.go
	case fetchResponse:
		q.onFetchResponse(ev) // follower.go
	case fetchSnapshotRequest:
		q.onFetchSnapshotRequest(ev) // fetch_snapshot.go
	case fetchSnapshotResponse:
		q.onFetchSnapshotResponse(ev) // fetch_snapshot.go
	case describeRequest:
		q.onDescribeRequest(ev) // describe.go
	case addVoterRequest:
		q.onAddVoterRequest(ev) // membership.go
	case probeResponse:
		q.onProbeResponse(ev) // membership.go
	case removeVoterRequest:
		q.onRemoveVoterRequest(ev) // membership.go
	case updateVoterRequest:
		q.onUpdateVoterRequest(ev) // voter_update.go
	case voterPeriod:
		q.onVoterPeriod(ev) // voter_update.go
	case updateVoterResponse:
		q.onUpdateVoterResponse(ev) // voter_update.go
	case joinResponse:
		q.onJoinResponse(ev) // voter_update.go
	case changeExpired:
		q.onChangeExpired(ev) // membership.go
	case resign:
		q.onResign(ev) // resigned.go
	case snapshotFrozen:
		q.onSnapshotFrozen(ev) // snapshot.go
	case clean:
		q.onClean() // snapshot.go
	case shutdown:
		q.onShutdown(ev) // start.go
	case shutdownTimeout:
		q.completeShutdown() // start.go
	default:
		panic(fmt.Sprintf("raft: no handler for %T", ev))
	}
	q.checkInvariants(ev)
	q.publish()
}

// refuse answers what comes after the quorum has failed or was shut down.
func (q *Quorum) refuse(ev Event) {
	switch ev := ev.(type) {
	case voteRequest:
		ev.respond(voteError(brokerNotAvailable))
	case beginEpochRequest:
		ev.respond(beginEpochError(brokerNotAvailable))
	case endEpochRequest:
		ev.respond(endEpochError(brokerNotAvailable))
	case fetchRequest:
		ev.respond(fetchError(brokerNotAvailable))
	case fetchSnapshotRequest:
		ev.respond(fetchSnapshotError(brokerNotAvailable))
	case describeRequest:
		ev.respond(describeError(brokerNotAvailable))
	case addVoterRequest:
		ev.respond(addVoterResponse(brokerNotAvailable, ""))
	case removeVoterRequest:
		ev.respond(removeVoterResponse(brokerNotAvailable, ""))
	case updateVoterRequest:
		ev.respond(updateVoterError(brokerNotAvailable))
	case shutdown:
		ev.done()
	default: // nobody waits
	}
}

func (q *Quorum) post(ev Event) {
	q.queue.Post(ev.event(), func() { q.Handle(ev) })
}

// after posts an event once d has passed, unless the state changes before.
func (q *Quorum) after(d time.Duration, ev Event) {
	if len(q.timers) > 32 { // those that went off are never looked at again
		q.timers = q.timers[len(q.timers)-16:]
	}
	q.timers = append(q.timers, q.queue.After(max(d, 0), ev.event(), func() { q.Handle(ev) }))
}

// fault stops everything: the disk no longer does what it must.
func (q *Quorum) fault(err error) {
	if q.failed {
		return
	}
	q.failed = true
	q.prepare.close()
	q.stopTimers()
	q.abandonChange()
	q.log.Error("the quorum stops", "err", err)
	if q.cfg.OnFault == nil {
		panic(fmt.Sprintf("raft: %v", err))
	}
	q.cfg.OnFault(err)
}

func (q *Quorum) stopTimers() {
	for _, t := range q.timers {
		t.Stop()
	}
	q.timers = q.timers[:0]
}

func (q *Quorum) publish() {
	level, voters, _, _ := q.history.current()
	v := view{
		leader:        LeaderAndEpoch{q.election.LeaderID, q.election.Epoch},
		highWatermark: q.highWatermark,
		endOffset:     q.disk.EndOffset(),
		level:         level,
		voters:        voters,
	}
	if l, ok := q.state.(*leader); ok {
		v.endOffset = l.durable
		if level < 1 {
			v.volatile = l.volatile
		}
	} else if q.election.LeaderID == q.cfg.NodeID {
		v.leader.LeaderID = NoNode // resigned
	}
	if old := q.view.Load(); old == nil || *old != v {
		q.view.Store(&v)
	}
}

func (q *Quorum) voters() *VoterSet {
	_, voters, _, _ := q.history.current()
	return voters
}

// isVoter reports whether this replica is in the voter set now, or was until a change that may not be committed. Such a one still
// stands for elections: the others may not have the change, need its vote, and cannot get it because its log is longer than theirs
// (Raft's dissertation, 4.2.2). Its own vote does not count.
func (q *Quorum) isVoter() bool {
	return q.cfg.Voter && (q.voters().Contains(q.cfg.key()) || q.history.before(q.highWatermark).Contains(q.cfg.key()))
}

// LeaderAndEpoch is who leads, as this node knows it. Any goroutine.
func (q *Quorum) LeaderAndEpoch() LeaderAndEpoch { return q.view.Load().leader }

// HighWatermark is the offset below which everything is committed; -1 while that is not known. Any goroutine.
func (q *Quorum) HighWatermark() int64 { return q.view.Load().highWatermark }

// LogEndOffset is the offset behind the last record that is in the log. Any goroutine.
func (q *Quorum) LogEndOffset() int64 { return q.view.Load().endOffset }

// Voters is the voter set, committed or not. Any goroutine.
func (q *Quorum) Voters() *VoterSet { return q.view.Load().voters }

// KRaftVersion is the level of kraft.version. Any goroutine.
func (q *Quorum) KRaftVersion() int16 { return q.view.Load().level }

// ControllerEndpoint is where a voter listens, by the name of a listener. Any goroutine.
func (q *Quorum) ControllerEndpoint(id int32, listener string) (Endpoint, bool) {
	v := q.Voters().Get(id)
	if v == nil {
		return Endpoint{}, false
	}
	return v.endpoint(listener)
}

// LatestSnapshot is the newest snapshot on disk. Any goroutine.
func (q *Quorum) LatestSnapshot() (SnapshotID, bool) { return q.disk.latestSnapshot() }

// PrepareAppend gives records the next offsets, all in one batch, and returns the last one. Nothing is written before
// SchedulePreparedAppend. The records must not change any more. Any goroutine.
// Errors: ErrNotLeader; ErrEpochFenced if this node leads, but in a later epoch; ErrBatchTooLarge.
func (q *Quorum) PrepareAppend(epoch int32, records []metadata.Versioned) (last int64, err error) {
	return q.prepare.prepare(epoch, records, q.env.Now().UnixMilli())
}

// SchedulePreparedAppend has what was prepared written, synced, and committed once a majority has it. Any goroutine.
func (q *Quorum) SchedulePreparedAppend() {
	if q.prepare.schedule() {
		q.post(appendScheduled{})
	}
}

// Register adds a listener. It is told everything from the beginning: bootstrap records or snapshot, then what is
// committed, then who leads. Any goroutine.
func (q *Quorum) Register(l Listener) { q.post(registration{l}) }

// Start begins to take part in the quorum. A single voter leads when the event is over.
func (q *Quorum) Start() { q.post(start{}) }

// Resign gives up the leadership of an epoch; another epoch's is left alone. Any goroutine.
func (q *Quorum) Resign(epoch int32) { q.post(resign{epoch}) }

// controlMessages builds the bytes of a control batch of this leader.
func (q *Quorum) controlMessages(at int64, messages ...protocol.Message) (record.Batch, error) {
	return controlBatch(at, q.election.Epoch, q.env.Now().UnixMilli(), messages...)
}
