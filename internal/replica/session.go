package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Session epochs with a meaning of their own (KIP-227).
const (
	initialSessionEpoch int32 = 0  // open a session
	finalSessionEpoch   int32 = -1 // no session; close the one that is named
)

// Sessions remembers what fetchers asked for and were told, so that their requests and our answers
// need to name only what changed (KIP-227). It is bounded: a session is the fetcher's to lose at any
// time, it then sends everything again.
type Sessions struct {
	env      env.Env
	slots    int
	eviction time.Duration

	mu       sync.Mutex
	sessions map[int32]*session
}

// session is one fetcher's.
type session struct {
	id         int32
	follower   bool // may take the place of a consumer's
	usesIDs    bool // keyed by topic id; fixed when it is opened
	created    time.Duration
	lastUsed   atomic.Int64 // monotonic nanoseconds
	partitions atomic.Int32 // = len(byKey), for the choice of whom to evict

	mu    sync.Mutex
	epoch int32 // that the next request has to state
	byKey map[sessionKey]*sessionPartition
	// root is the ring of partitions in the order in which they are read. Who had records goes to the end:
	// so that nobody starves when an answer has room for a few only.
	root sessionPartition
}

type sessionKey struct {
	id    uuid.UUID // or
	name  string    // not both
	index int32
}

// sessionPartition is what a session knows of a partition.
type sessionPartition struct {
	part          FetchPart // as last asked for
	highWatermark int64     // as last told, -1 after an error or a divergence: it is told again when that is over
	logStart      int64     // as last told
	prev, next    *sessionPartition
}

// sessionUse is how a fetch uses sessions.
type sessionUse struct {
	kind    sessionKind
	session *session // for incremental
	epoch   int32    // that the request stated
	usesIDs bool
}

type sessionKind int8

const (
	sessionless sessionKind = iota
	sessionFull
	sessionIncremental
	sessionError
)

// NewSessions keeps up to slots sessions (max.incremental.fetch.session.cache.slots). One that was not used
// for eviction may be evicted by any other, KIP-227 has the other rules.
func NewSessions(e env.Env, slots int, eviction time.Duration) *Sessions {
	return &Sessions{env: e, slots: slots, eviction: eviction, sessions: map[int32]*session{}}
}

// Len is the number of sessions.
func (c *Sessions) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// ForgottenPart names a partition that leaves a session.
type ForgottenPart struct {
	Topic   string
	TopicID uuid.UUID
	Index   int32
}

// SessionRequest is what a fetch says about its session.
type SessionRequest struct {
	ID, Epoch int32
	Forgotten []ForgottenPart
	UsesIDs   bool // version 13 and up
	Follower  bool
	// TopicName names a topic by its id, "" if there is none.
	TopicName func(uuid.UUID) string
}

// Begin finds or closes the session that the request names and makes f.Parts what is to be read: the parts
// of the request, which f.Parts holds before, or those of the session. The error is one of
// FetchSessionIDNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIDError.
func (c *Sessions) Begin(f *Fetch, r SessionRequest) error {
	f.use = sessionUse{kind: sessionless, epoch: r.Epoch, usesIDs: r.UsesIDs}
	if r.Epoch == initialSessionEpoch || r.Epoch == finalSessionEpoch {
		if r.ID != 0 {
			c.mu.Lock()
			delete(c.sessions, r.ID)
			c.mu.Unlock()
		}
		if r.Epoch == initialSessionEpoch {
			f.use.kind = sessionFull
		}
		return nil
	}
	f.use.kind = sessionError
	c.mu.Lock()
	s := c.sessions[r.ID]
	c.mu.Unlock()
	if s == nil {
		return kerr.FetchSessionIdNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != r.Epoch:
		return kerr.InvalidFetchSessionEpoch
	case s.usesIDs != r.UsesIDs:
		return kerr.FetchSessionTopicIdError
	}
	for i := range f.Parts {
		s.put(&f.Parts[i])
	}
	for _, p := range r.Forgotten {
		s.forget(s.key(p.Topic, p.TopicID, p.Index))
	}
	s.partitions.Store(int32(len(s.byKey)))
	if len(s.byKey) == 0 {
		c.mu.Lock()
		delete(c.sessions, s.id)
		c.mu.Unlock()
		f.use.kind = sessionless
		return nil
	}
	s.lastUsed.Store(int64(c.env.Monotonic()))
	s.epoch = nextSessionEpoch(s.epoch)
	f.use.kind, f.use.session = sessionIncremental, s
	f.Parts = f.Parts[:0]
	for p := s.root.next; p != &s.root; p = p.next {
		if p.part.Topic == "" && r.TopicName != nil {
			p.part.Topic = r.TopicName(p.part.TopicID)
		}
		f.Parts = append(f.Parts, p.part)
	}
	return nil
}

