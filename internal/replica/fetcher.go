package replica

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// fetcher copies partitions from one leader: one request under way at a time, in a session that names only what changed (KIP-227). A core.
type fetcher struct {
	m        *Manager
	id       fetcherID
	queue    env.Queue
	assigned int // of Manager.Apply, not of the core

	client *rpc.Client
	parts  []*followed // by topic and index
	byID   map[partitionID]*followed
	busy   bool
	closed bool
	timer  env.Timer // set while there is nothing to fetch before it

	session      int32
	sessionEpoch int32
	gone         []*followed // left the fetcher, but not its session
}

// partitionID names a partition in answers.
type partitionID struct {
	topic uuid.UUID
	index int32
}

// followed is a partition that a fetcher copies.
type followed struct {
	p      *Partition
	epoch  int32 // of the leader
	at     position
	until  time.Duration // not before: an error came
	outOf  bool          // the leader does not have its offset
	gone   bool
	inside bool // the session has it,
	sent   sent // like this
}

// sent is what a session knows of a partition, and so what an answer is about.
type sent struct {
	epoch int32
	at    position
}

func newFetcher(m *Manager, id fetcherID) *fetcher {
	return &fetcher{m: m, id: id, queue: m.env.NewQueue(id.String()), byID: map[partitionID]*followed{}}
}

// follow begins to copy a partition, or goes on in a new leader epoch. Any goroutine.
func (f *fetcher) follow(p *Partition, epoch int32) {
	f.queue.Post("follow", func() {
		i, found := f.find(p)
		if !found {
			x := &followed{p: p, epoch: -1}
			f.parts = slices.Insert(f.parts, i, x)
			f.byID[partitionID{p.ID, p.Index}] = x
		}
		if x := f.parts[i]; x.epoch != epoch {
			x.epoch, x.until, x.outOf = epoch, 0, false
			f.place(x)
		}
		f.next()
	})
}

// leave ends the copying of a partition. Any goroutine.
func (f *fetcher) leave(p *Partition) {
	f.queue.Post("leave", func() {
		if i, found := f.find(p); found {
			x := f.parts[i]
			x.gone = true
			if x.inside {
				f.gone = append(f.gone, x)
			}
			f.parts = slices.Delete(f.parts, i, i+1)
			delete(f.byID, partitionID{p.ID, p.Index})
		}
	})
}

func (f *fetcher) close() {
	f.queue.Post("close", func() {
		f.closed = true
		if f.client != nil {
			f.client.Close()
		}
		f.queue.Close(nil)
	})
}

func (f *fetcher) find(p *Partition) (int, bool) {
	i, found := slices.BinarySearchFunc(f.parts, p, func(x *followed, p *Partition) int {
		return cmp.Or(strings.Compare(x.p.Topic, p.Topic), cmp.Compare(x.p.Index, p.Index), x.p.ID.Compare(p.ID))
	})
	return i, found && f.parts[i].p == p
}

// place looks where the log ends. A partition that does not follow any more waits to be told.
func (f *fetcher) place(x *followed) {
	at, err := x.p.position(x.epoch)
	if err != nil {
		f.failed(x, err)
		return
	}
	x.at = at
}

// failed lets a partition rest. One whose log directory has failed does not come back.
func (f *fetcher) failed(x *followed, err error) {
	if x.p.Log() == nil {
		f.leave(x.p)
	}
	x.until = f.m.env.Monotonic() + f.m.cfg.Fetch.Backoff
	if !errors.Is(err, errNotFollowing) {
		f.m.env.Logger().Error(fmt.Sprintf("Error for partition %s at offset %d", x.p.Name(), x.at.offset), "leader", f.id.leader, "err", err)
	}
}

