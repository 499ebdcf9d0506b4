package raft

import (
	"fmt"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// AddRaftVoter (key 80) and RemoveRaftVoter (key 81), KIP-853. v1 of AddRaftVoter: an answer before the commit.
// check → probe the new voter (add) → append the new voter set → committed → respond.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST (key,
// endpoints), REQUEST_TIMED_OUT (another change, or nothing is committed in this epoch yet), UNSUPPORTED_VERSION (kraft.version
// 0), REQUEST_TIMED_OUT (a voter set is not committed), then DUPLICATE_VOTER, of the probe REQUEST_TIMED_OUT and
// INVALID_REQUEST, REQUEST_TIMED_OUT (lagging); or VOTER_NOT_FOUND.

// voterChange is a voter on its way into the set or out of it. There is at most one: then any majority of the old set and any of
// the new one have a voter in common.
type voterChange struct {
	key       ReplicaKey
	endpoints []Endpoint
	offset    int64 // of the new voter set; -1: not appended yet
	early     bool  // the answer does not wait for the commit
	answer    func(code int16, message string)
}

// isCaughtUpWithin is how recently a replica must have fetched to become a voter.
const isCaughtUpWithin = time.Hour

type addVoterRequest struct {
	version int16
	req     *protocol.AddRaftVoterRequest
	respond func(*protocol.AddRaftVoterResponse)
}

func (addVoterRequest) event() string { return "add-voter" }

// AddRaftVoter makes an observer a voter. Any goroutine.
func (q *Quorum) AddRaftVoter(ctx *rpc.Context, req *protocol.AddRaftVoterRequest, respond func(*protocol.AddRaftVoterResponse)) {
	q.post(addVoterRequest{ctx.APIVersion, req, respond})
}

func addVoterResponse(code int16, message string) *protocol.AddRaftVoterResponse {
	r := protocol.NewAddRaftVoterResponse()
	r.ErrorCode = code
	switch {
	case code == 0:
		r.ErrorMessage = nil
	case message != "":
		r.ErrorMessage = &message
	}
	return r
}

type removeVoterRequest struct {
	req     *protocol.RemoveRaftVoterRequest
	respond func(*protocol.RemoveRaftVoterResponse)
}

func (removeVoterRequest) event() string { return "remove-voter" }

// RemoveRaftVoter makes a voter an observer. A leader may remove itself: it resigns when that is committed. Any goroutine.
func (q *Quorum) RemoveRaftVoter(_ *rpc.Context, req *protocol.RemoveRaftVoterRequest, respond func(*protocol.RemoveRaftVoterResponse)) {
	q.post(removeVoterRequest{req, respond})
}

func removeVoterResponse(code int16, message string) *protocol.RemoveRaftVoterResponse {
	r := protocol.NewRemoveRaftVoterResponse()
	r.ErrorCode = code
	switch {
	case code == 0:
		r.ErrorMessage = nil
	case message != "":
		r.ErrorMessage = &message
	}
	return r
}

// What Kafka says where an answer has no message of its own.
var defaultMessages = map[*kerr.Error]string{
	kerr.RequestTimedOut:     "The request timed out.",
	kerr.NotLeaderOrFollower: notLeaderMessage,
}

const notLeaderMessage = "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition."

// refusal is why a change is not made: an error with its message. The zero value refuses nothing.
type refusal struct {
	err     *kerr.Error
	message string
}

func refuse(err *kerr.Error, format string, args ...any) refusal {
	return refusal{err, fmt.Sprintf(format, args...)}
}

func (q *Quorum) wrongCluster(id *string) refusal {
	return refuse(kerr.InconsistentClusterId, `The given id "%s" doesn't match the cluster id "%s"`, *id, q.cfg.ClusterID)
}

func (q *Quorum) onAddVoterRequest(ev addVoterRequest) {
	respond := func(code int16, message string) { ev.respond(addVoterResponse(code, message)) }
	if !q.sameCluster(ev.req.ClusterId) {
		no := q.wrongCluster(ev.req.ClusterId)
		respond(no.err.Code, no.message)
		return
	}
	if code := q.checkLeaderRequest(q.election.Epoch); code != 0 {
		respond(code, "")
		return
	}
	l := q.state.(*leader)
	c := &voterChange{
		key: ReplicaKey{ev.req.VoterId, ev.req.VoterDirectoryId}, offset: -1, answer: respond, early: ev.version >= 1 && !ev.req.AckWhenCommitted,
	}
	for _, e := range ev.req.Listeners {
		c.endpoints = append(c.endpoints, Endpoint{strings.ToUpper(e.Name), e.Host, e.Port})
	}
	if no := q.checkAdd(l, c); no.err != nil {
		respond(no.err.Code, no.message)
		return
	}
	to, _ := q.destination(c.key.ID, c.endpoints)
	q.beginChange(l, c)
	q.probe(to, c)
}

// checkAdd looks at what can be known before the new voter is asked.
func (q *Quorum) checkAdd(l *leader, c *voterChange) refusal {
	if c.key.ID < 0 || c.key.DirectoryID == uuid.Zero {
		return refuse(kerr.InvalidRequest, "Add voter request didn't include a valid voter")
	}
	if !hasListener(c.endpoints, q.cfg.ListenerName) {
		return refuse(kerr.InvalidRequest, "Add voter request didn't include the endpoint (%s) for the default listener ListenerName(%s)",
			endpointsText(c.endpoints), q.cfg.ListenerName)
	}
	if no := q.checkChange(l, "adding"); no.err != nil {
		return no
	}
	if voters := q.voters(); voters.Get(c.key.ID) != nil {
		return refuse(kerr.DuplicateVoter, "The voter id for %s is already part of the set of voters %s.", c.key, voters.keysText())
	}
	return refusal{}
}

// checkChange is what every change of the voter set needs: none before it that may still be undone.
func (q *Quorum) checkChange(l *leader, doing string) refusal {
	level, _, at, inLog := q.history.current()
	switch {
	case l.change != nil:
		return refuse(kerr.RequestTimedOut, "Request timed out waiting for leader to handle previous voter change request")
	case !l.established:
		return refuse(kerr.RequestTimedOut, "Request timed out waiting for leader to establish HWM and fence previous voter changes")
	case level < 1:
		return refuse(kerr.UnsupportedVersion, "Cluster doesn't support %s voter because the %s feature is %d", doing, metadata.FeatureKRaft, level)
	case !inLog:
		return refuse(kerr.RequestTimedOut, "Request timed out waiting for voters to commit the latest voter change at Optional.empty with HWM %d", q.highWatermark)
	case at >= q.highWatermark:
		return refuse(kerr.RequestTimedOut, "Request timed out waiting for voters to commit the latest voter change at Optional[%d] with HWM %d", at, q.highWatermark)
	}
	return refusal{}
}

func hasListener(endpoints []Endpoint, name string) bool {
	v := Voter{Endpoints: endpoints}
	_, ok := v.endpoint(name)
	return ok
}

func (q *Quorum) beginChange(l *leader, c *voterChange) {
	l.change = c
	q.after(q.cfg.RequestTimeout, changeExpired{q.generation, c})
}

type changeExpired struct {
	generation uint64
	change     *voterChange
}

func (changeExpired) event() string { return "change-expired" }

// onChangeExpired gives up waiting. What was appended may still be committed.
func (q *Quorum) onChangeExpired(ev changeExpired) {
	if l, ok := q.state.(*leader); ok && ev.generation == q.generation && l.change == ev.change {
		q.endChange(l, kerr.RequestTimedOut, "")
	}
}

// endChange answers whoever asked for the change under way, if there is one. No error: it is committed.
func (q *Quorum) endChange(l *leader, err *kerr.Error, message string) {
	c := l.change
	if c == nil {
		return
	}
	l.change = nil
	if c.answer == nil {
		return // has its answer
	}
	if err == nil {
		c.answer(0, "")
		return
	}
	if message == "" {
		message = defaultMessages[err]
	}
	c.answer(err.Code, message)
}

// abandonChange answers whoever waits when nothing goes on any more.
func (q *Quorum) abandonChange() {
	if l, ok := q.state.(*leader); ok {
		q.endChange(l, kerr.NotLeaderOrFollower, "")
	}
}

// probe asks the new voter, where it will be asked for votes, what it supports.
func (q *Quorum) probe(to destination, c *voterChange) {
	req := protocol.NewApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "ottla", "4.4.0"
	req.ClusterId, req.NodeId = &q.cfg.ClusterID, to.id
	generation := q.generation
	q.send(to, req, 5, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.ApiVersionsResponse)
		return probeResponse{generation, c, r, err}
	})
}

