package replica

import (
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

func (p *Partition) expectHigh(t *testing.T, want int64) {
	t.Helper()
	if got := p.HighWatermark(); got != want {
		t.Errorf("high watermark %d, expected %d", got, want)
	}
}

func TestTheHighWatermarkIsTheSlowestInSync(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2), brokerRecord(3))
	p := w.create("t", 1, 1, 2, 3)
	w.produce("t", AcksLeader, 0, 5)
	p.expectHigh(t, 0)
	w.fetch(2, 0, 0, part("t", 5))
	p.expectHigh(t, 0)
	w.fetch(3, 0, 0, part("t", 3))
	p.expectHigh(t, 3)
	w.fetch(3, 0, 0, part("t", 1)) // it has lost something; what is committed stays so
	p.expectHigh(t, 3)
	w.fetch(4, 0, 0, part("t", 5)) // none of the replicas
	p.expectHigh(t, 3)
	w.sim.RunFor(31 * time.Second) // 3 has not kept up
	w.replay(change(1, -2, 1, 2))
	p.expectHigh(t, 5)
}

func TestAReplicaAloneCommitsAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.create("t", 1, 1)
	w.produce("t", AcksAll, time.Second, 2).check(t, nil, 0)
	p.expectHigh(t, 2)
	w.replay(setting("t", "min.insync.replicas", "2")) // no more than there are
	w.produce("t", AcksAll, time.Second, 1).check(t, nil, 2)
	p.expectHigh(t, 3)
}

func TestANewLeaderKeepsWhatIsCommitted(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksLeader, 0, 4)
	w.fetch(2, 0, 0, part("t", 2))
	w.replay(change(1, 2))
	w.replay(change(1, 1))
	p.expectHigh(t, 2)
	if _, err := p.FindOffset(OffsetQuery{Timestamp: LatestTimestamp, CurrentLeaderEpoch: -1, Client: true}); err == nil {
		t.Error("the end was given although the high watermark is below the start of the epoch")
	}
	w.fetch(2, 0, 0, part("t", 3)) // nobody knows yet what the follower has
	p.expectHigh(t, 3)
	w.fetch(2, 0, 0, part("t", 4))
	p.expectHigh(t, 4)
	if o, err := p.FindOffset(OffsetQuery{Timestamp: LatestTimestamp, CurrentLeaderEpoch: 2, Client: true}); err != nil || o.Offset != 4 || o.LeaderEpoch != 2 {
		t.Errorf("end %+v, %v", o, err)
	}
}

func TestAFollowerWithoutFetchHoldsTheHighWatermark(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksLeader, 0, 4)
	w.sim.RunFor(time.Hour)
	p.expectHigh(t, 0)
}

// An old life of a broker must not speak for the new one (KIP-903).
func TestAnOldBrokerEpochIsNotHeard(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksLeader, 0, 4)
	fetch := func(epoch, offset int64) {
		f := w.NewFetch()
		f.ReplicaID, f.ReplicaEpoch, f.Version, f.MaxBytes = 2, epoch, 17, 1000
		f.Parts = append(f.Parts, part("t", offset))
		w.read(f)
	}
	fetch(8, 1)
	p.expectHigh(t, 1)
	fetch(7, 4)
	p.expectHigh(t, 1)
	fetch(9, 2)
	p.expectHigh(t, 2)
}

func TestListenersHearOfTheHighWatermark(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	w.create("t", 1, 1, 2)
	l, err := w.CoordinatorLog("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	var heard []int64
	remove := l.OnHighWatermark(func(high int64) { heard = append(heard, high) })
	last, err := l.AppendAsLeader(0, records(3))
	if err != nil || last != 2 {
		t.Fatalf("last offset %d, %v", last, err)
	}
	w.fetch(2, 0, 0, part("t", 3))
	if len(heard) == 0 || heard[len(heard)-1] != 3 {
		t.Errorf("heard %v", heard)
	}
	remove()
	heard = nil
	w.produce("t", AcksLeader, 0, 1)
	w.fetch(2, 0, 0, part("t", 4))
	if heard != nil {
		t.Errorf("heard %v after the end", heard)
	}
	if _, err := l.AppendAsLeader(1, records(1)); err == nil {
		t.Error("appended in an epoch that is not the leader's")
	}
	b, err := l.Read(0, 1)
	if err != nil || len(b) != len(records(3)) {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
}

func TestHighWatermarksSurvive(t *testing.T) {
	w := newWorld(t)
	p := w.create("t", 1, 1)
	w.produce("t", AcksLeader, 0, 3)
	w.sim.RunFor(6 * time.Second) // replica.high.watermark.checkpoint.interval.ms and a little
	p.expectHigh(t, 3)
	w.node.Kill()
	again := &world{sim: w.sim, node: w.node.Restart()}
	again.testManager = newTestManager(t, again.node, "/logs", func(done func() bool) { w.sim.RunUntil(time.Second, done) })
	again.replay(brokerRecord(1), brokerRecord(2), topicRecord("t", 1), partitionRecord(1, 2, 1))
	q, err := again.Partition(TopicPartition{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	q.expectHigh(t, 3)
}

func TestDeleteAndCreateAgain(t *testing.T) {
	w := newWorld(t)
	old := w.create("t", 1, 1)
	w.produce("t", AcksLeader, 0, 3)
	byID := part("t", 0)
	byID.TopicID = uuid.UUID{1, 1}
	w.fetch(-1, 0, 0, byID).check(t, 0, nil, 3, len(records(3)))
	waiting := w.fetch(-1, time.Minute, 1, part("t", 3))
	known := byID
	known.Offset = 3
	stated := w.fetch(-1, time.Minute, 1, known)
	w.replay(removal(1), topicRecord("t", 2), partitionRecord(2, 1)) // in one image
	if _, err := w.PartitionByID(uuid.UUID{1, 1}, 0); err == nil {
		t.Error("the old id is still known")
	}
	p, err := w.PartitionByID(uuid.UUID{2, 1}, 0)
	if err != nil || p == old || p.Log().EndOffset() != 0 {
		t.Fatalf("the new partition: %v", err)
	}
	if waiting.times != 1 || stated.times != 1 || stated.results[0].Err != 6 {
		t.Errorf("waited on: %d %d %v", waiting.times, stated.times, stated.results)
	}
	w.fetch(-1, time.Minute, 1, byID).check(t, 0, kerr.InconsistentTopicId, -1, 0)
	w.produce("t", AcksAll, 0, 1).check(t, nil, 0)
	if old.Log() == p.Log() {
		t.Error("the log is the old one")
	}
	w.sim.RunFor(2 * time.Minute) // file.delete.delay.ms
	w.produce("t", AcksAll, 0, 1).check(t, nil, 1)
}

func TestAPartitionThatMovesAway(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	w.create("t", 1, 1, 2)
	w.produce("t", AcksLeader, 0, 3)
	waiting := w.fetch(-1, time.Minute, 1, part("t", 0))
	r := metadata.NewPartitionChangeRecord()
	r.TopicId, r.PartitionId, r.Replicas, r.Isr, r.Leader = uuid.UUID{1, 1}, 0, []int32{2}, []int32{2}, 2
	w.replay(r)
	if waiting.times != 1 || waiting.results[0].Err != 6 {
		t.Errorf("answered %d times: %+v", waiting.times, waiting.results)
	}
	w.produce("t", AcksLeader, 0, 1).check(t, kerr.NotLeaderOrFollower, -1)
	if len(w.All()) != 0 {
		t.Error("the replica is still here")
	}
}
