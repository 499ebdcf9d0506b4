package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// TestRandomHistories lets careless clients loose on a coordinator whose log hangs, refuses and changes hands. Whatever
// they do, each request has one answer in the end, a generation's members know one leader and one protocol, assignments
// are those of the leader, and a node that takes over has the offsets that were acknowledged and the groups that were.
func TestRandomHistories(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	marks := map[string]int{}
	for seed := range uint64(seeds) {
		h := &history{marks: marks, t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), w: newSeededWorld(seed), acked: map[string]int64{}, generations: map[string]string{}}
		h.side = &ourSide{w: h.w}
		for range 300 {
			h.step()
			h.w.clock.settle()
		}
		h.finish()
		if t.Failed() {
			return
		}
	}
	for _, m := range []string{"compared", "assigned", "acknowledged"} {
		if marks[m] < seeds {
			t.Errorf("too little happened: %v", marks)
		}
	}
	t.Log(marks)
}

type history struct {
	marks       map[string]int // that the interesting things happened at all
	t           *testing.T
	seed        uint64
	r           *rand.Rand
	w           *world
	side        *ourSide
	log         []string
	sent        int
	answered    int
	held        bool
	refused     bool
	everRefused bool
	clients     []randomClient
	commits     int64
	acked       map[string]int64 // group/partition → largest acknowledged offset; commits rise
	generations map[string]string
}

type randomClient struct {
	group, member string
	instance      *string
	generation    int32
	leader        bool
	members       []string
}

