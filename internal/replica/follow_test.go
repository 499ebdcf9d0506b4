package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// leaderBatch is a batch of n records as a leader has it.
func leaderBatch(base int64, epoch int32, n int) []byte {
	b := record.Batch(records(n))
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(epoch)
	return b
}

func answerOf(high, start int64, batches ...[]byte) *protocol.FetchResponsePartitionData {
	d := protocol.NewFetchResponsePartitionData()
	d.HighWatermark, d.LogStartOffset, d.Records = high, start, slices.Concat(batches...)
	return &d
}

// following is a world in which broker 1 follows broker 2 in leader epoch 0.
func following(t *testing.T) (*world, *Partition) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	return w, w.create("t", 1, 2, 1)
}

func (p *Partition) expectLog(t *testing.T, start, high, end int64) {
	t.Helper()
	if l := p.Log(); l.StartOffset() != start || l.HighWatermark() != high || l.EndOffset() != end {
		t.Errorf("the log begins at %d, is committed up to %d and ends at %d; expected %d, %d, %d", l.StartOffset(), l.HighWatermark(), l.EndOffset(), start, high, end)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFollowerTakesWhatTheLeaderSends(t *testing.T) {
	_, p := following(t)
	must(t, p.take(0, 0, answerOf(2, 0, leaderBatch(0, 0, 3))))
	p.expectLog(t, 0, 2, 3)
	must(t, p.take(0, 3, answerOf(100, 0))) // it cannot have committed more than there is here
	p.expectLog(t, 0, 3, 3)
	must(t, p.take(0, 3, answerOf(1, 0)))
	p.expectLog(t, 0, 3, 3) // and takes nothing back
	must(t, p.take(0, 3, answerOf(5, 2, leaderBatch(3, 0, 2))))
	p.expectLog(t, 2, 5, 5)
	if at, err := p.position(0); err != nil || at != (position{5, 0, 2}) {
		t.Errorf("position %+v, %v", at, err)
	}
}

func TestOnlyAFollowerInItsEpochTakes(t *testing.T) {
	w, p := following(t)
	for _, epoch := range []int32{-1, 1} {
		if err := p.take(epoch, 0, answerOf(1, 0, leaderBatch(0, 0, 1))); !errors.Is(err, errNotFollowing) {
			t.Errorf("in epoch %d: %v", epoch, err)
		}
	}
	if err := p.take(0, 1, answerOf(1, 0, leaderBatch(1, 0, 1))); err == nil {
		t.Error("records that leave a gap were taken")
	}
	w.replay(change(1, 1))
	if err := p.take(1, 0, answerOf(1, 0, leaderBatch(0, 0, 1))); !errors.Is(err, errNotFollowing) {
		t.Errorf("as the leader: %v", err)
	}
	p.expectLog(t, 0, 0, 0)
}

func TestOnlyWholeBatchesOfTheEpochAreTaken(t *testing.T) {
	_, p := following(t)
	must(t, p.take(0, 0, answerOf(9, 0, leaderBatch(0, 0, 2), leaderBatch(2, 0, 5)[:40])))
	p.expectLog(t, 0, 2, 2)
	must(t, p.take(0, 2, answerOf(9, 0, leaderBatch(2, 0, 1), leaderBatch(3, 1, 1))))
	p.expectLog(t, 0, 3, 3)
	broken := leaderBatch(3, 0, 1)
	broken[len(broken)-1] ^= 1
	if err := p.take(0, 3, answerOf(9, 0, broken)); err == nil {
		t.Error("a damaged batch was taken")
	}
	p.expectLog(t, 0, 3, 3)
}

// A follower with epochs 0 (to 3), 2 (to 5) and 4 (to 6).
func diverging(t *testing.T) *Partition {
	w, p := following(t)
	for range 4 {
		w.replay(change(1, 2))
	}
	must(t, p.take(4, 0, answerOf(0, 0, leaderBatch(0, 0, 3), leaderBatch(3, 2, 2), leaderBatch(5, 4, 1))))
	return p
}

func TestDivergence(t *testing.T) {
	for _, c := range []struct {
		epoch    int32
		end, cut int64
	}{
		{2, 5, 5},  // the leader has no epoch 4
		{2, 4, 3},  // and less of epoch 2: batches go as a whole
		{2, 50, 5}, // or more of it
		{3, 9, 5},  // the leader has an epoch that is not here: the last one before counts
		{0, 3, 3},
		{0, 2, 0},
		{-1, 0, 0}, // nothing in common
	} {
		p := diverging(t)
		p.expectLog(t, 0, 0, 6)
		must(t, p.diverged(4, c.epoch, c.end))
		if end := p.Log().EndOffset(); end != c.cut {
			t.Errorf("the leader's epoch %d ends at %d: cut to %d, expected %d", c.epoch, c.end, end, c.cut)
		}
	}
}

func TestOutOfRange(t *testing.T) {
	_, p := following(t)
	must(t, p.take(0, 0, answerOf(1, 0, leaderBatch(0, 0, 1), leaderBatch(1, 0, 3), leaderBatch(4, 0, 1))))
	must(t, p.outOfRange(0, 0, 9)) // it is in range meanwhile
	p.expectLog(t, 0, 1, 5)
	must(t, p.outOfRange(0, 0, 4))
	p.expectLog(t, 0, 1, 4)
	must(t, p.outOfRange(0, 10, 20))
	p.expectLog(t, 10, 10, 10)
	must(t, p.take(0, 10, answerOf(12, 10, leaderBatch(10, 0, 2))))
	p.expectLog(t, 10, 12, 12)
}

// What no leader epoch is known of may be anything: what is not committed goes before the first fetch.
func TestALogWithoutEpochsIsCutToItsHighWatermark(t *testing.T) {
	_, p := following(t)
	b := leaderBatch(0, -1, 2)
	must(t, p.take(0, 0, answerOf(2, 0, b)))
	must(t, p.Log().AppendAsFollower(leaderBatch(2, -1, 3)))
	p.expectLog(t, 0, 2, 5)
	if at, err := p.position(0); err != nil || at != (position{2, -1, 0}) {
		t.Errorf("position %+v, %v", at, err)
	}
}