type probeResponse struct {
	generation uint64
	change     *voterChange
	resp       *protocol.ApiVersionsResponse
	err        error
}

func (probeResponse) event() string { return "probe-response" }

// onProbeResponse appends the new voter set, if the new voter can be one.
func (q *Quorum) onProbeResponse(ev probeResponse) {
	l, ok := q.state.(*leader)
	if !ok || ev.generation != q.generation || l.change != ev.change {
		return // given up
	}
	v := Voter{Key: ev.change.key, Endpoints: ev.change.endpoints}
	if no := q.checkProbe(l, ev, &v); no.err != nil {
		q.log.Info(fmt.Sprintf("Aborting add voter operation for %s at %s: %s", v.Key, endpointsText(v.Endpoints), no.message))
		q.endChange(l, no.err, no.message)
		return
	}
	if !q.appendVoters(l, ev.change, NewVoterSet(append(q.voters().others(v.Key.ID), v)...)) {
		return
	}
	if c := ev.change; c.early && c.answer != nil {
		c.answer(0, "")
		c.answer = nil
	}
}

func (q *Quorum) checkProbe(l *leader, ev probeResponse, v *Voter) refusal {
	name := ""
	switch {
	case ev.err != nil || ev.resp == nil:
		name = kerr.BrokerNotAvailable.Name
	case ev.resp.ErrorCode != 0:
		name = kerr.Name(ev.resp.ErrorCode)
	}
	if name != "" {
		return refuse(kerr.RequestTimedOut, "Aborted add voter operation for since API_VERSIONS returned an error %s", name)
	}
	level, _, _, _ := q.history.current()
	found, text := false, "(min: 0, max: 0)"
	for _, f := range ev.resp.SupportedFeatures {
		if f.Name == metadata.FeatureKRaft {
			v.MinKRaft, v.MaxKRaft, found = f.MinVersion, f.MaxVersion, true
			text = fmt.Sprintf("(min: %d, max: %d", f.MinVersion, f.MaxVersion)
		}
	}
	if !found || level < v.MinKRaft || level > v.MaxKRaft {
		return refuse(kerr.InvalidRequest, "Aborted add voter operation for %s since the %s range %s doesn't support the finalized version %d",
			v.Key, metadata.FeatureKRaft, text, level)
	}
	if !q.isCaughtUp(l, v.Key) {
		return refuse(kerr.RequestTimedOut, "Aborted add voter operation for %s since it is lagging behind", v.Key)
	}
	return refusal{}
}

