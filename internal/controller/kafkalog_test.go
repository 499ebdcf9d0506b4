package controller

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/record"
)

// kafkaLog reads the metadata log that a real node wrote.
func kafkaLog(t *testing.T) []raft.Batch {
	t.Helper()
	b, err := os.ReadFile("testdata/kafka/metadata.log")
	if err != nil {
		t.Fatal(err)
	}
	var log []raft.Batch
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			t.Fatal(err)
		}
		one := raft.Batch{BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch()}
		it := batch.Iter(nil)
		for rec := (record.Record{}); !batch.IsControl() && it.Next(&rec); {
			r, version, err := metadata.ParseRecord(rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			one.Records = append(one.Records, metadata.Versioned{Record: r, Version: version})
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		log, b = append(log, one), rest
	}
	return log
}

// kafkaHeir is a controller that stands by on a real node's log.
func kafkaHeir(t *testing.T) (*Controller, *testEnv) {
	t.Helper()
	e := newTestEnv()
	q := &testQuorum{id: 100, leader: raftNobody}
	c := New(e, FromNode(testNode(t), testClusterID), q)
	q.listener = c
	return c, e
}

// TestKafkasLog: replaying a real node's log from zero, and from any of its snapshots plus the rest, leads to the same
// state (I6), and to the one the node is known to have been in.
func TestKafkasLog(t *testing.T) {
	log := kafkaLog(t)
	whole, e := kafkaHeir(t)
	whole.HandleCommit(log)
	e.run()
	newHistory().check(t, whole.state, true)
	want := whole.state.dump()
	for _, line := range []string{
		"feature metadata.version 33", "topic codecs 2hbEUdLOQ6GhwAGQoeH3hQ", "topic txn n5_Hxk7BQ3KT04Vn6NpHiQ",
		"config ConfigResource(type=BROKER, name='') min.insync.replicas=1", "producer ids from 1000", "producer_byte_rate} 1e+06",
	} {
		if !strings.Contains(want, line) {
			t.Errorf("there is no %q in\n%s", line, want)
		}
	}
	if b := whole.state.cluster.broker(1); b == nil || !b.fenced || b.epoch != 14 {
		t.Errorf("broker 1: %v, want it fenced with epoch 14", b)
	}
	if whole.state.replication.topicByName("gone") != nil {
		t.Error("the deleted topic is there")
	}

	registered := regexp.MustCompile(`(?m)^broker (\d+) at \d+`) // a snapshot does not tell where a registration was
	want = registered.ReplaceAllString(want, "broker $1")
	for _, id := range []raft.SnapshotID{{EndOffset: 97, Epoch: 1}, {EndOffset: 348, Epoch: 1}, {EndOffset: 684, Epoch: 1}} {
		c, e := kafkaHeir(t)
		r, err := raft.OpenSnapshot(real.New(real.Options{Logger: e.log}).FS(), "testdata/kafka", id)
		if err != nil {
			t.Fatal(err)
		}
		c.HandleLoadSnapshot(r)
		for i := range log {
			if log[i].BaseOffset >= id.EndOffset {
				c.HandleCommit(log[i : i+1])
			}
		}
		e.run()
		newHistory().check(t, c.state, true)
		if diff := cmp.Diff(want, registered.ReplaceAllString(c.state.dump(), "broker $1")); diff != "" {
			t.Errorf("from snapshot %s (-from zero +from it):\n%s", id, diff)
		}
	}
}

// TestKafkasBootstrap: the records that Kafka's format wrote become the first batch, as Kafka's first batch was made of
// them.
func TestKafkasBootstrap(t *testing.T) {
	c, e := kafkaHeir(t)
	r, err := raft.OpenSnapshot(real.New(real.Options{Logger: e.log}).FS(), "testdata/kafka", raft.SnapshotID{})
	if err != nil {
		t.Fatal(err)
	}
	var bootstrap []metadata.Versioned
	for {
		b, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		bootstrap = append(bootstrap, b.Records...)
	}
	c.HandleLoadBootstrap(bootstrap)
	q := c.quorum.(*testQuorum)
	q.lead()
	e.run()
	var first raft.Batch
	for _, b := range kafkaLog(t) {
		if len(b.Records) > 0 {
			first = b
			break
		}
	}
	if diff := cmp.Diff(first.Records, q.log[1].Records); diff != "" {
		t.Errorf("first batch (-kafka +ours):\n%s", diff)
	}
}