// next sends the next request, if it is time.
func (f *fetcher) next() {
	if f.busy || f.closed {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	now := f.m.env.Monotonic()
	soonest := time.Duration(-1)
	var ready, lost []*followed
	for _, x := range f.parts {
		switch {
		case x.until > now:
			if soonest < 0 || x.until < soonest {
				soonest = x.until
			}
		case x.outOf:
			lost = append(lost, x)
		default:
			ready = append(ready, x)
		}
	}
	switch {
	case len(lost) > 0 && f.connected(lost):
		f.ask(lost)
	case len(ready) > 0 && f.connected(ready):
		f.fetch(ready)
	case soonest >= 0 || len(ready)+len(lost) > 0:
		if soonest < 0 {
			soonest = now + f.m.cfg.Fetch.Backoff
		}
		f.timer = f.queue.After(soonest-now, "back-off", func() { f.timer = nil; f.next() })
	}
}

// connected makes sure that there is a client for where the leader listens now. Without any the partitions rest.
func (f *fetcher) connected(parts []*followed) bool {
	addr := f.m.address(f.id.leader)
	if f.client != nil && f.client.Addr() != addr {
		f.client.Close()
		f.client = nil
		f.endSession()
	}
	if f.client == nil && addr != "" {
		f.client = rpc.NewClient(f.m.env, addr, fmt.Sprintf("broker-%d-%s", f.m.cfg.NodeID, f.id))
	}
	if f.client == nil {
		for _, x := range parts {
			x.until = f.m.env.Monotonic() + f.m.cfg.Fetch.Backoff
		}
	}
	return f.client != nil
}

func (f *fetcher) endSession() {
	f.session, f.sessionEpoch, f.gone = 0, initialSessionEpoch, nil
	for _, x := range f.parts {
		x.inside = false
	}
}

// fetch sends a Fetch for what is ready. Whatever else the session has leaves it.
func (f *fetcher) fetch(ready []*followed) {
	version := f.m.img.Load().Features.MetadataVersion().FetchVersion()
	req := f.request(ready, version)
	f.busy = true
	f.client.Send(req, version, f.m.cfg.Fetch.Timeout+f.m.cfg.Fetch.MaxWait, func(resp protocol.Response, err error) {
		f.queue.Post("fetched", func() {
			f.busy = false
			if f.closed {
				return
			}
			r, _ := resp.(*protocol.FetchResponse)
			f.fetched(ready, r, err)
			f.next()
		})
	})
}

// request names what of the ready partitions the session does not know yet, or knows differently.
func (f *fetcher) request(ready []*followed, version int16) *protocol.FetchRequest {
	c := &f.m.cfg.Fetch
	req := protocol.NewFetchRequest()
	if version < 15 {
		req.ReplicaId = f.m.cfg.NodeID
	} else {
		req.ReplicaState.ReplicaId, req.ReplicaState.ReplicaEpoch = f.m.cfg.NodeID, f.m.peers.BrokerEpoch()
	}
	req.MaxWaitMs, req.MinBytes, req.MaxBytes = int32(c.MaxWait.Milliseconds()), int32(c.MinBytes), int32(c.MaxBytes)
	req.SessionId, req.SessionEpoch = f.session, f.sessionEpoch
	for _, x := range f.parts {
		if x.inside && (x.until > 0 || x.outOf) {
			f.gone = append(f.gone, x)
		}
	}
	for _, x := range ready {
		x.until = 0
		now := sent{x.epoch, x.at}
		if x.inside && x.sent == now {
			continue
		}
		x.inside, x.sent = true, now
		p := protocol.NewFetchRequestFetchPartition()
		p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = x.p.Index, x.epoch, x.at.offset, x.at.epoch
		p.LogStartOffset, p.PartitionMaxBytes = x.at.logStart, int32(c.PartitionBytes)
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicId != x.p.ID {
			req.Topics = append(req.Topics, protocol.FetchRequestFetchTopic{Topic: x.p.Topic, TopicId: x.p.ID})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	if f.sessionEpoch != initialSessionEpoch {
		req.ForgottenTopicsData = f.forgotten()
	}
	f.gone = nil
	return req
}

func (f *fetcher) forgotten() (list []protocol.FetchRequestForgottenTopic) {
	for _, x := range f.gone {
		if !x.gone && x.until == 0 && !x.outOf {
			continue // it is asked for again
		}
		x.inside = false
		if n := len(list); n == 0 || list[n-1].TopicId != x.p.ID {
			list = append(list, protocol.FetchRequestForgottenTopic{Topic: x.p.Topic, TopicId: x.p.ID})
		}
		t := &list[len(list)-1]
		t.Partitions = append(t.Partitions, x.p.Index)
	}
	return list
}

// fetched takes the answer to a request that ready took part in.
func (f *fetcher) fetched(ready []*followed, resp *protocol.FetchResponse, err error) {
	if err == nil {
		err = kerr.FromCode(resp.ErrorCode)
	}
	if err != nil {
		f.lost(ready, err)
		return
	}
	f.session = resp.SessionId
	if f.sessionEpoch = nextSessionEpoch(f.sessionEpoch); f.session == 0 {
		f.endSession()
	}
	for i := range resp.Responses {
		t := &resp.Responses[i]
		for j := range t.Partitions {
			d := &t.Partitions[j]
			// What left, or has a new leader epoch since it was asked for, is not looked at.
			if x := f.byID[partitionID{t.TopicId, d.PartitionIndex}]; x != nil && x.epoch == x.sent.epoch {
				f.got(x, d)
			}
		}
	}
}

// lost lets all partitions rest after an error of the whole request. An answer that the session is not known needs no rest.
func (f *fetcher) lost(ready []*followed, err error) {
	f.endSession()
	for _, k := range []error{kerr.FetchSessionIdNotFound, kerr.InvalidFetchSessionEpoch, kerr.FetchSessionTopicIdError} {
		if errors.Is(err, k) {
			return
		}
	}
	f.m.env.Logger().Warn("Error in response for fetch request", "leader", f.id.leader, "fetcher", f.id.shard, "err", err)
	for _, x := range ready {
		x.until = f.m.env.Monotonic() + f.m.cfg.Fetch.Backoff
	}
}

// got takes the answer for one partition.
func (f *fetcher) got(x *followed, d *protocol.FetchResponsePartitionData) {
	err := kerr.FromCode(d.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		x.outOf = true
		return
	case notYetKnown(err):
		f.m.env.Logger().Debug(fmt.Sprintf("Leader %d answered %s for partition %s", f.id.leader, err, x.p.Name()))
		err = errNotFollowing
	case err == nil && d.DivergingEpoch.EndOffset >= 0:
		err = x.p.diverged(x.epoch, d.DivergingEpoch.Epoch, d.DivergingEpoch.EndOffset)
	case err == nil:
		err = x.p.take(x.epoch, x.sent.at.offset, d)
	}
	if err != nil {
		f.failed(x, err)
		return
	}
	f.place(x)
}

// notYetKnown: here or at the leader metadata is on its way.
func notYetKnown(err error) bool {
	for _, k := range []error{
		kerr.NotLeaderOrFollower, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownTopicId, kerr.UnknownTopicOrPartition, kerr.InconsistentTopicId,
	} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}
