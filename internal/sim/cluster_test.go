package sim

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	envsim "github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// clusterRun is a cluster with a topic and clients.
type clusterRun struct {
	*Cluster
	topic      string
	partitions int32
	writers    []*writer
	readers    []*reader
}

func newClusterRun(seed uint64, controllers int) (*clusterRun, error) {
	c, err := NewCluster(seed, envsim.Options{Disk: envsim.DiskFaults{Torn: 0.3, Garbled: 0.2}}, controllers, 3)
	if err != nil {
		return nil, err
	}
	r := &clusterRun{Cluster: c, topic: "t", partitions: 2}
	if err := c.StartAll(); err != nil {
		return r, err
	}
	req := protocol.NewCreateTopicsRequest()
	topic := protocol.NewCreateTopicsRequestCreatableTopic()
	topic.Name, topic.NumPartitions, topic.ReplicationFactor = r.topic, r.partitions, 3
	req.Topics = append(req.Topics, topic)
	resp, err := c.ask(c.broker(1), req, 7)
	if err != nil {
		return r, err
	}
	if code := resp.(*protocol.CreateTopicsResponse).Topics[0].ErrorCode; code != kerr.None {
		return r, fmt.Errorf("create topic: %w", kerr.FromCode(code))
	}
	for p := range r.partitions {
		for i := range 2 {
			w := newWriter(c, fmt.Sprintf("w%d.%d", p, i), r.topic, p)
			r.writers = append(r.writers, w)
			w.begin()
		}
		reader := newReader(c, r.topic, p)
		r.readers = append(r.readers, reader)
		reader.begin()
	}
	return r, nil
}

// broken is the first promise that was seen broken.
func (r *clusterRun) broken() error {
	for _, w := range r.writers {
		if w.err != nil {
			return w.err
		}
	}
	for _, x := range r.readers {
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// play lets a storm pass, and looks at what is left of it.
func (r *clusterRun) play(steps int) error {
	r.RunFor(2 * time.Second)
	storm := NewStorm(r.Cluster)
	for range steps {
		storm.Step()
		if err := r.broken(); err != nil {
			return err
		}
	}
	storm.Calm()
	return r.settle()
}

// settle waits until nothing is left to be done: invariant 17.
func (r *clusterRun) settle() error {
	for _, w := range r.writers {
		w.stop = true
	}
	settled := func() bool {
		for _, w := range r.writers {
			if w.count > 0 && w.err == nil {
				return false
			}
		}
		return r.allRun() && r.whole()
	}
	if !r.RunUntil(time.Minute, settled) {
		return fmt.Errorf("invariant 17: a minute after all trouble ended: %s", r.unsettled())
	}
	if err := r.broken(); err != nil {
		return err
	}
	r.RunFor(2 * time.Second)
	return r.check()
}

func (r *clusterRun) unsettled() string {
	var b bytes.Buffer
	for _, m := range r.Members {
		if !m.running {
			fmt.Fprintf(&b, "%s does not run (%v); ", m.name, m.err)
		}
	}
	for _, w := range r.writers {
		if w.count > 0 {
			fmt.Fprintf(&b, "%s waits for the acknowledgement of record %d; ", w.name, w.next)
		}
	}
	for _, m := range r.Brokers() {
		if m.running {
			for i, p := range m.node.Broker().Image().Topics.ByName(r.topic).Partitions {
				fmt.Fprintf(&b, "%s knows of partition %d leader %d epoch %d ISR %v replicas %v; ", m.name, i, p.Leader, p.LeaderEpoch, p.ISR, p.Replicas)
			}
		}
	}
	return b.String()
}

// check reads every replica from its start to its end and compares them with each other and with what was acknowledged and read
// before: invariants 10, 11 and 12.
func (r *clusterRun) check() error {
	for p := range r.partitions {
		var first []string
		for i, m := range r.Brokers() {
			values, err := r.readAll(m, p)
			if err != nil {
				return fmt.Errorf("replica %d of partition %d: %w", m.ID, p, err)
			}
			if i == 0 {
				first = values
			} else if !slices.Equal(first, values) {
				return fmt.Errorf("invariant 10: of partition %d broker 1 has %v and broker %d has %v", p, first, m.ID, values)
			}
		}
		if err := r.compare(p, first); err != nil {
			return err
		}
	}
	return nil
}

func (r *clusterRun) readAll(m *Member, partition int32) (values []string, err error) {
	for {
		resp, err := r.ask(m, fetchRequest(r.topic, partition, int64(len(values))), 12)
		if err != nil {
			return nil, err
		}
		part := resp.(*protocol.FetchResponse).Responses[0].Partitions[0]
		if part.ErrorCode != kerr.None {
			return nil, kerr.FromCode(part.ErrorCode)
		}
		n := len(values)
		if values, err = appendValues(values, part.Records); err != nil {
			return nil, err
		}
		if int64(len(values)) >= part.HighWatermark {
			return values, nil
		}
		if len(values) == n {
			return nil, fmt.Errorf("nothing at offset %d, below the high watermark %d", n, part.HighWatermark)
		}
	}
}

func (r *clusterRun) compare(partition int32, values []string) error {
	for _, x := range r.readers {
		if x.partition == partition && (len(x.seen) > len(values) || !slices.Equal(x.seen, values[:len(x.seen)])) {
			return fmt.Errorf("invariant 11: a reader of partition %d saw %v, and there is %v", partition, x.seen, values)
		}
	}
	for _, w := range r.writers {
		if w.partition != partition {
			continue
		}
		for offset, v := range w.acked {
			if offset >= int64(len(values)) || values[offset] != v {
				return fmt.Errorf("invariant 11: offset %d of partition %d was acknowledged with %s; the log has %d records", offset, partition, v, len(values))
			}
		}
		next := 0
		for _, v := range values {
			if v == fmt.Sprintf("%s/%d", w.name, next) {
				next++
			} else if len(v) > len(w.name) && v[:len(w.name)+1] == w.name+"/" {
				return fmt.Errorf("invariant 12: partition %d has %s where %s/%d was to come", partition, v, w.name, next)
			}
		}
	}
	return nil
}

// TestClusterSeeds lets clusters of three brokers pass through storms. OTTLA_SIM_SEEDS says how many, OTTLA_SIM_FIRST which is the first.
func TestClusterSeeds(t *testing.T) {
	first, n := number(t, "OTTLA_SIM_FIRST", 1), number(t, "OTTLA_SIM_SEEDS", 20)
	total := map[string]int{}
	records := 0
	for seed := first; seed < first+n; seed++ {
		r, err := newClusterRun(uint64(seed), 1+2*(seed%2))
		if err == nil {
			err = r.play(8)
		}
		if err != nil {
			r.Report(t.Output(), 100)
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, name := range stormNames {
			total[name] += r.Counted(name)
		}
		for _, w := range r.writers {
			records += len(w.acked)
		}
	}
	t.Logf("%d records acknowledged, trouble: %v", records, total)
}
