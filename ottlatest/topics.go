package ottlatest

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Versions of the requests, each the last but for what we do not need.
const (
	createTopicsVersion = 7
	metadataVersion     = 12
	listOffsetsVersion  = 7
)

// client asks brokers.
type client struct {
	conns map[string]*rpc.Client
	e     *real.Env
}

func newClient() *client {
	return &client{conns: map[string]*rpc.Client{}, e: real.New(real.Options{})}
}

func (k *client) close() {
	for _, c := range k.conns {
		c.Close()
	}
}

// send asks a broker, and waits.
func send[P protocol.Response](k *client, n *Node, req protocol.Request, version int16) (P, error) {
	c := k.conns[n.Addr()]
	if c == nil {
		c = rpc.NewClient(k.e, n.Addr(), "ottlatest")
		k.conns[n.Addr()] = c
	}
	type answer struct {
		resp protocol.Response
		err  error
	}
	got := make(chan answer, 1)
	c.Send(req, version, patience, func(resp protocol.Response, err error) { got <- answer{resp, err} })
	a := <-got
	if a.err != nil {
		var none P
		return none, fmt.Errorf("node %d: %w", n.ID(), a.err)
	}
	return a.resp.(P), nil
}

// CreateTopic makes a topic and waits until all brokers that answer know it, its replicas are in sync, and its leaders serve.
func (c *Cluster) CreateTopic(name string, partitions int) {
	c.t.Helper()
	k := newClient()
	defer k.close()
	brokers := c.answering()
	req := protocol.NewCreateTopicsRequest()
	req.Topics = []protocol.CreateTopicsRequestCreatableTopic{{Name: name, NumPartitions: int32(partitions), ReplicationFactor: int16(min(3, len(brokers)))}}
	resp, err := send[*protocol.CreateTopicsResponse](k, brokers[0], req, createTopicsVersion)
	if err == nil && resp.Topics[0].ErrorCode != 0 {
		err = kerr.FromCode(resp.Topics[0].ErrorCode)
		if m := resp.Topics[0].ErrorMessage; m != nil {
			err = errors.New(*m)
		}
	}
	if err != nil {
		c.t.Fatalf("ottlatest: create topic %s: %v", name, err)
	}
	c.eventually("wait for topic "+name, func() error {
		for _, n := range brokers {
			if err := k.ready(c, n, name, partitions); err != nil {
				return err
			}
		}
		return nil
	})
}

// answering are the brokers that can be asked.
func (c *Cluster) answering() (list []*Node) {
	c.t.Helper()
	for _, n := range c.Brokers() {
		if n.answers() {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		c.t.Fatalf("ottlatest: no broker answers")
	}
	return list
}

// describe asks a broker for a topic.
func (k *client) describe(n *Node, name string) (*protocol.MetadataResponseTopic, error) {
	req := protocol.NewMetadataRequest()
	req.AllowAutoTopicCreation = false
	topic := protocol.NewMetadataRequestTopic()
	topic.Name = &name
	req.Topics = []protocol.MetadataRequestTopic{topic}
	resp, err := send[*protocol.MetadataResponse](k, n, req, metadataVersion)
	if err != nil {
		return nil, err
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		return nil, fmt.Errorf("node %d, topic %s: %w", n.ID(), name, kerr.FromCode(code))
	}
	return &resp.Topics[0], nil
}

// ready says what is missing before a topic can be used by way of a broker.
func (k *client) ready(c *Cluster, n *Node, name string, partitions int) error {
	t, err := k.describe(n, name)
	if err != nil {
		return err
	}
	if len(t.Partitions) != partitions {
		return fmt.Errorf("node %d knows %d partitions of %s", n.ID(), len(t.Partitions), name)
	}
	for _, p := range t.Partitions {
		if p.LeaderId < 0 || len(p.IsrNodes) != len(p.ReplicaNodes) {
			return fmt.Errorf("node %d, %s-%d: leader %d, in sync %v of %v", n.ID(), name, p.PartitionIndex, p.LeaderId, p.IsrNodes, p.ReplicaNodes)
		}
		if p.LeaderId != n.ID() {
			continue
		}
		if err := k.leads(n, name, &p); err != nil {
			return err
		}
	}
	return nil
}

// leads says what is missing before a leader serves a partition.
func (k *client) leads(n *Node, name string, p *protocol.MetadataResponsePartition) error {
	part := protocol.NewListOffsetsRequestListOffsetsPartition()
	part.PartitionIndex, part.CurrentLeaderEpoch, part.Timestamp = p.PartitionIndex, p.LeaderEpoch, -1
	req := protocol.NewListOffsetsRequest()
	req.ReplicaId = -1
	req.Topics = []protocol.ListOffsetsRequestListOffsetsTopic{{Name: name, Partitions: []protocol.ListOffsetsRequestListOffsetsPartition{part}}}
	resp, err := send[*protocol.ListOffsetsResponse](k, n, req, listOffsetsVersion)
	if err != nil {
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("node %d, %s-%d: %w", n.ID(), name, p.PartitionIndex, kerr.FromCode(code))
	}
	return nil
}

// Leader waits until a partition has a leader that answers, and returns it.
func (c *Cluster) Leader(name string, partition int) *Node {
	c.t.Helper()
	var found *Node
	c.partition(name, partition, func(p *protocol.MetadataResponsePartition) error {
		if p.LeaderId >= 0 {
			if found = c.Node(p.LeaderId); found.answers() {
				return nil
			}
		}
		return fmt.Errorf("%s-%d: leader %d", name, partition, p.LeaderId)
	})
	return found
}

// AwaitISR waits until exactly these nodes are in sync for a partition.
func (c *Cluster) AwaitISR(name string, partition int, nodes ...*Node) {
	c.t.Helper()
	want := map[int32]bool{}
	for _, n := range nodes {
		want[n.ID()] = true
	}
	c.partition(name, partition, func(p *protocol.MetadataResponsePartition) error {
		same := len(p.IsrNodes) == len(want)
		for _, id := range p.IsrNodes {
			same = same && want[id]
		}
		if !same {
			return fmt.Errorf("%s-%d: in sync %v", name, partition, p.IsrNodes)
		}
		return nil
	})
}

// partition asks a broker for a partition until that is as wished.
func (c *Cluster) partition(name string, partition int, wished func(*protocol.MetadataResponsePartition) error) {
	c.t.Helper()
	k := newClient()
	defer k.close()
	turn := 0
	c.eventually(fmt.Sprintf("wait for %s-%d", name, partition), func() error {
		brokers := c.answering()
		turn++ // one of them may be cut off from the controllers
		t, err := k.describe(brokers[turn%len(brokers)], name)
		if err != nil {
			return err
		}
		for _, p := range t.Partitions {
			if int(p.PartitionIndex) == partition {
				return wished(&p)
			}
		}
		return fmt.Errorf("%s has %d partitions", name, len(t.Partitions))
	})
}
