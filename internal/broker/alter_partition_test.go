package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// heldChannel keeps requests until the test answers them.
type heldChannel struct {
	requests []*protocol.AlterPartitionRequest
	done     []func(protocol.Response, error)
}

func (h *heldChannel) Send(_ *rpc.Context, req protocol.Request, _ int16, done func(protocol.Response, error)) {
	h.requests, h.done = append(h.requests, req.(*protocol.AlterPartitionRequest)), append(h.done, done)
}

// alterWorld is an AlterPartitions whose controller is the test.
type alterWorld struct {
	t       *testing.T
	w       *sim.World
	n       *sim.Node
	ctrl    *heldChannel
	alter   *AlterPartitions
	answers []string
}

func newAlterWorld(t *testing.T) *alterWorld {
	w := sim.NewWorld(1, sim.Options{})
	a := &alterWorld{t: t, w: w, n: w.NewNode("n1"), ctrl: &heldChannel{}}
	a.alter = NewAlterPartitions(a.n, a.ctrl, 1, func() int64 { return 77 })
	return a
}

// ask asks for an ISR of partition p of a topic, which it names by its partition epoch.
func (a *alterWorld) ask(p, epoch int32) {
	c := replica.ISRChange{Partition: replica.TopicPartition{Topic: "t", Partition: p}, TopicID: uuid.UUID{5}, PartitionEpoch: epoch}
	a.n.Do("ask", func() {
		a.alter.Alter(c, func(_ replica.ISRAnswer, err error) {
			a.answers = append(a.answers, fmt.Sprintf("%d.%d: %v", p, epoch, err))
		})
	})
	a.w.RunFor(time.Millisecond)
}

// sent expects n requests so far, and that the last names partitions with these epochs, as partition.epoch.
func (a *alterWorld) sent(n int, want ...string) {
	a.t.Helper()
	if len(a.ctrl.requests) != n {
		a.t.Fatalf("%d requests, expected %d", len(a.ctrl.requests), n)
	}
	var got []string
	for _, t := range a.ctrl.requests[n-1].Topics {
		for _, p := range t.Partitions {
			got = append(got, fmt.Sprintf("%d.%d", p.PartitionIndex, p.PartitionEpoch))
		}
	}
	if !slices.Equal(got, want) {
		a.t.Errorf("request %d asks for %v, expected %v", n, got, want)
	}
}

// reply answers the last request; codes are those of its partitions.
func (a *alterWorld) reply(err error, codes ...*kerr.Error) {
	last := len(a.ctrl.requests) - 1
	resp := protocol.NewAlterPartitionResponse()
	i := 0
	for _, t := range a.ctrl.requests[last].Topics {
		answer := protocol.AlterPartitionResponseTopicData{TopicId: t.TopicId}
		for _, p := range t.Partitions {
			if i == len(codes) {
				break
			}
			r := protocol.NewAlterPartitionResponsePartitionData()
			r.PartitionIndex = p.PartitionIndex
			if codes[i] != nil {
				r.ErrorCode = codes[i].Code
			}
			i++
			answer.Partitions = append(answer.Partitions, r)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	a.n.Do("reply", func() { a.ctrl.done[last](resp, err) })
	a.w.RunFor(time.Millisecond)
}

func (a *alterWorld) answered(want ...string) {
	a.t.Helper()
	if !slices.Equal(a.answers, want) {
		a.t.Errorf("answers %q, expected %q", a.answers, want)
	}
	a.answers = nil
}

func TestOneRequestAtATime(t *testing.T) {
	a := newAlterWorld(t)
	a.ask(0, 1)
	a.sent(1, "0.1")
	a.ask(1, 1)
	a.ask(2, 1)
	a.sent(1, "0.1")
	a.reply(nil, nil)
	a.answered("0.1: <nil>")
	a.sent(2, "1.1", "2.1")
	if r := a.ctrl.requests[1]; r.BrokerId != 1 || r.BrokerEpoch != 77 {
		t.Errorf("request of broker %d in epoch %d", r.BrokerId, r.BrokerEpoch)
	}
	a.reply(nil, kerr.FencedLeaderEpoch) // and nothing about the other one
	a.answered("1.1: FENCED_LEADER_EPOCH", "2.1: "+errNotAnswered.Error())
	a.sent(2, "1.1", "2.1")
}

// A partition is in a request once: the newest ask is the one that counts, and it is not taken for answered by what an older one is told.
func TestTheNewestAskCounts(t *testing.T) {
	a := newAlterWorld(t)
	a.ask(0, 1)
	a.ask(0, 2)
	a.ask(1, 1)
	a.ask(0, 3)
	a.answered("0.2: OPERATION_NOT_ATTEMPTED")
	a.reply(nil, kerr.InvalidUpdateVersion)
	a.answered("0.1: INVALID_UPDATE_VERSION")
	a.sent(2, "0.3", "1.1")

	a.ask(0, 4)
	a.reply(errors.New("no controller"))
	a.w.RunFor(alterRetryDelay)
	a.answered("0.3: OPERATION_NOT_ATTEMPTED")
	a.sent(3, "0.4", "1.1")
}

func TestWhatFailedIsAskedAgain(t *testing.T) {
	a := newAlterWorld(t)
	a.ask(0, 1)
	a.ask(1, 1)
	a.reply(ErrNoController)
	a.sent(1, "0.1") // not at once
	a.w.RunFor(alterRetryDelay)
	a.sent(2, "0.1", "1.1")
	a.reply(nil, nil, kerr.NotController)
	a.answered("0.1: <nil>")
	a.w.RunFor(alterRetryDelay)
	a.sent(3, "1.1")
	a.n.Do("close", a.alter.Close)
	a.w.RunFor(time.Millisecond)
	a.reply(nil, nil)
	a.answered()
}
