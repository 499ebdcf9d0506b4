package raft

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// follower fetches from the leader of its epoch, one request at a time: the next one acknowledges what the last one
// brought. An observer is a follower that never votes.
type follower struct {
	fetchBy    time.Duration // of the monotonic clock: a voter that has not fetched by then begins an election
	hasFetched bool          // the leader has answered in this epoch
	resigned   bool          // the leader said that it is none any more
	watching   bool          // the fetch timeout runs: this node is a voter
	toldLeader bool          // this leader has been told of this voter (UpdateRaftVoter)
	fetching   bool          // a Fetch or FetchSnapshot is under way
	failures   int           // in a row
	snapshot   *snapshotFetch
	lost       lostLeader
}

// discovery is the search of a node that knows no leader.
type discovery struct {
	fetching bool
	failures int // in a row
}

// maxFetchWait is how long a leader keeps a fetch that has nothing to bring.
const maxFetchWait = 500 * time.Millisecond

func (s *follower) describe(q *Quorum, e Election) string {
	fetching := "Optional.empty"
	if s.snapshot != nil {
		fetching = "Optional[" + s.snapshot.id.String() + "]"
	}
	return fmt.Sprintf("FollowerState(fetchTimeoutMs=%d, epoch=%d, leader=%d, leaderEndpoints=%s, votedKey=%s, voters=%s, highWatermark=%s, fetchingSnapshot=%s)",
		q.cfg.FetchTimeout.Milliseconds(), e.Epoch, e.LeaderID, endpointsText(q.leaderEndpoints), e.votedText(), idList(q.voters().IDs()), q.highWatermarkText(), fetching)
}

// toFollower follows a leader that it knows how to reach; one that it does not is only remembered.
func (q *Quorum) toFollower(epoch, leaderID int32, endpoints []Endpoint) {
	if len(endpoints) == 0 {
		if q.election.Epoch != epoch || q.election.LeaderID != leaderID {
			q.toUnattached(epoch, leaderID)
		}
		return
	}
	e := Election{Epoch: epoch, LeaderID: leaderID, Voted: ReplicaKey{ID: NoNode}}
	if epoch == q.election.Epoch {
		e.Voted = q.election.Voted
	}
	q.enterFollower(e, endpoints)
}

func (q *Quorum) enterFollower(e Election, endpoints []Endpoint) {
	q.enterFollowerFor(e, endpoints, q.cfg.FetchTimeout)
}

// enterFollowerFor follows a leader that has some time to answer the first fetch.
func (q *Quorum) enterFollowerFor(e Election, endpoints []Endpoint, patience time.Duration) {
	f := &follower{fetchBy: q.env.Monotonic() + patience}
	old := q.leaderEndpoints
	q.leaderEndpoints = endpoints
	q.become(f, e, endpoints, true)
	if q.failed {
		q.leaderEndpoints = old
		return
	}
	q.followAsVoter(f, patience)
	if q.cfg.Voter {
		q.after(q.cfg.FetchTimeout, voterPeriod{q.generation})
	}
	q.sendFetch(f)
}

// followAsVoter watches the leader, once and as long as this node is a voter.
func (q *Quorum) followAsVoter(f *follower, patience time.Duration) {
	if f.watching || !q.isVoter() {
		return
	}
	f.watching = true
	f.fetchBy = q.env.Monotonic() + patience
	q.after(patience, fetchTimeout{q.generation})
}

type fetchTimeout struct{ generation uint64 }

func (fetchTimeout) event() string { return "fetch-timeout" }

func (q *Quorum) onFetchTimeout(ev fetchTimeout) {
	f, ok := q.state.(*follower)
	if !ok || ev.generation != q.generation || q.stopping != nil {
		return
	}
	if f.watching = q.isVoter(); !f.watching {
		return // again when it is one
	}
	if left := f.fetchBy - q.env.Monotonic(); left > 0 {
		if !f.resigned {
			q.after(left, ev)
		}
		return
	}
	q.log.Info("Transitioning to Prospective state due to fetch timeout")
	q.toProspective()
}

type fetchAgain struct{ generation uint64 }

func (fetchAgain) event() string { return "fetch-again" }

func (q *Quorum) onFetchAgain(ev fetchAgain) {
	if ev.generation != q.generation {
		return
	}
	switch s := q.state.(type) {
	case *follower:
		q.sendFetch(s)
	case *unattached:
		q.discover(&s.discovery)
	case *prospective, *candidate, *leader, *resigned:
	}
}

// discover asks one of the bootstrap servers who leads.
func (q *Quorum) discover(d *discovery) {
	if d.fetching || q.stopping != nil {
		return
	}
	if to, ok := q.nextBootstrap(); ok {
		d.fetching = true
		q.fetchFrom(to)
	}
}

// nextBootstrap takes the bootstrap servers in turn, from a random one on, without this node itself.
func (q *Quorum) nextBootstrap() (destination, bool) {
	n := len(q.cfg.Bootstrap)
	if q.bootstrapped == 0 && n > 0 {
		q.bootstrapped = 1 + q.env.Rand().IntN(n)
	}
	for range n {
		address := q.cfg.Bootstrap[q.bootstrapped%n]
		q.bootstrapped = q.bootstrapped%n + 1
		if own, ok := q.pickEndpoint(q.cfg.Listeners); !ok || own.address() != address {
			return destination{NoNode, address}, true
		}
	}
	return destination{}, false
}

