package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// firstController is the id of the first controller of a cluster.
const firstController = 101

// Nodes makes the configurations of a cluster in which each node has one role: controllers with ids from 101 on, brokers with ids from 1 on. Nothing
// is formatted. Settings are added to all.
func Nodes(t testing.TB, controllers, brokers int, settings ...string) (cs, bs []*Cluster) {
	t.Helper()
	ports := FreePorts(t, controllers+brokers)
	var voters, bootstrap []string
	for i := range controllers {
		address := fmt.Sprintf("127.0.0.1:%d", ports[i])
		voters = append(voters, fmt.Sprintf("%d@%s:AAAAAAAAAAAAAAAAAAAA%02d", firstController+i, address, 10+i))
		bootstrap = append(bootstrap, address)
	}
	quorum := "controller.quorum.bootstrap.servers=" + strings.Join(bootstrap, ",")
	for i := range controllers {
		c := nodeOf(t, firstController+i, "controller", "CONTROLLER://"+bootstrap[i], quorum, settings)
		c.Bootstrap, c.how = bootstrap[i], []string{"--initial-controllers", strings.Join(voters, ",")}
		cs = append(cs, c)
	}
	for i := range brokers {
		address := fmt.Sprintf("127.0.0.1:%d", ports[controllers+i])
		c := nodeOf(t, 1+i, "broker", "PLAINTEXT://"+address, quorum, settings)
		c.Bootstrap, c.how = address, []string{"--no-initial-controllers"}
		bs = append(bs, c)
	}
	return cs, bs
}

func nodeOf(t testing.TB, id int, role, listener, quorum string, settings []string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{Dir: dir, Properties: filepath.Join(dir, "server.properties"), Data: filepath.Join(dir, "data"), ID: int32(id)}
	text := append([]string{
		"process.roles=" + role, fmt.Sprintf("node.id=%d", id), "listeners=" + listener, quorum, "controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "log.dirs=" + c.Data,
		"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=5",
	}, settings...)
	if err := os.WriteFile(c.Properties, []byte(strings.Join(text, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}
