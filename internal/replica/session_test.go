package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
)

// sessionFetch is a fetch in a session: which parts were told, and the session id.
type sessionFetch struct {
	times int
	at    time.Duration
	id    int32
	err   error
	told  map[string]int // bytes
}

func (w *world) session(id, epoch int32, wait time.Duration, forgotten []string, parts ...FetchPart) *sessionFetch {
	out := &sessionFetch{told: map[string]int{}}
	f := w.NewFetch()
	f.ReplicaID, f.Version, f.MaxWait, f.MinBytes, f.MaxBytes = -1, 12, wait, 1, 1<<20
	f.Parts = append(f.Parts, parts...)
	r := SessionRequest{ID: id, Epoch: epoch}
	for _, t := range forgotten {
		r.Forgotten = append(r.Forgotten, ForgottenPart{Topic: t})
	}
	if out.err = w.Sessions.Begin(f, r); out.err != nil {
		out.times++
		f.Release()
		return out
	}
	w.Fetch(f, func(f *Fetch) {
		out.times++
		out.at = w.sim.Now()
		out.id, out.err = w.Sessions.Finish(f)
		for i := range f.Results {
			if !f.Results[i].Omit {
				out.told[f.Parts[i].Topic] = f.Results[i].Records.Len
			}
		}
		f.Release()
	})
	return out
}

func (s *sessionFetch) check(t *testing.T, id int32, told map[string]int) {
	t.Helper()
	if s.times != 1 || s.err != nil || s.id != id || len(s.told) != len(told) {
		t.Errorf("%d times: session %d, error %v, told %v; expected session %d, %v", s.times, s.id, s.err, s.told, id, told)
	}
	for topic, n := range told {
		if got, ok := s.told[topic]; !ok || got != n {
			t.Errorf("told %v, expected %v", s.told, told)
		}
	}
}

func TestSession(t *testing.T) {
	w := newWorld(t)
	w.create("t", 1, 1)
	w.produce("t", AcksLeader, 0, 2)
	size := len(records(2))
	first := w.session(0, 0, 0, nil, part("t", 0))
	id := first.id
	if id == 0 {
		t.Fatal("no session")
	}
	first.check(t, id, map[string]int{"t": size})
	w.session(id, 1, 0, nil).check(t, id, map[string]int{"t": size})
	w.session(id, 2, 0, nil, part("t", 2)).check(t, id, nil)
	begin := w.sim.Now()
	quiet := w.session(id, 3, 700*time.Millisecond, nil)
	w.sim.RunFor(time.Second)
	quiet.check(t, id, nil)
	if d := (quiet.at - begin).Round(time.Millisecond); d != 700*time.Millisecond {
		t.Errorf("answered after %s", d)
	}
	if s := w.session(id, 9, 0, nil); !errors.Is(s.err, kerr.InvalidFetchSessionEpoch) {
		t.Errorf("epoch 9: %v", s.err)
	}
	if s := w.session(4242, 1, 0, nil); !errors.Is(s.err, kerr.FetchSessionIdNotFound) || s.id != 0 {
		t.Errorf("session 4242: %v", s.err)
	}
	w.session(0, -1, time.Minute, nil).check(t, 0, nil)
	w.session(id, 4, time.Minute, []string{"t"}).check(t, 0, nil)
	if w.Sessions.Len() != 0 {
		t.Errorf("%d sessions", w.Sessions.Len())
	}
}

func TestSessionTellsWhatChanged(t *testing.T) {
	w := newWorld(t)
	w.create("a", 1, 1)
	w.create("b", 2, 1)
	id := w.session(0, 0, 0, nil, part("a", 0), part("b", 0)).id
	woken := w.session(id, 1, time.Minute, nil)
	w.produce("b", AcksLeader, 0, 1)
	woken.check(t, id, map[string]int{"b": len(records(1))})
	w.session(id, 2, 0, nil, part("b", 1)).check(t, id, nil)
	// An error is told as long as it lasts, and once more when it is over.
	w.session(id, 3, time.Minute, nil, part("a", 9)).check(t, id, map[string]int{"a": 0})
	w.session(id, 4, time.Minute, nil).check(t, id, map[string]int{"a": 0})
	w.session(id, 5, 0, nil, part("a", 0)).check(t, id, map[string]int{"a": 0})
	w.session(id, 6, 0, nil).check(t, id, nil)
	// A new log start is news.
	p, _ := w.Partition(TopicPartition{Topic: "b"})
	w.DeleteRecords([]Deletion{{Partition: p, Offset: 1}}, 0, func([]Deletion) {})
	w.session(id, 7, 0, nil).check(t, id, map[string]int{"b": 0})
	w.session(id, 8, 0, nil).check(t, id, nil)
}