// isCaughtUp: a replica that has once had everything and still fetches. As a voter it does not hold up the high watermark for long.
func (q *Quorum) isCaughtUp(l *leader, k ReplicaKey) bool {
	r := l.observers[k]
	return r != nil && r.lastCaughtUp > 0 && r.lastFetch > q.env.Now().Add(-isCaughtUpWithin).UnixMilli()
}

// appendVoters writes a voter set, which is in force from then on, and reports whether it could. change, if there is one, waits for
// its commit.
func (q *Quorum) appendVoters(l *leader, change *voterChange, set *VoterSet) bool {
	last, err := q.prepare.prepareControl(q.election.Epoch, q.env.Now().UnixMilli(), set.record())
	if err != nil {
		panic(fmt.Sprintf("raft: append voters as leader of epoch %d: %v", q.election.Epoch, err))
	}
	if change != nil {
		change.offset = last
	}
	q.onAppendScheduled()
	return !q.failed && q.state == l
}

func (q *Quorum) onRemoveVoterRequest(ev removeVoterRequest) {
	respond := func(code int16, message string) { ev.respond(removeVoterResponse(code, message)) }
	if !q.sameCluster(ev.req.ClusterId) {
		no := q.wrongCluster(ev.req.ClusterId)
		respond(no.err.Code, no.message)
		return
	}
	if code := q.checkLeaderRequest(q.election.Epoch); code != 0 {
		respond(code, "")
		return
	}
	l := q.state.(*leader)
	c := &voterChange{key: ReplicaKey{ev.req.VoterId, ev.req.VoterDirectoryId}, offset: -1, answer: respond}
	if no := q.checkRemove(l, c.key); no.err != nil {
		respond(no.err.Code, no.message)
		return
	}
	q.beginChange(l, c)
	q.appendVoters(l, c, NewVoterSet(q.voters().others(c.key.ID)...))
}