// Finish decides what of f.Results is told: it sets Omit where nothing changed, opens the session that
// was asked for if there is room, and returns the session id for the answer. The error is
// InvalidFetchSessionEpoch, if the fetcher sent another request in the meantime.
func (c *Sessions) Finish(f *Fetch) (id int32, err error) {
	switch f.use.kind {
	case sessionFull:
		return c.open(f), nil
	case sessionIncremental:
	default:
		return 0, nil
	}
	s := f.use.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != nextSessionEpoch(f.use.epoch) {
		return s.id, kerr.InvalidFetchSessionEpoch
	}
	// f.Parts was made from the session under its lock, and only the one request with the right epoch may
	// change the session: the two are in step unless a part was dropped, which cannot be.
	p := s.root.next
	for i := range f.Results {
		next := p.next
		r := &f.Results[i]
		r.Omit = !p.tell(r)
		if r.Records.Len > 0 {
			s.unlink(p)
			s.link(p)
		}
		p = next
	}
	return s.id, nil
}

// tell notes what is told of a partition and reports whether there is anything to tell.
func (p *sessionPartition) tell(r *FetchResult) bool {
	news := r.Records.Len > 0 || r.PreferredReplica >= 0 || r.DivergingEpoch >= 0
	if p.highWatermark != r.HighWatermark {
		p.highWatermark, news = r.HighWatermark, true
	}
	if p.logStart != r.LogStartOffset {
		p.logStart, news = r.LogStartOffset, true
	}
	if r.Err != 0 || r.DivergingEpoch >= 0 {
		p.highWatermark, news = -1, true // who has to truncate first does not take the high watermark
	}
	return news
}

func nextSessionEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return finalSessionEpoch
	case epoch == 1<<31-1:
		return 1
	}
	return epoch + 1
}

// open makes a session of a full fetch; 0 if there is no room.
func (c *Sessions) open(f *Fetch) int32 {
	follower := f.ReplicaID >= 0
	now := c.env.Monotonic()
	s := &session{
		follower: follower, usesIDs: f.use.usesIDs, created: now, epoch: initialSessionEpoch + 1,
		byKey: make(map[sessionKey]*sessionPartition, len(f.Parts)),
	}
	s.lastUsed.Store(int64(now))
	s.root.prev, s.root.next = &s.root, &s.root

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) >= c.slots && !c.evict(follower, int32(len(f.Parts)), now) {
		return 0
	}
	for i := range f.Parts {
		p := s.put(&f.Parts[i])
		p.tell(&f.Results[i])
	}
	s.partitions.Store(int32(len(s.byKey)))
	for s.id == 0 || c.sessions[s.id] != nil {
		s.id = int32(c.env.Rand().IntN(1<<31 - 1))
	}
	c.sessions[s.id] = s
	return s.id
}

// evict makes room for a session of n partitions, if one may go: the longest unused if it was unused for
// the eviction time; else the least worth of those that may be evicted, if it is not worth more than the
// new one. A follower's session is worth more than a consumer's, then more partitions more than fewer.
// Consumers evict only what is older than the eviction time, followers also consumers' that are not.
func (c *Sessions) evict(follower bool, n int32, now time.Duration) bool {
	var oldest, least *session
	for _, s := range c.sessions { // the choice does not depend on the order
		if oldest == nil || s.lastUsed.Load() < oldest.lastUsed.Load() ||
			s.lastUsed.Load() == oldest.lastUsed.Load() && s.id < oldest.id {
			oldest = s
		}
		if now-s.created > c.eviction || follower && !s.follower {
			if least == nil || worthLess(s.follower, s.partitions.Load(), s.id, least.follower, least.partitions.Load(), least.id) {
				least = s
			}
		}
	}
	switch {
	case oldest == nil:
		return false
	case now-time.Duration(oldest.lastUsed.Load()) > c.eviction:
		delete(c.sessions, oldest.id)
		return true
	case least == nil || worthLess(follower, n, 0, least.follower, least.partitions.Load(), least.id):
		return false
	}
	delete(c.sessions, least.id)
	return true
}

func worthLess(follower bool, n, id int32, than bool, thanN, thanID int32) bool {
	if follower != than {
		return than
	}
	if n != thanN {
		return n < thanN
	}
	return id < thanID
}

func (s *session) key(topic string, id uuid.UUID, index int32) sessionKey {
	if s.usesIDs {
		return sessionKey{id: id, index: index}
	}
	return sessionKey{name: topic, index: index}
}

// put adds a partition at the end of the session, or notes what is asked for it now.
func (s *session) put(f *FetchPart) *sessionPartition {
	k := s.key(f.Topic, f.TopicID, f.Index)
	p := s.byKey[k]
	if p == nil {
		p = &sessionPartition{part: *f, highWatermark: -1, logStart: -1}
		p.part.partition, p.part.Err = nil, 0
		s.byKey[k] = p
		s.link(p)
		return p
	}
	topic := p.part.Topic
	p.part = *f
	p.part.partition, p.part.Err = nil, 0
	if topic != "" {
		// The name stays what it was: a topic that was created again shows as another id (error 103), not as
		// an unknown one.
		p.part.Topic = topic
	}
	return p
}

func (s *session) forget(k sessionKey) {
	if p := s.byKey[k]; p != nil {
		delete(s.byKey, k)
		s.unlink(p)
	}
}

func (s *session) link(p *sessionPartition) {
	p.prev, p.next = s.root.prev, &s.root
	p.prev.next, s.root.prev = p, p
}

func (s *session) unlink(p *sessionPartition) {
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
}
