package cluster

import (
	"fmt"
	"strings"
)

// firstController is the id of the first controller; brokers are 1 and so on.
const firstController = 101

// propertiesFile is the name of a node's configuration, in its folder.
const propertiesFile = "server.properties"

// plan is what the nodes are told of one another.
type plan struct {
	o         Options
	bootstrap string // controllers, host:port,...
}

// properties is the configuration of a node. The cluster lives on one machine: nobody there is slow because of a network, so elections
// begin after a tenth of Kafka's time, and groups do not wait for more members.
func (p *plan) properties(n *Node) string {
	var b strings.Builder
	set := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	var listeners []string
	if n.Broker {
		listeners = append(listeners, "PLAINTEXT://"+n.Addr)
	}
	if n.Controller {
		listeners = append(listeners, "CONTROLLER://"+n.ControllerAddr)
	}
	set("process.roles", strings.Join(n.roles(), ","))
	set("node.id", n.ID)
	set("controller.quorum.bootstrap.servers", p.bootstrap)
	set("listeners", strings.Join(listeners, ","))
	set("controller.listener.names", "CONTROLLER")
	set("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")
	set("log.dirs", strings.ReplaceAll(n.Dir, `\`, `\\`)+"/data")
	set("controller.quorum.election.timeout.ms", 100)
	set("controller.quorum.election.backoff.max.ms", 100)
	set("group.initial.rebalance.delay.ms", 0)
	factor := min(3, p.o.Brokers)
	set("default.replication.factor", factor)
	for _, topic := range []string{"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"} {
		set(topic+".replication.factor", factor)
	}
	set("transaction.state.log.min.isr", min(2, factor))
	set("share.coordinator.state.topic.min.isr", min(2, factor))
	for _, s := range p.o.Settings {
		set(s.Key, s.Value)
	}
	return b.String()
}

func (n *Node) roles() (roles []string) {
	if n.Broker {
		roles = append(roles, "broker")
	}
	if n.Controller {
		roles = append(roles, "controller")
	}
	return roles
}
