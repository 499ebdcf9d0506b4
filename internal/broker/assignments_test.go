package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// assigned is a controller that notes what it is told, and answers as a test says.
type assigned struct {
	w      *sim.World
	n      *sim.Node
	lines  []string
	refuse func(partition int32) int16
	err    error
}

func (c *assigned) Send(_ *rpc.Context, req protocol.Request, _ int16, done func(protocol.Response, error)) {
	r := req.(*protocol.AssignReplicasToDirsRequest)
	resp := protocol.NewAssignReplicasToDirsResponse()
	line := fmt.Sprintf("%s broker %d epoch %d:", c.w.Now().Round(time.Millisecond), r.BrokerId, r.BrokerEpoch)
	for _, d := range r.Directories {
		answer := protocol.AssignReplicasToDirsResponseDirectoryData{Id: d.Id}
		for _, t := range d.Topics {
			topic := protocol.AssignReplicasToDirsResponseTopicData{TopicId: t.TopicId}
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %d-%d in %d", t.TopicId[0], p.PartitionIndex, d.Id[0])
				topic.Partitions = append(topic.Partitions, protocol.AssignReplicasToDirsResponsePartitionData{PartitionIndex: p.PartitionIndex, ErrorCode: c.refuse(p.PartitionIndex)})
			}
			answer.Topics = append(answer.Topics, topic)
		}
		resp.Directories = append(resp.Directories, answer)
	}
	c.lines = append(c.lines, line)
	c.n.AfterFunc(time.Millisecond, func() { done(resp, c.err) })
}

// Where a replica is goes to the controller in batches, until it has accepted it or it is not true any more.
func TestAssignmentsOfReplicas(t *testing.T) {
	w := sim.NewWorld(1, sim.Options{SchedulingDelay: time.Nanosecond})
	n := w.NewNode("n1")
	d := image.NewDelta(image.Empty)
	topic := metadata.NewTopicRecord()
	topic.Name, topic.TopicId = "t", uuid.UUID{7}
	records := []metadata.Record{topic}
	for i := range int32(4) {
		p := metadata.NewPartitionRecord()
		p.TopicId, p.PartitionId, p.Replicas, p.Isr, p.Leader = topic.TopicId, i, []int32{1}, []int32{1}, 1
		p.Directories = []uuid.UUID{uuid.DirUnassigned}
		records = append(records, p)
	}
	records[4].(*metadata.PartitionRecord).Replicas[0] = 2
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	img := d.Apply(image.Provenance{})
	c := &assigned{w: w, n: n, refuse: func(int32) int16 { return 0 }, err: errors.New("no controller")}
	a := newAssignments(n, c, 1, func() int64 { return 9 }, func() *image.Image { return img })
	id := func(partition int32) replicaID { return replicaID{uuid.UUID{7}, partition} }
	a.assign(id(2), uuid.UUID{101})
	a.assign(id(0), uuid.UUID{102})
	a.assign(id(1), uuid.UUID{101})
	a.assign(id(3), uuid.UUID{101})                      // another broker's by now
	a.assign(replicaID{uuid.UUID{8}, 0}, uuid.UUID{101}) // deleted by now
	w.RunFor(time.Second)
	c.err = nil
	c.refuse = func(partition int32) int16 {
		if partition == 1 {
			return kerr.NotLeaderOrFollower.Code
		}
		return 0
	}
	w.RunFor(time.Second)
	a.assign(id(1), uuid.UUID{102}) // it has moved
	c.refuse = func(int32) int16 { return 0 }
	w.RunFor(time.Minute)
	want := `
10ms broker 1 epoch 9: 7-1 in 101 7-2 in 101 7-0 in 102
111ms broker 1 epoch 9: 7-1 in 101 7-2 in 101 7-0 in 102
312ms broker 1 epoch 9: 7-1 in 101 7-2 in 101 7-0 in 102
713ms broker 1 epoch 9: 7-1 in 101 7-2 in 101 7-0 in 102
1.514s broker 1 epoch 9: 7-1 in 101 7-2 in 101 7-0 in 102
3.115s broker 1 epoch 9: 7-1 in 102`
	if diff := cmp.Diff(strings.TrimSpace(want), strings.Join(c.lines, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(a.ready)+len(a.inFlight) > 0 {
		t.Errorf("left: %v %v", a.ready, a.inFlight)
	}
}
