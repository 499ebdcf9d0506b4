package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
)

// A partition whose directory has failed answers who waits, and everybody later, and does not come back until its topic is another.
func TestOfflinePartitions(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	w.create("t", 1, 1, 2)
	w.create("u", 2, 1)
	produce := w.produce("t", AcksAll, time.Minute, 1)
	fetch := w.fetch(-1, time.Minute, 1, part("t", 0))
	other := w.fetch(-1, time.Minute, 1, part("u", 0))
	w.Offline([]TopicPartition{{Topic: "t"}, {Topic: "unknown"}})
	produce.check(t, kerr.KafkaStorageError, 0)
	fetch.check(t, 0, kerr.KafkaStorageError, -1, 0)
	if other.times != 0 {
		t.Error("a fetch of another partition was answered")
	}
	w.produce("t", AcksLeader, 0, 1).check(t, kerr.KafkaStorageError, -1)
	w.fetch(2, 0, 0, part("t", 1)).check(t, 0, kerr.KafkaStorageError, -1, 0)
	w.produce("u", AcksLeader, 0, 1).check(t, nil, 0)

	w.replay(change(1, 2, 2)) // the controller has heard of it
	w.replay(change(1, 1, 1, 2))
	w.produce("t", AcksLeader, 0, 1).check(t, kerr.KafkaStorageError, -1)
	if _, err := w.CoordinatorLog("t", 0); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("log for a coordinator: %v", err)
	}
	if err := w.logs.Delete(TopicPartition{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	w.replay(removal(1), topicRecord("t", 3), partitionRecord(3, 1))
	w.produce("t", AcksLeader, 0, 1).check(t, nil, 0)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// Nobody copies a partition any more whose directory has failed, also where the controller has nothing to change about it.
func TestOfflinePartitionsAreNotCopied(t *testing.T) {
	w, p := following(t)
	f := p.fetcher
	copied := func() (n int) {
		w.node.Do("look", func() { n = len(f.parts) })
		w.sim.RunFor(10 * time.Second)
		return n
	}
	if n := copied(); n != 1 {
		t.Fatalf("%d partitions are copied", n)
	}
	w.Offline([]TopicPartition{p.Name()})
	w.node.Do("the leader answers", func() { f.place(f.parts[0]) })
	copied()
	if n := copied(); n != 0 {
		t.Errorf("%d partitions are copied", n)
	}
}
