package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

const (
	// maxAssignments is how many replicas one request may assign, as in Kafka.
	maxAssignments = 2250
	// assignmentDelay is how long an assignment waits for others: one image brings many.
	assignmentDelay = 10 * time.Millisecond
	// Between attempts that failed, as in Kafka.
	minAssignmentBackOff = 100 * time.Millisecond
	maxAssignmentBackOff = 10 * time.Second
)

// replicaID is a partition, of which this broker has a replica.
type replicaID struct {
	topic     uuid.UUID
	partition int32
}

func (r replicaID) compare(o replicaID) int {
	if c := r.topic.Compare(o.topic); c != 0 {
		return c
	}
	return int(r.partition) - int(o.partition)
}

// assignments tells the controller in which log directory a replica really is, where the metadata says something else
// (AssignReplicasToDirs, KIP-858). Without that the controller could not tell which replicas a failed directory takes. A core.
type assignments struct {
	env     env.Env
	queue   env.Queue
	channel Channel
	id      int32
	epoch   func() int64 // of the broker
	image   func() *image.Image

	ready    map[replicaID]uuid.UUID // to be sent
	inFlight map[replicaID]uuid.UUID // the request under way; nil if there is none
	failures int                     // in a row
	timer    env.Timer               // nil if none is set
}

func newAssignments(e env.Env, channel Channel, id int32, epoch func() int64, img func() *image.Image) *assignments {
	return &assignments{
		env: e, queue: e.NewQueue("directory-assignments"), channel: channel, id: id, epoch: epoch, image: img, ready: map[replicaID]uuid.UUID{},
	}
}

// assign notes that a replica is in a directory. Any goroutine.
func (a *assignments) assign(r replicaID, dir uuid.UUID) {
	a.queue.Post("assign", func() {
		a.ready[r] = dir
		a.schedule(assignmentDelay)
	})
}

func (a *assignments) close() { a.queue.Close(nil) }

// schedule has the next request sent, unless one is under way or planned.
func (a *assignments) schedule(d time.Duration) {
	if len(a.ready) == 0 || a.inFlight != nil || a.timer != nil {
		return
	}
	if a.failures > 0 {
		d = min(maxAssignmentBackOff, minAssignmentBackOff<<min(a.failures-1, 10))
	}
	a.timer = a.queue.After(d, "send assignments", a.send)
}

// send sends what still holds.
func (a *assignments) send() {
	a.timer = nil
	img := a.image()
	a.inFlight = map[replicaID]uuid.UUID{}
	for _, r := range slices.SortedFunc(maps.Keys(a.ready), replicaID.compare) {
		if len(a.inFlight) == maxAssignments {
			break
		}
		if a.holds(img, r) {
			a.inFlight[r] = a.ready[r]
		}
		delete(a.ready, r)
	}
	if len(a.inFlight) == 0 {
		a.inFlight = nil
		return
	}
	a.env.Logger().Info(fmt.Sprintf("Sending %d assignments of replicas to log directories", len(a.inFlight)))
	a.channel.Send(nil, a.request(), 0, func(resp protocol.Response, err error) {
		a.queue.Post("assignments answered", func() { a.answered(resp, err) })
	})
}

// holds says that the controller can still want to know: the replica is there, and elsewhere than the metadata says.
func (a *assignments) holds(img *image.Image, r replicaID) bool {
	t := img.Topics.ByID(r.topic)
	if t == nil {
		return false
	}
	p := img.Topics.Partition(t.Name, r.partition)
	return p != nil && p.HasReplica(a.id) && p.Directory(a.id) != a.ready[r]
}

func (a *assignments) request() *protocol.AssignReplicasToDirsRequest {
	req := protocol.NewAssignReplicasToDirsRequest()
	req.BrokerId, req.BrokerEpoch = a.id, a.epoch()
	dirs := slices.SortedFunc(maps.Values(a.inFlight), uuid.UUID.Compare)
	for _, dir := range slices.Compact(dirs) {
		d := protocol.AssignReplicasToDirsRequestDirectoryData{Id: dir}
		for _, r := range slices.SortedFunc(maps.Keys(a.inFlight), replicaID.compare) {
			if a.inFlight[r] != dir {
				continue
			}
			if n := len(d.Topics); n == 0 || d.Topics[n-1].TopicId != r.topic {
				d.Topics = append(d.Topics, protocol.AssignReplicasToDirsRequestTopicData{TopicId: r.topic})
			}
			t := &d.Topics[len(d.Topics)-1]
			t.Partitions = append(t.Partitions, protocol.AssignReplicasToDirsRequestPartitionData{PartitionIndex: r.partition})
		}
		req.Directories = append(req.Directories, d)
	}
	return req
}

// answered takes the controller's answer. What it refused, and what it did not speak of, is sent again later.
func (a *assignments) answered(resp protocol.Response, err error) {
	sent := a.inFlight
	a.inFlight = nil
	a.failures++
	r, _ := resp.(*protocol.AssignReplicasToDirsResponse)
	switch {
	case err != nil || r == nil:
		a.env.Logger().Error(fmt.Sprintf("%d assignments failed. Retrying.", len(sent)), "err", err)
	case r.ErrorCode != kerr.None:
		a.env.Logger().Error(fmt.Sprintf("%d assignments failed. Retrying.", len(sent)), "err", kerr.FromCode(r.ErrorCode))
	default:
		if refused := accept(r, sent); len(refused) > 0 {
			a.env.Logger().Error("Some assignments failed. Retrying.", "errors", strings.Join(refused, ", "))
		}
		if len(sent) == 0 {
			a.failures = 0
		}
	}
	for id, dir := range sent {
		if _, newer := a.ready[id]; !newer {
			a.ready[id] = dir
		}
	}
	a.schedule(0)
}

// accept takes what the controller has accepted out of what was sent, and tells what it has not.
func accept(r *protocol.AssignReplicasToDirsResponse, sent map[replicaID]uuid.UUID) (refused []string) {
	for i := range r.Directories {
		for _, t := range r.Directories[i].Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == kerr.None {
					delete(sent, replicaID{t.TopicId, p.PartitionIndex})
				} else {
					refused = append(refused, fmt.Sprintf("%s-%d: %s", t.TopicId, p.PartitionIndex, kerr.Name(p.ErrorCode)))
				}
			}
		}
	}
	return refused
}