func (h *history) failf(format string, args ...any) {
	h.t.Errorf("seed %d: %s\nhistory:\n%s", h.seed, fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

func (h *history) call(what string, key, version int16, req protocol.Request, answer func(protocol.Response)) {
	h.log = append(h.log, what)
	h.sent++
	once := false
	h.side.send(key, version, req, func(resp protocol.Response) {
		if once {
			h.failf("two answers to %s", what)
		}
		once = true
		h.answered++
		answer(resp)
	})
}

func (h *history) step() {
	group := []string{"a", "b", "c"}[h.r.IntN(3)]
	var c *randomClient
	if len(h.clients) > 0 {
		newest := min(len(h.clients), 1+h.r.IntN(4))
		c = &h.clients[len(h.clients)-newest]
	}
	switch n := h.r.IntN(100); {
	case n < 22:
		h.join(group, c)
	case c == nil:
	case n < 42:
		h.sync(*c)
	case n < 55:
		req := protocol.NewHeartbeatRequest()
		req.GroupId, req.MemberId, req.GenerationId, req.GroupInstanceId = c.group, c.member, c.generation, c.instance
		h.call("heartbeat "+c.group+" "+c.member, protocol.KeyHeartbeat, 4, req, func(protocol.Response) {})
	case n < 72:
		h.commit(*c)
	case n < 76:
		req := protocol.NewLeaveGroupRequest()
		m := protocol.NewLeaveGroupRequestMemberIdentity()
		m.MemberId, m.GroupInstanceId = c.member, c.instance
		req.GroupId, req.Members = c.group, append(req.Members, m)
		h.call("leave "+c.group+" "+c.member, protocol.KeyLeaveGroup, 5, req, func(protocol.Response) {})
	case n < 79:
		h.held = !h.held
		for _, p := range []int32{0, 1} {
			if h.held {
				h.w.logs.Partition(p).Hold()
			} else {
				h.w.logs.Partition(p).Commit()
			}
		}
		h.log = append(h.log, fmt.Sprint("held ", h.held))
	case n < 81:
		h.refused = !h.refused
		h.everRefused = h.everRefused || h.refused
		h.log = append(h.log, fmt.Sprint("refused ", h.refused))
		for _, p := range []int32{0, 1} {
			h.w.logs.Partition(p).Refuse(map[bool]error{true: kerr.NotEnoughReplicas}[h.refused])
		}
	case n < 83:
		h.takeOver()
	default:
		d := time.Duration(h.r.IntN(3000)) * time.Millisecond
		h.log = append(h.log, "elapse "+d.String())
		h.w.clock.advance(d)
	}
}

func (h *history) join(group string, c *randomClient) {
	req := protocol.NewJoinGroupRequest()
	req.GroupId, req.ProtocolType = group, "consumer"
	req.SessionTimeoutMs, req.RebalanceTimeoutMs = int32(2000+h.r.IntN(8000)), int32(1000+h.r.IntN(5000))
	for _, p := range []string{"range", "sticky"}[h.r.IntN(2):] {
		req.Protocols = append(req.Protocols, protocol.JoinGroupRequestProtocol{Name: p, Metadata: subscription("t")})
	}
	req.Protocols = append(req.Protocols, protocol.JoinGroupRequestProtocol{Name: "common", Metadata: subscription("t+u")})
	if c != nil && h.r.IntN(2) == 0 {
		req.GroupId, req.MemberId, req.GroupInstanceId = c.group, c.member, c.instance
	} else if h.r.IntN(4) == 0 {
		id := fmt.Sprint("i", h.r.IntN(2))
		req.GroupInstanceId = &id
	}
	version := int16(5 + h.r.IntN(5))
	h.call(fmt.Sprintf("join %s %q %s", req.GroupId, req.MemberId, ptr(req.GroupInstanceId)), protocol.KeyJoinGroup, version, req, func(resp protocol.Response) {
		x := resp.(*protocol.JoinGroupResponse)
		if x.ErrorCode == kerr.MemberIdRequired.Code {
			h.clients = append(h.clients, randomClient{group: req.GroupId, member: x.MemberId})
			return
		}
		if x.ErrorCode != 0 {
			return
		}
		n := randomClient{group: req.GroupId, member: x.MemberId, instance: req.GroupInstanceId, generation: x.GenerationId, leader: len(x.Members) > 0 && !x.SkipAssignment}
		for _, m := range x.Members {
			n.members = append(n.members, m.MemberId)
		}
		h.clients = append(h.clients, n)
		if len(h.clients) > 12 {
			h.clients = h.clients[1:]
		}
		if req.GroupInstanceId == nil { // a static member that comes back may be told of an older leader
			h.same(fmt.Sprintf("protocol of %s generation %d", req.GroupId, x.GenerationId), ptr(x.ProtocolName))
		}
	})
}

// same checks that a fact of a generation is told in the same way to all; a coordinator that takes over may begin
// generations anew that were never stored.
func (h *history) same(fact, value string) {
	if old, ok := h.generations[fact]; ok && old != value {
		h.failf("%s is %s and %s", fact, old, value)
	}
	h.generations[fact] = value
}

func (h *history) sync(c randomClient) {
	req := protocol.NewSyncGroupRequest()
	req.GroupId, req.MemberId, req.GroupInstanceId, req.GenerationId = c.group, c.member, c.instance, c.generation
	if c.leader {
		for _, m := range c.members {
			req.Assignments = append(req.Assignments, protocol.SyncGroupRequestAssignment{MemberId: m, Assignment: fmt.Appendf(nil, "%s@%d", m, c.generation)})
		}
	}
	h.call(fmt.Sprintf("sync %s %s %d", c.group, c.member, c.generation), protocol.KeySyncGroup, 4, req, func(resp protocol.Response) {
		x := resp.(*protocol.SyncGroupResponse)
		if x.ErrorCode == 0 && len(x.Assignment) > 0 {
			h.marks["assigned"]++
		}
		if x.ErrorCode == 0 && len(x.Assignment) > 0 && c.instance == nil {
			if want := fmt.Sprintf("%s@%d", c.member, c.generation); string(x.Assignment) != want {
				h.failf("%s got the assignment %s", want, x.Assignment)
			}
		}
	})
}

func (h *history) commit(c randomClient) {
	h.commits++
	n := h.commits
	req := protocol.NewOffsetCommitRequest()
	req.GroupId, req.MemberId, req.GroupInstanceId, req.GenerationIdOrMemberEpoch = c.group, c.member, c.instance, c.generation
	if h.r.IntN(4) == 0 {
		req.GroupId, req.MemberId, req.GroupInstanceId, req.GenerationIdOrMemberEpoch = "s", "", nil, -1
	}
	topic := protocol.NewOffsetCommitRequestTopic()
	p := protocol.NewOffsetCommitRequestPartition()
	p.PartitionIndex, p.CommittedOffset, p.CommittedMetadata = int32(h.r.IntN(3)), n, new(string)
	topic.Name, topic.Partitions = "t", append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	where := fmt.Sprintf("%s/%d", req.GroupId, p.PartitionIndex)
	h.call(fmt.Sprintf("commit %s %d", where, n), protocol.KeyOffsetCommit, 9, req, func(resp protocol.Response) {
		if resp.(*protocol.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			h.acked[where] = max(h.acked[where], n)
			h.marks["acknowledged"]++
		}
	})
}

// takeOver elects another node, and compares what it has loaded with what the last one knew.
func (h *history) takeOver() {
	h.log = append(h.log, "take over")
	before := h.settled()
	h.w.svc.Close(func() {})
	h.w.clock.settle()
	if h.answered != h.sent {
		h.failf("%d requests, %d answers", h.sent, h.answered)
	}
	lost := false
	if h.r.IntN(2) == 0 {
		lost = h.w.logs.Partition(0).Lose()
		lost = h.w.logs.Partition(1).Lose() || lost
	}
	h.w.start()
	after := h.settled()
	for id, text := range before {
		if h.everRefused || lost {
			break // an empty generation, which nobody waits for, may be forgotten
		}
		h.marks["compared"]++
		if diff := cmp.Diff(text, after[id]); diff != "" {
			h.failf("group %s changed hands (-before +after):\n%s", id, diff)
		}
	}
	for _, p := range h.w.svc.runtime.Partitions() {
		h.w.svc.runtime.Do(p, "offsets", func(s *shard) {
			for where, n := range h.acked {
				id, part, _ := strings.Cut(where, "/")
				if h.w.svc.PartitionOf(id) != p {
					continue
				}
				if o, ok := s.offsets.committed[id].get("t", numbers(part)[0]); !ok || o.offset < n {
					h.failf("%s: acknowledged %d, now %d", where, n, o.offset)
				}
			}
		}, func(err error) { h.failf("%v", err) })
	}
	h.w.clock.settle()
	// Generations that were given out but not stored may come again, with other members.
	clear(h.generations)
	h.clients = nil
}

// settled is the groups that stand still, as text: those in a rebalance come back as they were before it.
func (h *history) settled() map[string]string {
	out := map[string]string{}
	for _, p := range h.w.svc.runtime.Partitions() {
		h.w.svc.runtime.Do(p, "state", func(s *shard) {
			all := s.dump()
			for _, g := range s.sorted() {
				if c, ok := g.(*classicGroup); ok && (c.state == empty || c.state == stable) {
					at := strings.Index("\n"+all, "\n"+c.id+" ")
					lines := strings.SplitAfter(all[at:], "\n")
					n := 1
					for n < len(lines) && strings.HasPrefix(lines[n], "  ") {
						n++
					}
					out[c.id] = strings.Join(lines[:n], "")
				}
			}
		}, func(error) {})
	}
	h.w.clock.settle()
	return out
}

func (h *history) finish() {
	h.w.svc.Close(func() {})
	h.w.clock.settle()
	if h.answered != h.sent {
		h.failf("%d requests, %d answers", h.sent, h.answered)
	}
	if h.w.clock.world.Step() {
		h.failf("something runs on after the end: %v", h.w.clock.world.LastEvents(1))
	}
}
