package group

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// consumerProtocolType is the protocol type of consumers; others (connect, say) the coordinator cannot read.
const consumerProtocolType = "consumer"

// groupState is where a classic group is in its cycle.
type groupState int8

const (
	empty               groupState = iota // no members; it may have offsets
	preparingRebalance                    // members are asked to join
	completingRebalance                   // all have joined; the leader's assignment is awaited
	stable
	dead // unloaded
)

var groupStateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

func (s groupState) String() string { return groupStateNames[s] }

// mayBecome holds the transitions that exist: mayBecome[to] lists from.
var mayBecome = [...][]groupState{
	empty:               {preparingRebalance},
	preparingRebalance:  {stable, completingRebalance, empty},
	completingRebalance: {preparingRebalance},
	stable:              {completingRebalance},
	dead:                {stable, preparingRebalance, completingRebalance, empty, dead},
}

// candidate is one way of assigning partitions that a member offers, with what it tells the leader for it.
type candidate struct {
	name     string
	metadata []byte
}

// member is one member of a classic group.
type member struct {
	id                 string
	instanceID         *string // of a static member
	clientID           string
	clientHost         string
	rebalanceTimeoutMs int32
	sessionTimeoutMs   int32
	protocolType       string
	candidates         []candidate // in the member's order of preference
	assignment         []byte

	isNew     bool // has not had an answer to its first JoinGroup
	awaitJoin func(*protocol.JoinGroupResponse)
	awaitSync func(*protocol.SyncGroupResponse)
	heartbeat *coordinator.Timer
}

// metadata is what the member says under a protocol; nil if it does not offer it.
func (m *member) metadata(name string) []byte {
	for _, c := range m.candidates {
		if c.name == name {
			return c.metadata
		}
	}
	return nil
}

// heartbeatSatisfied says whether a member that waits for the coordinator is excused from heartbeats. A new one is
// not: its JoinGroup may be one of many that a client has given up.
func (m *member) heartbeatSatisfied() bool {
	return !m.isNew && (m.awaitJoin != nil || m.awaitSync != nil)
}

func (m *member) matches(candidates []candidate) bool {
	return slices.EqualFunc(m.candidates, candidates, func(a, b candidate) bool {
		return a.name == b.name && string(a.metadata) == string(b.metadata)
	})
}

// classicGroup is a group of the classic protocol. A group without protocol type and members is a simple one: it was
// made by a commit without a generation and holds offsets only.
type classicGroup struct {
	id     string
	logger *slog.Logger

	state, previous groupState
	stateTimeMs     int64 // when state was entered; -1 unknown (old records)

	protocolType *string
	protocol     *string // nil before the first generation
	generation   int32
	leader       *string // a member's id

	members []*member          // in the order in which they came: what is sent out has this order
	byID    map[string]*member // the same members
	static  map[string]string  // instance id → member id

	pendingJoin  map[string]*coordinator.Timer // ids that were handed out and not used yet (KIP-394)
	pendingSync  map[string]struct{}           // members of this generation that have not sent SyncGroup
	awaitingJoin int                           // members with awaitJoin != nil
	offers       map[string]int                // protocol → how many members offer it

	// subscribed is the topics that consumers read; nil when they cannot be told.
	subscribed map[string]struct{}

	newMemberAdded bool // during the initial rebalance delay, which then may be extended
	joinTimer      *coordinator.Timer
	syncTimer      *coordinator.Timer
}

func newClassicGroup(id string, logger *slog.Logger) *classicGroup {
	return &classicGroup{
		id: id, logger: logger.With("group", id), stateTimeMs: -1,
		byID: make(map[string]*member), static: make(map[string]string),
		pendingJoin: make(map[string]*coordinator.Timer), pendingSync: make(map[string]struct{}),
		offers: make(map[string]int),
	}
}

func (g *classicGroup) groupID() string      { return g.id }
func (g *classicGroup) groupType() groupType { return classicType }
func (g *classicGroup) stateName() string    { return g.state.String() }
func (g *classicGroup) isEmpty() bool        { return g.state == empty }

func (g *classicGroup) usesConsumerProtocol() bool {
	return g.protocolType != nil && *g.protocolType == consumerProtocolType
}

func (g *classicGroup) isLeader(memberID string) bool {
	return g.leader != nil && *g.leader == memberID
}

func (g *classicGroup) allJoined() bool {
	return len(g.members) == g.awaitingJoin && len(g.pendingJoin) == 0
}

// canRebalance says whether a new rebalance may begin.
func (g *classicGroup) canRebalance() bool {
	return slices.Contains(mayBecome[preparingRebalance], g.state)
}

