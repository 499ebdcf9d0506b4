package broker

import (
	"errors"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
)

// alterPartitionVersion: brokers of the ISR are named with their epochs.
const alterPartitionVersion = 3

// alterRetryDelay is the pause after the controller failed a whole request.
const alterRetryDelay = 50 * time.Millisecond

// AlterPartitions carries what leaders ask about their ISRs to the controller (KIP-497): one request at a time, with all that came meanwhile in the
// next one. A core.
type AlterPartitions struct {
	id      int32
	epoch   func() int64
	ctrl    Channel
	queue   env.Queue
	waiting []isrAsk
	busy    bool
	closed  bool
}

type isrAsk struct {
	change replica.ISRChange
	done   func(replica.ISRAnswer, error)
}

// NewAlterPartitions speaks for the broker id, whose epoch is epoch().
func NewAlterPartitions(e env.Env, ctrl Channel, id int32, epoch func() int64) *AlterPartitions {
	return &AlterPartitions{id: id, epoch: epoch, ctrl: ctrl, queue: e.NewQueue("alter-partition")}
}

// Alter asks for an ISR and calls done once, unless the node ends first. Any goroutine.
func (a *AlterPartitions) Alter(c replica.ISRChange, done func(replica.ISRAnswer, error)) {
	a.queue.Post("alter", func() {
		a.add(isrAsk{c, done})
		a.next()
	})
}

// add lets an ask wait. It takes the place of an older one of the same partition, which is of no interest any more: a request that named a partition
// twice would be answered twice.
func (a *AlterPartitions) add(k isrAsk) {
	for i := range a.waiting {
		if old := &a.waiting[i]; old.change.TopicID == k.change.TopicID && old.change.Partition == k.change.Partition {
			old.done(replica.ISRAnswer{}, kerr.OperationNotAttempted)
			*old = k
			return
		}
	}
	a.waiting = append(a.waiting, k)
}

// Close drops what waits.
func (a *AlterPartitions) Close() {
	a.queue.Post("close", func() {
		a.closed, a.waiting = true, nil
		a.queue.Close(nil)
	})
}

func (a *AlterPartitions) next() {
	if a.busy || a.closed || len(a.waiting) == 0 {
		return
	}
	asks := a.waiting
	a.waiting, a.busy = nil, true
	a.ctrl.Send(nil, a.request(asks), alterPartitionVersion, func(resp protocol.Response, err error) {
		a.queue.Post("answer", func() {
			a.busy = false
			r, _ := resp.(*protocol.AlterPartitionResponse)
			a.answered(asks, r, err)
		})
	})
}

func (a *AlterPartitions) request(asks []isrAsk) *protocol.AlterPartitionRequest {
	req := protocol.NewAlterPartitionRequest()
	req.BrokerId, req.BrokerEpoch = a.id, a.epoch()
	at := map[[16]byte]int{}
	for _, k := range asks {
		c := k.change
		i, ok := at[c.TopicID]
		if !ok {
			i = len(req.Topics)
			at[c.TopicID] = i
			req.Topics = append(req.Topics, protocol.AlterPartitionRequestTopicData{TopicId: c.TopicID})
		}
		p := protocol.NewAlterPartitionRequestPartitionData()
		p.PartitionIndex, p.LeaderEpoch, p.PartitionEpoch = c.Partition.Partition, c.LeaderEpoch, c.PartitionEpoch
		for _, b := range c.ISR {
			p.NewIsrWithEpochs = append(p.NewIsrWithEpochs, protocol.AlterPartitionRequestBrokerState{BrokerId: b.ID, BrokerEpoch: b.Epoch})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}

// answered gives everybody his answer. When the whole request failed it is sent again after a while: the controller may be another one then, or this
// broker registered.
func (a *AlterPartitions) answered(asks []isrAsk, resp *protocol.AlterPartitionResponse, err error) {
	if err == nil {
		err = kerr.FromCode(resp.ErrorCode)
	}
	if err != nil {
		a.retry(asks)
		return
	}
	var again []isrAsk
	for _, k := range asks {
		answer, err := answerTo(k.change, resp)
		if errors.Is(err, kerr.NotController) { // it knows less than this broker
			again = append(again, k)
			continue
		}
		k.done(answer, err)
	}
	if len(again) > 0 {
		a.retry(again)
		return
	}
	a.next()
}

func (a *AlterPartitions) retry(asks []isrAsk) {
	newer := a.waiting
	a.waiting = asks
	for _, k := range newer {
		a.add(k)
	}
	a.busy = true
	a.queue.After(alterRetryDelay, "retry", func() {
		a.busy = false
		a.next()
	})
}

var errNotAnswered = errors.New("the controller's answer does not name the partition")

func answerTo(c replica.ISRChange, resp *protocol.AlterPartitionResponse) (replica.ISRAnswer, error) {
	for i := range resp.Topics {
		if resp.Topics[i].TopicId != c.TopicID {
			continue
		}
		for _, p := range resp.Topics[i].Partitions {
			if p.PartitionIndex == c.Partition.Partition {
				return replica.ISRAnswer{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: p.Isr}, kerr.FromCode(p.ErrorCode)
			}
		}
	}
	return replica.ISRAnswer{}, errNotAnswered
}
