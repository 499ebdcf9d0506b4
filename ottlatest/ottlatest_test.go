package ottlatest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ottla-io/ottla/ottlatest"
)

// quick makes followers and brokers that are silent leave soon.
var quick = []ottlatest.Option{
	ottlatest.Setting("broker.session.timeout.ms", "1000"), ottlatest.Setting("broker.heartbeat.interval.ms", "100"),
	ottlatest.Setting("controller.quorum.fetch.timeout.ms", "1000"), ottlatest.Setting("replica.lag.time.max.ms", "1000"), ottlatest.Setting("min.insync.replicas", "2"),
}

func start(t *testing.T, opts ...ottlatest.Option) (*ottlatest.Cluster, *kgo.Client) {
	t.Helper()
	c := ottlatest.Start(t, append(slices.Clone(quick), opts...)...)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return c, client
}

func produce(t *testing.T, client *kgo.Client, values ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, v := range values {
		if err := client.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", v, err)
		}
	}
}

func consume(t *testing.T, client *kgo.Client, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for len(got) < len(want) && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("read %v, want %v", got, want)
	}
}

// others are the brokers but one.
func others(c *ottlatest.Cluster, but *ottlatest.Node) (list []*ottlatest.Node) {
	for _, n := range c.Brokers() {
		if n != but {
			list = append(list, n)
		}
	}
	return list
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	c, client := start(t, ottlatest.Topic("orders", 1))
	produce(t, client, "a")
	n := c.Leader("orders", 0)
	n.Stop()
	if n.Running() {
		t.Fatal("it runs after Stop")
	}
	if k, err := net.Dial("tcp", n.Addr()); err == nil {
		k.Close()
		t.Fatal("somebody listens after Stop")
	}
	n.Start()
	produce(t, client, "b")
	n.Kill()
	n.Start()
	produce(t, client, "c")
	consume(t, client, "a", "b", "c")
}

func TestKillALeader(t *testing.T) {
	t.Parallel()
	c, client := start(t, ottlatest.Brokers(3), ottlatest.Controllers(3), ottlatest.Topic("orders", 1))
	produce(t, client, "a")
	leader, active := c.Leader("orders", 0), c.ActiveController()
	leader.Kill()
	active.Kill()
	c.AwaitISR("orders", 0, others(c, leader)...)
	produce(t, client, "b")
	leader.Start()
	active.Start()
	c.AwaitISR("orders", 0, c.Brokers()...)
	consume(t, client, "a", "b")
}

func TestFreezeAndCutOff(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		begin, end func(n *ottlatest.Node)
	}{
		"frozen":  {(*ottlatest.Node).Freeze, (*ottlatest.Node).Thaw},
		"cut off": {func(n *ottlatest.Node) { n.CutOff() }, (*ottlatest.Node).Reconnect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, client := start(t, ottlatest.Brokers(3), ottlatest.Topic("orders", 1))
			produce(t, client, "a")
			leader := c.Leader("orders", 0)
			trouble.begin(leader)
			c.AwaitISR("orders", 0, others(c, leader)...)
			if !leader.Running() {
				t.Fatal("it does not run any more")
			}
			trouble.end(leader)
			c.AwaitISR("orders", 0, c.Brokers()...)
			produce(t, client, "b")
			consume(t, client, "a", "b")
		})
	}
}

// A follower that only its leader cannot reach leaves the ISR, and is not fenced.
func TestCutTwoApart(t *testing.T) {
	t.Parallel()
	c, client := start(t, ottlatest.Brokers(3), ottlatest.Topic("orders", 1), ottlatest.Setting("broker.session.timeout.ms", "20000"))
	leader := c.Leader("orders", 0)
	follower := others(c, leader)[0]
	leader.CutOff(follower)
	produce(t, client, "a") // else the follower has all there is, and stays
	c.AwaitISR("orders", 0, others(c, follower)...)
	if c.Leader("orders", 0) != leader {
		t.Fatal("another leader, though the old one was there")
	}
	follower.Reconnect()
	c.AwaitISR("orders", 0, c.Brokers()...)
}

// TestNothingStays: no goroutine, no file, no port and no folder are left, whatever was done to the nodes.
func TestNothingStays(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	var addrs []string
	var dir string
	t.Run("cluster", func(t *testing.T) {
		c, client := start(t, ottlatest.Brokers(3), ottlatest.Controllers(1), ottlatest.Topic("orders", 4))
		produce(t, client, "a", "b")
		addrs, dir = append(c.Addrs(), c.Controllers()[0].Addr()), filepath.Dir(c.Node(1).Dir())
		c.Node(1).Stop()
		c.Node(2).Freeze()
		c.Node(3).CutOff()
	})
	// The runtime's own count goes down a moment after the last line of a goroutine.
	for start := time.Now(); runtime.NumGoroutine() > goroutines || openFiles(t) > files; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d now; %d files before, %d now\n%s", goroutines, runtime.NumGoroutine(), files, openFiles(t), buf[:runtime.Stack(buf, true)])
		}
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("port in use: %v", err)
			continue
		}
		l.Close()
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder %s is still there: %v", dir, err)
	}
}

// openFiles counts descriptors where the system tells them.
func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && strings.Contains(runtime.GOOS, "linux") {
		t.Fatal(err)
	}
	return len(entries)
}
