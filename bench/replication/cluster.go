package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/bench/beside"
)

// cluster is a controller and three brokers, with Kafka's defaults.
type cluster struct {
	controller *beside.Node
	brokers    []*beside.Node // 1, 2, 3
	admin      *kgo.Client
}

func start(ctx context.Context, dir string, k *beside.Kind) (*cluster, error) {
	addrs, err := beside.FreeAddrs(4)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	common := []string{
		"controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=" + addrs[0],
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"default.replication.factor=3", "min.insync.replicas=2",
	}
	c.controller, err = k.NewNode(dir, 100, addrs[0], append([]string{"process.roles=controller", "listeners=CONTROLLER://" + addrs[0]}, common...), "--standalone")
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs[1:] {
		b, err := k.NewNode(dir, int32(i+1), addr, append([]string{"process.roles=broker", "listeners=PLAINTEXT://" + addr}, common...), "--no-initial-controllers")
		if err != nil {
			return nil, err
		}
		c.brokers = append(c.brokers, b)
	}
	for _, n := range c.nodes() {
		if err := n.Format(); err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes() {
		if err := n.Start(); err != nil {
			c.stop()
			return nil, err
		}
	}
	if c.admin, err = c.client(); err != nil {
		c.stop()
		return nil, err
	}
	err = c.until(ctx, "three brokers", func() (bool, error) {
		md, err := c.metadata(ctx)
		return err == nil && len(md.Brokers) == 3, nil
	})
	if err != nil {
		c.stop()
	}
	return c, err
}

func (c *cluster) nodes() []*beside.Node {
	return append([]*beside.Node{c.controller}, c.brokers...)
}

func (c *cluster) stop() {
	if c.admin != nil {
		c.admin.Close()
	}
	for _, n := range slices.Backward(c.nodes()) {
		n.End(syscall.SIGKILL)
	}
}

// client is one whose view of the cluster is at most 50 ms old when something fails.
func (c *cluster) client(o ...kgo.Opt) (*kgo.Client, error) {
	var seeds []string
	for _, b := range c.brokers {
		seeds = append(seeds, b.Addr)
	}
	return kgo.NewClient(append(o, kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50*time.Millisecond), kgo.DialTimeout(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))...)
}

// cpu is the processor time of all four processes.
func (c *cluster) cpu() (sum time.Duration, err error) {
	for _, n := range c.nodes() {
		d, err := n.CPU()
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// until asks again and again, until something is so.
func (c *cluster) until(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		ok, err := is()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("in vain: " + what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *cluster) metadata(ctx context.Context, topics ...string) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, t := range topics {
		x := kmsg.NewMetadataRequestTopic()
		x.Topic = &t
		req.Topics = append(req.Topics, x)
	}
	return req.RequestWith(ctx, c.admin)
}

// create makes a topic. The brokers of its partitions are named, or the controller chooses three for each.
func (c *cluster) create(ctx context.Context, name string, partitions int, on ...[]int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 3
	if len(on) > 0 {
		t.NumPartitions, t.ReplicationFactor = -1, -1
		for i := range partitions {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), on[i%len(on)]
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
	}
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 60_000
	resp, err := req.RequestWith(ctx, c.admin)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		return err
	}
	return c.whole(ctx, name)
}

// whole waits until every partition of the topics has a leader and all its replicas in the ISR.
func (c *cluster) whole(ctx context.Context, topics ...string) error {
	return c.until(ctx, fmt.Sprintf("all replicas of %s in sync", strings.Join(topics, ", ")), func() (bool, error) {
		return c.all(ctx, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader >= 0 && len(p.ISR) == len(p.Replicas)
		}, topics...), nil
	})
}

// all reports whether something is so with every partition of the topics.
func (c *cluster) all(ctx context.Context, is func(kmsg.MetadataResponseTopicPartition) bool, topics ...string) bool {
	md, err := c.metadata(ctx, topics...)
	if err != nil {
		return false
	}
	for _, t := range md.Topics {
		if t.ErrorCode != 0 {
			return false
		}
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 || !is(p) {
				return false
			}
		}
	}
	return true
}
