package raft

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/ottla-io/ottla/internal/protocol"
)

// history is kraft.version and the voter set as of every offset of the log. Both take effect when they are appended, not
// when they are committed, and are forgotten when they are truncated. Entries of a snapshot that lies before the log have
// offset -1 for the 0-0 snapshot, else its end offset - 1. Any goroutine.
type history struct {
	mu     sync.Mutex
	static *VoterSet
	levels []entry[int16] // rising offsets
	voters []entry[*VoterSet]
}

type entry[T any] struct {
	offset int64
	value  T
}

func (h *history) addControl(c controlRecord, log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := c.message.(type) {
	case *protocol.KRaftVersionRecord:
		h.levels = append(h.levels, entry[int16]{c.offset, m.KRaftVersion})
		log.Info(fmt.Sprintf("Latest kraft.version is KRAFT_VERSION_%d at offset %d", m.KRaftVersion, c.offset))
	case *protocol.VotersRecord:
		set := votersFromRecord(m)
		h.voters = append(h.voters, entry[*VoterSet]{c.offset, set})
		log.Info(fmt.Sprintf("Latest set of voters is %s at offset %d", set, c.offset))
	}
}

// startFrom forgets everything and takes what a snapshot says.
func (h *history) startFrom(id SnapshotID, head SnapshotHead, log *slog.Logger) {
	h.mu.Lock()
	h.levels, h.voters = nil, nil
	h.mu.Unlock()
	at := id.EndOffset - 1
	if head.KRaftVersion > 0 {
		m := protocol.NewKRaftVersionRecord()
		m.KRaftVersion = head.KRaftVersion
		h.addControl(controlRecord{at, m}, log)
	}
	if head.Voters != nil {
		h.addControl(controlRecord{at, head.Voters.record()}, log)
	}
}

// truncate forgets what is at offset and above.
func (h *history) truncate(offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.levels = slices.DeleteFunc(h.levels, func(e entry[int16]) bool { return e.offset >= offset })
	h.voters = slices.DeleteFunc(h.voters, func(e entry[*VoterSet]) bool { return e.offset >= offset })
}

// prune forgets what a snapshot with that end offset also says.
func (h *history) prune(endOffset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.levels = pruned(h.levels, endOffset)
	h.voters = pruned(h.voters, endOffset)
}

// pruned keeps the last entry below offset and those from there on.
func pruned[T any](list []entry[T], offset int64) []entry[T] {
	i := 0
	for i+1 < len(list) && list[i+1].offset < offset {
		i++
	}
	return list[i:]
}

func latest[T any](list []entry[T], below int64) (entry[T], bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].offset < below {
			return list[i], true
		}
	}
	var none entry[T]
	return none, false
}

// at gives the level and the voters as of everything below endOffset. The voter set is nil unless the log has one.
func (h *history) at(endOffset int64) (level int16, voters *VoterSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := latest(h.levels, endOffset); ok {
		level = l.value
	}
	if v, ok := latest(h.voters, endOffset); ok {
		voters = v.value
	}
	return level, voters
}

// before is the voter set that the last one replaced, unless that is below an offset.
func (h *history) before(offset int64) *VoterSet {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.voters); n > 1 && h.voters[n-1].offset >= offset {
		return h.voters[n-2].value
	}
	return nil
}

const forever = int64(1<<63 - 1)

// current is the level and the voter set in force: the log's, or the static one. at is the offset of the voter set;
// none if it is not from log or snapshot.
func (h *history) current() (level int16, voters *VoterSet, at int64, inLog bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := latest(h.levels, forever); ok {
		level = l.value
	}
	if v, ok := latest(h.voters, forever); ok {
		return level, v.value, v.offset, true
	}
	return level, h.static, -1, false
}