// rebalanceTimeoutMs is the longest that any member asks for.
func (g *classicGroup) rebalanceTimeoutMs() int32 {
	var longest int32
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeoutMs)
	}
	return longest
}

func (g *classicGroup) transition(to groupState, nowMs int64) {
	if !slices.Contains(mayBecome[to], g.state) {
		panic(fmt.Sprintf("group %s cannot become %s from %s", g.id, to, g.state))
	}
	g.previous, g.state, g.stateTimeMs = g.state, to, nowMs
}

// add takes a member in. It must support what the group uses (supports).
func (g *classicGroup) add(m *member, join func(*protocol.JoinGroupResponse)) {
	if m.instanceID != nil {
		g.static[*m.instanceID] = m.id
	}
	if len(g.members) == 0 {
		g.protocolType = &m.protocolType
	}
	if g.leader == nil {
		g.leader = &m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	g.count(m, 1)
	g.setAwaitJoin(m, join)
	g.forgetPending(m.id)
}

// remove takes a member or a pending one out. Whoever waits for an answer must have had it.
func (g *classicGroup) remove(memberID string) {
	if m, ok := g.byID[memberID]; ok {
		delete(g.byID, memberID)
		g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
		g.count(m, -1)
		g.setAwaitJoin(m, nil)
		m.heartbeat.Stop()
		if m.instanceID != nil {
			delete(g.static, *m.instanceID)
		}
	}
	if g.isLeader(memberID) {
		g.leader = nil
		if len(g.members) > 0 {
			g.leader = &g.members[0].id
		}
	}
	g.forgetPending(memberID)
	delete(g.pendingSync, memberID)
}

func (g *classicGroup) forgetPending(memberID string) {
	if t, ok := g.pendingJoin[memberID]; ok {
		t.Stop()
		delete(g.pendingJoin, memberID)
	}
}

func (g *classicGroup) count(m *member, n int) {
	for _, c := range m.candidates {
		g.offers[c.name] += n
		if g.offers[c.name] == 0 {
			delete(g.offers, c.name)
		}
	}
}

func (g *classicGroup) setAwaitJoin(m *member, join func(*protocol.JoinGroupResponse)) {
	if m.awaitJoin != nil {
		g.awaitingJoin--
	}
	m.awaitJoin = join
	if join != nil {
		g.awaitingJoin++
	}
}

// update replaces what a member says of itself with its new JoinGroup. An older JoinGroup that still waits is told to
// come again: Kafka leaves it without an answer for ever, which would hold its connection.
func (g *classicGroup) update(m *member, candidates []candidate, rebalanceTimeoutMs, sessionTimeoutMs int32, join func(*protocol.JoinGroupResponse)) {
	g.count(m, -1)
	m.candidates = candidates
	g.count(m, 1)
	m.rebalanceTimeoutMs, m.sessionTimeoutMs = rebalanceTimeoutMs, sessionTimeoutMs
	if m.awaitJoin != nil && join != nil {
		g.answerJoin(m, joinError(m.id, kerr.RebalanceInProgress))
	}
	g.setAwaitJoin(m, join)
}

// answerJoin answers a waiting JoinGroup, if there is one.
func (g *classicGroup) answerJoin(m *member, resp *protocol.JoinGroupResponse) bool {
	join := m.awaitJoin
	if join == nil {
		return false
	}
	g.setAwaitJoin(m, nil)
	join(resp)
	return true
}

// answerSync answers a waiting SyncGroup, if there is one.
func (g *classicGroup) answerSync(m *member, resp *protocol.SyncGroupResponse) bool {
	sync := m.awaitSync
	if sync == nil {
		return false
	}
	m.awaitSync = nil
	sync(resp)
	return true
}

// replaceStatic gives a static member's place to a new member id. Whoever waits under the old id is fenced.
func (g *classicGroup) replaceStatic(instanceID, oldID, newID string, newMember func(*member) *member) *member {
	old := g.byID[oldID]
	g.answerJoin(old, joinError(oldID, kerr.FencedInstanceId))
	g.answerSync(old, syncError(kerr.FencedInstanceId))
	old.heartbeat.Stop()

	m := newMember(old)
	m.id = newID
	at := slices.Index(g.members, old)
	g.members[at] = m
	delete(g.byID, oldID)
	g.byID[newID] = m
	if g.isLeader(oldID) {
		g.leader = &m.id
	}
	g.static[instanceID] = newID
	return m
}

// electJoinedLeader sees to it that the leader is one who has joined; false if nobody has.
func (g *classicGroup) electJoinedLeader() bool {
	if g.leader == nil {
		return false
	}
	current := g.byID[*g.leader]
	if current.awaitJoin != nil {
		return true
	}
	for _, m := range g.members {
		if m.awaitJoin != nil {
			g.leader = &m.id
			g.logger.Info("Group leader failed to join before the rebalance timeout, another member was elected",
				"leader", current.id, "instanceId", deref(current.instanceID, "None"), "elected", m.id)
			return true
		}
	}
	g.logger.Info("Group leader failed to join before the rebalance timeout and the group couldn't proceed to the "+
		"next generation because no member joined", "leader", current.id, "instanceId", deref(current.instanceID, "None"))
	return false
}

// nextGeneration begins a generation with those who have joined.
func (g *classicGroup) nextGeneration(nowMs int64) {
	g.generation++
	if len(g.members) > 0 {
		name := g.selectProtocol()
		g.protocol = &name
		g.subscribed = g.subscriptions()
		g.transition(completingRebalance, nowMs)
	} else {
		g.protocol = nil
		g.subscribed = g.subscriptions()
		g.transition(empty, nowMs)
	}
	clear(g.pendingSync)
}

// selectProtocol is the vote: each member for the first of its protocols that all offer. Between equals Kafka takes
// the first in the order of a Java HashMap, and so do we: the choice then does not depend on whose coordinator it is.
func (g *classicGroup) selectProtocol() string {
	votes := make(map[string]int)
	for _, m := range g.members {
		for _, c := range m.candidates {
			if g.offers[c.name] == len(g.members) {
				votes[c.name]++
				break
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		if d := javaBucket(a) - javaBucket(b); d != 0 {
			return int(d)
		}
		return 0
	})
	best := names[0]
	for _, name := range names[1:] {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// javaBucket is the bucket of a key in a small java.util.HashMap.
func javaBucket(s string) int32 {
	h := uint32(javaHash(s))
	return int32((h ^ h>>16) & 15)
}

// supports says whether one who offers this can be a member.
func (g *classicGroup) supports(protocolType string, candidates []candidate) bool {
	if g.state == empty {
		return protocolType != "" && len(candidates) > 0
	}
	if g.protocolType == nil || *g.protocolType != protocolType {
		return false
	}
	return slices.ContainsFunc(candidates, func(c candidate) bool { return g.offers[c.name] == len(g.members) })
}

// validate checks that a request comes from a member.
func (g *classicGroup) validate(memberID string, instanceID *string, operation string) error {
	if instanceID != nil {
		existing, ok := g.static[*instanceID]
		switch {
		case !ok:
			return kerr.UnknownMemberId
		case existing != memberID:
			g.logger.Info("Request for static member is fenced by the existing member", "memberId", memberID,
				"instanceId", *instanceID, "existing", existing, "operation", operation)
			return kerr.FencedInstanceId
		}
	}
	if _, ok := g.byID[memberID]; !ok {
		return kerr.UnknownMemberId
	}
	return nil
}

// memberData is what the leader gets of all members.
func (g *classicGroup) memberData() []protocol.JoinGroupResponseMember {
	all := make([]protocol.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.members {
		d := protocol.NewJoinGroupResponseMember()
		d.MemberId, d.GroupInstanceId, d.Metadata = m.id, m.instanceID, m.metadata(deref(g.protocol, ""))
		all = append(all, d)
	}
	return all
}

// subscriptions reads the topics out of the members' metadata. nil: this is not a group of consumers, or one member's
// metadata cannot be read.
func (g *classicGroup) subscriptions() map[string]struct{} {
	if !g.usesConsumerProtocol() {
		return nil
	}
	topics := make(map[string]struct{})
	if len(g.members) > 0 && g.protocol == nil {
		return nil
	}
	for _, m := range g.members {
		// All versions begin as version 0 does: int16 version, then the topics.
		d := wire.NewDecoder(m.metadata(*g.protocol))
		d.Int16()
		var s protocol.ConsumerProtocolSubscription
		if d.Failed() || s.Decode(d, 0) != nil {
			g.logger.Warn("Failed to parse the consumer protocol, the coordinator is not aware of the subscribed topics",
				"protocol", *g.protocol, "memberId", m.id)
			return nil
		}
		for _, t := range s.Topics {
			topics[t] = struct{}{}
		}
	}
	return topics
}

// subscribedTo says whether offsets of a topic are in use: in doubt they are.
func (g *classicGroup) subscribedTo(topic string) bool {
	if g.subscribed == nil {
		return g.usesConsumerProtocol()
	}
	_, ok := g.subscribed[topic]
	return ok
}

func deref(s *string, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return *s
}