// sendFetch goes on with what this follower needs.
func (q *Quorum) sendFetch(f *follower) {
	if f.fetching || q.failed {
		return
	}
	to, ok := q.destination(q.election.LeaderID, q.leaderEndpoints)
	if f.snapshot != nil && f.failures > 0 && q.env.Monotonic() >= f.fetchBy {
		q.dropFetchedSnapshot(f) // whoever leads now may have another one
	}
	if f.failures%2 == 1 && f.snapshot == nil && !f.lost.redial {
		// The leader cannot be reached: perhaps somebody knows a newer one.
		if other, found := q.nextBootstrap(); found {
			to, ok = other, true
		}
	}
	if !ok {
		return
	}
	f.fetching, f.lost.redial = true, false
	if f.snapshot != nil {
		q.sendFetchSnapshot(f, to)
		return
	}
	q.fetchFrom(to)
}

func (q *Quorum) fetchFrom(to destination) {
	end := q.disk.end()
	req := protocol.NewFetchRequest()
	req.ClusterId = &q.cfg.ClusterID
	req.ReplicaState.ReplicaId = q.cfg.NodeID
	req.MaxWaitMs = int32(maxFetchWait / time.Millisecond)
	req.MinBytes = 1
	req.MaxBytes = int32(q.cfg.FetchMaxBytes)
	p := protocol.NewFetchRequestFetchPartition()
	p.CurrentLeaderEpoch = q.election.Epoch
	p.FetchOffset, p.LastFetchedEpoch = end.offset, end.epoch
	p.PartitionMaxBytes = req.MaxBytes
	p.ReplicaDirectoryId = q.cfg.DirectoryID
	p.HighWatermark = q.highWatermark
	topic := protocol.NewFetchRequestFetchTopic()
	topic.Topic, topic.TopicId = Topic, uuid.Metadata
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	generation := q.generation
	q.send(to, req, 18, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.FetchResponse)
		return fetchResponse{generation, to, end.offset, r, err}
	})
}

type fetchResponse struct {
	generation uint64
	to         destination
	offset     int64 // where the fetch began
	resp       *protocol.FetchResponse
	err        error
}

func (fetchResponse) event() string { return "fetch-response" }

func (q *Quorum) onFetchResponse(ev fetchResponse) {
	current := ev.generation == q.generation
	if current {
		switch s := q.state.(type) {
		case *follower:
			s.fetching = false
		case *unattached:
			s.fetching = false
		case *prospective, *candidate, *leader, *resigned:
			current = false
		}
	}
	err := ev.err
	if err == nil && (ev.resp == nil || len(ev.resp.Responses) != 1 || len(ev.resp.Responses[0].Partitions) != 1) {
		err = errors.New("the answer has not one partition")
		if ev.resp != nil && ev.resp.ErrorCode != 0 {
			err = kerr.FromCode(ev.resp.ErrorCode)
		}
	}
	if err == nil {
		p := &ev.resp.Responses[0].Partitions[0]
		var endpoints []Endpoint
		for _, e := range ev.resp.NodeEndpoints {
			if e.NodeId == p.CurrentLeader.LeaderId && e.Port > 0 && e.Port <= 65535 {
				endpoints = append(endpoints, Endpoint{q.cfg.ListenerName, e.Host, uint16(e.Port)})
			}
		}
		generation := q.generation
		answered := q.common(p.ErrorCode, p.CurrentLeader.LeaderId, p.CurrentLeader.LeaderEpoch, endpoints)
		if generation != q.generation || !current {
			return
		}
		switch f, ok := q.state.(*follower); {
		case ok && !answered && p.ErrorCode == 0:
			if err = q.takeFetched(f, ev.offset, p); err == nil {
				if generation == q.generation && !q.failed {
					q.sendFetch(f)
				}
				return
			}
		case p.ErrorCode != 0:
			err = kerr.FromCode(p.ErrorCode)
			q.leaderElsewhere(f, &p.CurrentLeader, endpoints)
		default:
			err = errors.New("no leader is known")
		}
	}
	if !current {
		return
	}
	q.log.Debug("fetch brought nothing", "err", err)
	switch s := q.state.(type) {
	case *follower:
		q.fetchFailed(s, ev.to, err)
	case *unattached:
		s.failures++
		q.after(q.retryBackoff(s.failures), fetchAgain{q.generation})
	case *prospective, *candidate, *leader, *resigned:
	}
}

// leaderElsewhere takes over where others reach the leader, as this node, for which the address comes from an old voter set, may not.
// It is no sign of life from the leader: the fetch timeout runs on. With Kafka such a node waits for the next election.
func (q *Quorum) leaderElsewhere(f *follower, said *protocol.FetchResponseLeaderIdAndEpoch, endpoints []Endpoint) {
	if f != nil && f.failures > 0 && len(endpoints) > 0 && said.LeaderId == q.election.LeaderID && said.LeaderEpoch == q.election.Epoch {
		q.leaderEndpoints = endpoints
	}
}