func (q *Quorum) checkRemove(l *leader, k ReplicaKey) refusal {
	if k.ID < 0 || k.DirectoryID == uuid.Zero {
		return refuse(kerr.InvalidRequest, "Remove voter request didn't include a valid voter")
	}
	if no := q.checkChange(l, "removing"); no.err != nil {
		return no
	}
	voters := q.voters()
	if v := voters.Get(k.ID); v == nil || v.Key != k || voters.Len() == 1 {
		return refuse(kerr.VoterNotFound, "Cannot remove voter %s from the set of voters %s", k, voters.keysText())
	}
	return refusal{}
}

// changeCommitted answers whoever asked for the change that is committed now. A leader that is no voter any more has led until
// here, so that its removal could be committed, and resigns.
func (q *Quorum) changeCommitted(l *leader) {
	if c := l.change; c != nil && c.offset >= 0 && q.highWatermark > c.offset {
		q.endChange(l, nil, "")
	}
	_, voters, at, inLog := q.history.current()
	if inLog && q.highWatermark > at && !voters.Contains(q.cfg.key()) && !l.leaving {
		l.leaving = true
		q.log.Info(fmt.Sprintf("Leader is not in the committed voter set %s resign from epoch %d", voters.keysText(), q.election.Epoch))
		q.post(resign{q.election.Epoch})
	}
}

// votersChanged takes up that another voter set is in force.
func (q *Quorum) votersChanged() {
	switch s := q.state.(type) {
	case *leader:
		q.updateReplicas(s)
	case *follower:
		q.followAsVoter(s, q.cfg.FetchTimeout)
	case *unattached, *prospective, *candidate, *resigned:
	}
}

// updateReplicas sorts the replicas into voters and observers anew. What is known of their logs stays.
func (q *Quorum) updateReplicas(l *leader) {
	old := l.replicas
	l.replicas = nil
	for _, v := range q.voters().All() {
		r := &replica{key: v.Key, end: -1, lastFetch: -1, lastCaughtUp: -1, fetchedAt: q.env.Monotonic()}
		for i, o := range old {
			if o != nil && o.key.ID == v.Key.ID && (o.key.DirectoryID == uuid.Zero || o.key == v.Key) {
				r, old[i] = o, nil
				r.key = v.Key // its directory may not have been known
			}
		}
		if o := l.observers[v.Key]; o != nil {
			r = o
			delete(l.observers, v.Key)
		}
		l.replicas = append(l.replicas, r)
	}
	for _, o := range old {
		if o != nil {
			l.observers[o.key] = o
			delete(l.fetched, o.key.ID)
		}
	}
	q.watchVoters(l)
}