// Who had records comes last the next time: nobody starves when an answer has room for one.
// A follower that has to truncate does not take the high watermark that it is told with that: it is told again afterwards.
func TestSessionTellsTheHighWatermarkAfterADivergence(t *testing.T) {
	for name, inFirst := range map[string]bool{"in the first answer": true, "later": false} {
		w := newWorld(t)
		w.create("t", 1, 1)
		w.replay(change(1, 1)) // leader epoch 1, of which the follower has something at offset 2
		w.produce("t", AcksLeader, 0, 2)
		diverging, well := part("t", 2), part("t", 2)
		diverging.LastFetchedEpoch, well.LastFetchedEpoch = 5, 1
		first := well
		if inFirst {
			first = diverging
		}
		s := w.session(0, 0, 0, nil, first)
		s.check(t, s.id, map[string]int{"t": 0})
		epoch := int32(1)
		if !inFirst {
			w.session(s.id, epoch, 0, nil, diverging).check(t, s.id, map[string]int{"t": 0})
			epoch++
		}
		if again := w.session(s.id, epoch, 0, nil, well); len(again.told) != 1 {
			t.Errorf("%s: after the truncation the follower is told %v", name, again.told)
		}
		if quiet := w.session(s.id, epoch+1, 0, nil); len(quiet.told) != 0 {
			t.Errorf("%s: told again: %v", name, quiet.told)
		}
	}
}

func TestSessionTakesTurns(t *testing.T) {
	w := newWorld(t)
	var parts []FetchPart
	for i, topic := range []string{"a", "b", "c"} {
		w.create(topic, byte(i+1), 1)
		w.produce(topic, AcksLeader, 0, 1)
		p := part(topic, 0)
		p.MaxBytes = 1
		parts = append(parts, p)
	}
	first := w.session(0, 0, 0, nil, parts...)
	first.check(t, first.id, map[string]int{"a": len(records(1)), "b": 0, "c": 0})
	for i, topic := range []string{"a", "b", "c", "a"} {
		w.session(first.id, int32(i+1), 0, nil).check(t, first.id, map[string]int{topic: len(records(1))})
	}
}

func TestSessionIsTakenOver(t *testing.T) {
	w := newWorld(t)
	w.create("t", 1, 1)
	id := w.session(0, 0, 0, nil, part("t", 0)).id
	slow := w.session(id, 1, time.Minute, nil)
	quick := w.session(id, 2, 0, nil) // the fetcher did not wait for the answer
	quick.check(t, id, nil)
	w.produce("t", AcksLeader, 0, 1)
	if slow.times != 1 || !errors.Is(slow.err, kerr.InvalidFetchSessionEpoch) || slow.id != id {
		t.Errorf("the first fetch: %d times, %v", slow.times, slow.err)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.create("t", 1, 1)
	w.create("u", 2, 1)
	c := NewSessions(w.node, 2, time.Minute)
	w.Sessions = c
	one := w.session(0, 0, 0, nil, part("t", 0)).id
	two := w.session(0, 0, 0, nil, part("t", 0)).id
	if s := w.session(0, 0, 0, nil, part("t", 0)); s.id != 0 {
		t.Error("a third session, without room")
	}
	follower := w.NewFetch()
	follower.ReplicaID, follower.Version = 2, 12
	follower.Parts = append(follower.Parts, part("t", 0))
	if err := c.Begin(follower, SessionRequest{Follower: true}); err != nil {
		t.Fatal(err)
	}
	w.Fetch(follower, func(f *Fetch) {
		if id, err := c.Finish(f); id == 0 || err != nil {
			t.Errorf("a follower takes the place of a consumer: %d, %v", id, err)
		}
		f.Release()
	})
	left := 0
	for _, id := range []int32{one, two} {
		if s := w.session(id, 1, 0, nil); s.err == nil {
			left++
		}
	}
	if left != 1 || c.Len() != 2 {
		t.Errorf("%d of the consumers' sessions left, %d in all", left, c.Len())
	}
	w.sim.RunFor(2 * time.Minute)
	if s := w.session(0, 0, 0, nil, part("t", 0)); s.id == 0 {
		t.Error("a session that was not used for long keeps its place")
	}
	if s := w.session(0, 0, 0, nil, part("t", 0), part("u", 0)); s.id == 0 {
		t.Error("a session that was not used for long keeps its place")
	}
}
