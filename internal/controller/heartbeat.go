package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// brokerState is where a broker is in its life, as the heartbeats drive it.
type brokerState int

const (
	stateFenced brokerState = iota
	stateUnfenced
	stateControlledShutdown
	stateShutdownNow
)

func (s brokerState) fenced() bool               { return s == stateFenced || s == stateShutdownNow }
func (s brokerState) inControlledShutdown() bool { return s == stateControlledShutdown }

// heartbeats is what the active controller knows from heartbeats alone. It is not in the log: a new active controller
// starts with all brokers that are unfenced, as if it had just heard of them.
type heartbeats struct {
	log     *slog.Logger
	tracker *tracker
	brokers map[int32]*heartbeatState
}

type heartbeatState struct {
	id             int32
	fenced         bool
	metadataOffset int64 // how far the broker has read the log; -1: not known
	// shutdownOffset is the offset that every live broker must have read before this one may stop: there it lost its
	// leaderships. -1: not shutting down.
	shutdownOffset int64
}

func (s *heartbeatState) shuttingDown() bool { return s.shutdownOffset >= 0 }

func newHeartbeats(log *slog.Logger, t *tracker) *heartbeats {
	return &heartbeats{log: log, tracker: t, brokers: map[int32]*heartbeatState{}}
}

// register takes in a registration, or a change of one.
func (h *heartbeats) register(id int32, fenced bool) {
	s, offset := h.brokers[id], int64(-1)
	switch {
	case s == nil:
		h.brokers[id] = &heartbeatState{id: id, fenced: fenced, metadataOffset: -1, shutdownOffset: -1}
	case s.fenced != fenced:
		offset = s.metadataOffset
	}
	h.touch(id, fenced, offset)
}

// touch notes a broker's state and how far it has read. The broker must be registered.
func (h *heartbeats) touch(id int32, fenced bool, metadataOffset int64) {
	s := h.brokers[id]
	s.fenced, s.metadataOffset = fenced, metadataOffset
	if fenced {
		s.shutdownOffset = -1 // it is told to stop at once with its next heartbeat
	}
}

func (h *heartbeats) fence(id int32) {
	if s := h.brokers[id]; s != nil {
		s.fenced = true
	}
}

func (h *heartbeats) remove(id int32) { delete(h.brokers, id) }

// setShutdownOffset notes where a broker lost its leaderships, the first time it did.
func (h *heartbeats) setShutdownOffset(id int32, offset int64) {
	if s := h.brokers[id]; s != nil && !s.fenced && s.shutdownOffset < 0 {
		s.shutdownOffset = offset
		h.log.Debug("Updated the controlled shutdown offset", "broker", id, "offset", offset)
	}
}

// lowestActiveOffset is how far the slowest live broker has read; the largest number if there is none.
func (h *heartbeats) lowestActiveOffset() int64 {
	lowest := int64(1<<63 - 1)
	for _, s := range h.brokers {
		if !s.fenced && !s.shuttingDown() {
			lowest = min(lowest, s.metadataOffset)
		}
	}
	return lowest
}

// ids are the known brokers, sorted.
func (h *heartbeats) ids() []int32 {
	ids := make([]int32, 0, len(h.brokers))
	for id := range h.brokers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *heartbeatState) state() brokerState {
	switch {
	case s.shuttingDown():
		return stateControlledShutdown
	case s.fenced:
		return stateFenced
	}
	return stateUnfenced
}

// say logs in Kafka's words, which people's tools wait for.
func (h *heartbeats) say(format string, args ...any) { h.log.Info(fmt.Sprintf(format, args...)) }

// wish is what a heartbeat asks for.
type wish struct {
	fence, shutDown bool
	metadataOffset  int64
}

// next is the state that a heartbeat leads to. registered is the offset of the broker's registration record: it must
// have read that before it is unfenced.
func (h *heartbeats) next(id int32, w wish, registered int64, hasLeaderships func() bool) (now, next brokerState) {
	s := h.brokers[id]
	now = s.state()
	switch now {
	case stateControlledShutdown, stateShutdownNow: // below
	case stateFenced:
		switch {
		case w.shutDown:
			h.say("Fenced broker %d has requested and been granted an immediate shutdown.", id)
			return now, stateShutdownNow
		case w.fence:
			return now, stateFenced
		case w.metadataOffset < registered:
			h.log.Debug("The request from the broker to unfence cannot yet be granted because it has not caught up with the offset of its register broker record.",
				"broker", id, "registerOffset", registered, "offset", w.metadataOffset)
			return now, stateFenced
		}
		h.say("The request from broker %d to unfence has been granted because it has caught up with the offset of its register broker record %d.", id, registered)
		return now, stateUnfenced
	case stateUnfenced:
		switch {
		case w.fence && w.shutDown:
			h.say("Unfenced broker %d has requested and been granted an immediate shutdown.", id)
			return now, stateShutdownNow
		case w.fence:
			h.say("Unfenced broker %d has requested and been granted fencing", id)
			return now, stateFenced
		case w.shutDown && hasLeaderships():
			h.say("Unfenced broker %d has requested and been granted a controlled shutdown.", id)
			return now, stateControlledShutdown
		case w.shutDown:
			h.say("Unfenced broker %d has requested and been granted an immediate shutdown.", id)
			return now, stateShutdownNow
		}
		return now, stateUnfenced
	}
	if hasLeaderships() {
		h.log.Debug("Broker is in controlled shutdown state, but can not shut down because more leaders still need to be moved.", "broker", id)
		return now, stateControlledShutdown
	}
	lowest := h.lowestActiveOffset()
	if s.shutdownOffset > lowest {
		h.log.Debug("The request from the broker to shut down can not yet be granted because the lowest active offset is not greater than the broker's shutdown offset.",
			"broker", id, "lowestActiveOffset", lowest, "shutdownOffset", s.shutdownOffset)
		return now, stateControlledShutdown
	}
	h.say("The request from broker %d to shut down has been granted since the lowest active offset %d is now greater than the broker's controlled shutdown offset %d.", id, lowest, s.shutdownOffset)
	return now, stateShutdownNow
}

// tracker holds when each incarnation of a broker was last heard of. Unlike everything else it is written from any
// goroutine, when a heartbeat comes in, so that a busy queue does not cost brokers their session. A nil tracker does
// nothing: the controller is not active.
type tracker struct {
	mu      sync.Mutex
	session time.Duration
	now     func() time.Duration
	heard   map[brokerEpoch]time.Duration
}

type brokerEpoch struct {
	id    int32
	epoch int64
}

func newTracker(session time.Duration, now func() time.Duration) *tracker {
	return &tracker{session: session, now: now, heard: map[brokerEpoch]time.Duration{}}
}

func (t *tracker) touch(b brokerEpoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard[b] = t.now()
}

// forget ends a session at once: the broker was told to stop, or is gone.
func (t *tracker) forget(b brokerEpoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.heard, b)
}

func (t *tracker) hasSession(b brokerEpoch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.heard[b]
	return ok && at+t.session >= t.now()
}

// takeExpired forgets one broker whose session is over, the longest silent first, and returns it.
func (t *tracker) takeExpired() (brokerEpoch, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found brokerEpoch
	ok, oldest, now := false, time.Duration(0), t.now()
	for b, at := range t.heard {
		if at+t.session >= now {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(at, oldest), cmp.Compare(b.id, found.id), cmp.Compare(b.epoch, found.epoch)) < 0 {
			ok, found, oldest = true, b, at
		}
	}
	delete(t.heard, found)
	return found, ok
}
