package ottlatest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ottla-io/ottla/ottlatest"
)

// One node with a topic, and a client of the test's choice.
func TestExampleOneNode(t *testing.T) {
	c := ottlatest.Start(t, ottlatest.Topic("orders", 3))

	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("one coffee")).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// What is acknowledged survives the death of a leader.
func TestExampleKillALeader(t *testing.T) {
	t.Parallel()
	c := ottlatest.Start(t, ottlatest.Brokers(3), ottlatest.Topic("orders", 1),
		ottlatest.Setting("min.insync.replicas", "2"), ottlatest.Setting("broker.session.timeout.ms", "1000"))

	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), kgo.StringRecord("one coffee")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Leader("orders", 0).Kill()
	records := client.PollFetches(t.Context()).Records()
	if len(records) != 1 || string(records[0].Value) != "one coffee" {
		t.Fatalf("read %v", records)
	}
}
