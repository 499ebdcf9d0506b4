// Package ottlatest runs a cluster of Kafka's kind inside a Go test: real controllers and brokers on free ports of the loopback
// interface, with their data in a temporary folder. There is no container, no JVM and nothing to install; a node with a topic is there
// after some milliseconds. Any client can be used: it gets the addresses.
//
//	func TestOrders(t *testing.T) {
//		c := ottlatest.Start(t, ottlatest.Topic("orders", 3))
//		client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
//		…
//	}
//
// With three brokers a test can do to them what happens to brokers:
//
//	c := ottlatest.Start(t, ottlatest.Brokers(3), ottlatest.Controllers(3), ottlatest.Topic("orders", 1))
//	leader := c.Leader("orders", 0)
//	leader.Kill()   // as kill -9; Stop shuts it down in order; Start starts it again, with its data
//	leader.Freeze() // as kill -STOP, until Thaw
//	leader.CutOff() // no packet comes through, until Reconnect; CutOff(other) cuts two nodes apart
//
// When the test ends so does the cluster: no goroutine, port or file stays. Clients should be closed before; a Cleanup that is
// registered after Start runs before the cluster ends.
//
// Called by tests. Nothing is global: tests may run in parallel, each with clusters of its own. Never fails a test after its end, and
// never logs less than errors unless LogLevel says so.
package ottlatest
