package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// cluster is three controllers, and who its brokers pretend to be.
type cluster struct {
	processes []*process
	active    atomic.Pointer[process]
	epochs    []int64 // of the brokers 1, 2, …
	topics    int
}

func (c *cluster) leader() *process { return c.active.Load() }

// look finds the active controller: one that says so itself.
func (c *cluster) look() bool {
	for _, p := range c.processes {
		if p.cmd == nil {
			continue
		}
		k, err := dial(p.addr)
		if err != nil {
			continue
		}
		req := protocol.NewDescribeQuorumRequest()
		req.Topics = []protocol.DescribeQuorumRequestTopicData{{TopicName: "__cluster_metadata", Partitions: []protocol.DescribeQuorumRequestPartitionData{{}}}}
		resp, err := ask[*protocol.DescribeQuorumResponse](k, 0, req, time.Second)
		_ = k.Close()
		if err == nil && len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode == 0 && resp.Topics[0].Partitions[0].LeaderId == p.id {
			c.active.Store(p)
			return true
		}
	}
	return false
}

func (c *cluster) await(within time.Duration) error {
	for begin := time.Now(); !c.look(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > within {
			return errNoLeader
		}
	}
	return nil
}

// register makes brokers known.
func (c *cluster) register(n int) error {
	for id := int32(1); id <= int32(n); id++ {
		req := protocol.NewBrokerRegistrationRequest()
		req.BrokerId, req.ClusterId, req.IncarnationId, req.Rack = id, clusterID, uuid.UUID{15: byte(id), 0: 1}, nil
		req.LogDirs = []uuid.UUID{{15: byte(id), 0: 2}}
		req.Listeners = []protocol.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(id)}}
		for _, f := range metadata.Features {
			req.Features = append(req.Features, protocol.BrokerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
		}
		epoch, err := c.registerOne(req)
		if err != nil {
			return fmt.Errorf("register broker %d: %w", id, err)
		}
		c.epochs = append(c.epochs, epoch)
	}
	return nil
}

func (c *cluster) registerOne(req *protocol.BrokerRegistrationRequest) (epoch int64, err error) {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(20 * time.Millisecond) {
		k, e := dial(c.leader().addr)
		if e != nil {
			return 0, e
		}
		resp, e := ask[*protocol.BrokerRegistrationResponse](k, 4, req, 10*time.Second)
		_ = k.Close()
		if e == nil && resp.ErrorCode == 0 {
			return resp.BrokerEpoch, nil
		}
		if err = e; err == nil {
			err = fmt.Errorf("error %d", resp.ErrorCode)
		}
		_ = c.look()
	}
	return 0, err
}

// beats are the heartbeats of all brokers, twice a second.
type beats struct {
	c      *cluster
	silent atomic.Int32 // the broker that sends none
	stop   chan struct{}
	wg     sync.WaitGroup
}

func (c *cluster) heartbeats() *beats {
	b := &beats{c: c, stop: make(chan struct{})}
	for i := range c.epochs {
		b.wg.Go(func() { b.run(int32(i + 1)) })
	}
	return b
}

func (b *beats) silence(broker int32) { b.silent.Store(broker) }

func (b *beats) end() {
	close(b.stop)
	b.wg.Wait()
}

func (b *beats) run(broker int32) {
	var k *conn
	var to *process
	for {
		if b.silent.Load() != broker {
			if p := b.c.leader(); k == nil || p != to {
				if k != nil {
					_ = k.Close()
				}
				to = p
				k, _ = dial(p.addr)
			}
			if k != nil && beat(k, broker, b.c.epochs[broker-1], 10*time.Second) != nil {
				_ = k.Close()
				k = nil
			}
		}
		select {
		case <-b.stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// beat sends a heartbeat of a broker that has read everything.
func beat(k *conn, broker int32, epoch int64, within time.Duration) error {
	req := protocol.NewBrokerHeartbeatRequest()
	req.BrokerId, req.BrokerEpoch, req.CurrentMetadataOffset = broker, epoch, 1<<40
	_, err := ask[*protocol.BrokerHeartbeatResponse](k, 1, req, within)
	return err
}

// create makes topics of so many partitions each.
func (c *cluster) create(k *conn, topics, partitions int, within time.Duration) error {
	req := protocol.NewCreateTopicsRequest()
	req.TimeoutMs = int32(within.Milliseconds())
	for range topics {
		t := protocol.NewCreateTopicsRequestCreatableTopic()
		t.Name, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("topic-%d", c.topics), int32(partitions), 3
		c.topics++
		req.Topics = append(req.Topics, t)
	}
	resp, err := ask[*protocol.CreateTopicsResponse](k, 7, req, within)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("create %s: error %d", t.Name, t.ErrorCode)
		}
	}
	return nil
}

// grow adds partitions, in topics of a hundred, ten topics a request.
func (c *cluster) grow(partitions int) (time.Duration, error) {
	k, err := dial(c.leader().addr)
	if err != nil {
		return 0, err
	}
	defer k.Close()
	for begin := time.Now(); c.create(k, 1, 1, 10*time.Second) != nil; time.Sleep(50 * time.Millisecond) { // until all brokers are unfenced
		if time.Since(begin) > time.Minute {
			return 0, errors.New("the brokers do not become usable")
		}
	}
	begin := time.Now()
	for done := 0; done < partitions; done += 1000 {
		if err := c.create(k, 10, 100, time.Minute); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// small is the median of the time of a change of a few records, in milliseconds.
func (c *cluster) small(n int) (float64, error) {
	k, err := dial(c.leader().addr)
	if err != nil {
		return 0, err
	}
	defer k.Close()
	var took []float64
	for range n {
		begin := time.Now()
		if err := c.create(k, 1, 1, 10*time.Second); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	return median(took), nil
}

// probe sends heartbeats of broker 1, one after the other, and returns the longest time of an answer.
func (c *cluster) probe(d time.Duration) (longest time.Duration, err error) {
	k, err := dial(c.leader().addr)
	if err != nil {
		return 0, err
	}
	defer k.Close()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		begin := time.Now()
		if err := beat(k, 1, c.epochs[0], 30*time.Second); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(begin))
	}
	return longest, nil
}

// change waits until a topic can be made.
func (c *cluster) change(begin time.Time) (float64, error) {
	for time.Since(begin) < 2*time.Minute {
		if c.look() {
			if k, err := dial(c.leader().addr); err == nil {
				err = c.create(k, 1, 1, 30*time.Second)
				_ = k.Close()
				if err == nil {
					return time.Since(begin).Seconds(), nil
				}
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, errors.New("no change for two minutes")
}

// failover kills the active controller, in seconds to the next change.
func (c *cluster) failover() (float64, error) {
	killed := c.leader()
	begin := time.Now()
	killed.end(syscall.SIGKILL)
	s, err := c.change(begin)
	if err != nil {
		return 0, err
	}
	return s, killed.start()
}

// restart stops all controllers in order and starts them, in seconds to the next change.
func (c *cluster) restart() (float64, error) {
	for _, p := range c.processes {
		p.end(syscall.SIGTERM)
	}
	begin := time.Now()
	for _, p := range c.processes {
		if err := p.start(); err != nil {
			return 0, err
		}
	}
	return c.change(begin)
}