// retryBackoff doubles with each failure in a row, up to an eighth of the fetch timeout: whoever looks for a leader while one is being
// elected finds it soon, and a quorum without one is not kept busy by those who ask.
func (q *Quorum) retryBackoff(failures int) time.Duration {
	d := q.cfg.RetryBackoff << min(failures-1, 16)
	return max(min(d, q.cfg.FetchTimeout/8), q.cfg.RetryBackoff)
}

// fetched notes that the leader works.
func (q *Quorum) fetched(f *follower) {
	f.failures = 0
	f.hasFetched = true
	f.lost = lostLeader{}
	if !f.resigned {
		f.fetchBy = q.env.Monotonic() + q.cfg.FetchTimeout
	}
}

// takeFetched does what the leader says: truncate, fetch a snapshot, or append.
func (q *Quorum) takeFetched(f *follower, offset int64, p *protocol.FetchResponsePartitionData) error {
	switch {
	case p.DivergingEpoch.Epoch >= 0:
		if p.DivergingEpoch.EndOffset < 0 {
			return fmt.Errorf("diverging epoch %d ends at offset %d", p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset)
		}
		q.fetched(f)
		return q.truncateDiverged(position{p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset})
	case p.SnapshotId.EndOffset >= 0:
		if p.SnapshotId.Epoch < 0 {
			return fmt.Errorf("snapshot at offset %d has epoch %d", p.SnapshotId.EndOffset, p.SnapshotId.Epoch)
		}
		q.fetched(f)
		return q.beginSnapshotFetch(f, SnapshotID{p.SnapshotId.EndOffset, p.SnapshotId.Epoch})
	}
	if offset != q.disk.EndOffset() {
		return nil // of a fetch before a truncation
	}
	if err := q.appendFetched(p.Records); err != nil {
		return err
	}
	q.fetched(f)
	if !q.failed {
		q.followHighWatermark(p.HighWatermark)
	}
	return nil
}

// truncateDiverged cuts what the leader does not have. end is where the leader's records of an epoch end.
func (q *Quorum) truncateDiverged(end position) error {
	local := q.disk.endOf(end.epoch)
	to := local.offset
	if local.epoch == end.epoch {
		to = min(local.offset, end.offset)
	}
	if to >= q.disk.EndOffset() {
		return fmt.Errorf("diverging epoch %d at offset %d leaves nothing to truncate", end.epoch, end.offset)
	}
	if floor := max(q.highWatermark, q.disk.committed()); to < floor {
		q.fault(fmt.Errorf("the leader of epoch %d asks to truncate to offset %d, below the high watermark %d", q.election.Epoch, to, floor))
		return nil
	}
	if err := q.disk.TruncateTo(to); err != nil {
		q.fault(fmt.Errorf("truncate metadata log to offset %d: %w", to, err))
		return nil
	}
	q.history.truncate(to)
	q.votersChanged()
	q.log.Info(fmt.Sprintf("Truncated to offset %d from Fetch response after truncation at epoch %d", to, end.epoch))
	return nil
}

// appendFetched appends whole batches and makes them durable: the next fetch says that we have them.
func (q *Quorum) appendFetched(records []byte) error {
	end, epoch := q.disk.EndOffset(), q.disk.lastEpoch()
	start, size := end, 0
	var bad error
	err := eachBatch(records, func(b record.Batch) error {
		switch {
		case b.BaseOffset() != end:
			bad = fmt.Errorf("batch at offset %d, expected %d", b.BaseOffset(), end)
		case b.LeaderEpoch() < epoch || b.LeaderEpoch() > q.election.Epoch:
			bad = fmt.Errorf("batch at offset %d of epoch %d between epoch %d and %d", end, b.LeaderEpoch(), epoch, q.election.Epoch)
		default:
			bad = b.CheckCRC()
		}
		if bad == nil {
			end, epoch = b.NextOffset(), b.LeaderEpoch()
			size += len(b)
		}
		return bad
	})
	if size == 0 {
		return err
	}
	// What came before a bad batch is good.
	if err := q.disk.AppendAsFollower(records[:size]); err != nil {
		q.fault(fmt.Errorf("append to metadata log at offset %d: %w", start, err))
		return nil
	}
	if err := q.disk.Flush(); err != nil {
		q.fault(fmt.Errorf("sync metadata log: %w", err))
		return nil
	}
	if err := eachBatch(records[:size], q.noteControls); err != nil {
		q.fault(fmt.Errorf("control records of the metadata log behind offset %d: %w", start, err))
		return nil
	}
	q.votersChanged()
	return err
}

// followHighWatermark goes up to what the leader says, as far as we have it.
func (q *Quorum) followHighWatermark(hw int64) {
	if hw = min(hw, q.disk.EndOffset()); hw > q.highWatermark {
		if q.highWatermark < 0 {
			q.log.Info(fmt.Sprintf("High watermark set to %d for the first time for epoch %d", hw, q.election.Epoch))
		}
		q.highWatermark = hw
		q.onDeliver()
	}
}
