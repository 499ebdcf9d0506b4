package broker

import (
	"sync"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// InitProducerId is key 22, versions 0–5, for producers that are idempotent and not transactional. v3: the id and epoch that a producer
// has, for a bump (KIP-360). Path: the next id of a block that the controller gave this broker → answer, epoch 0. Errors: 42 an id without
// epoch or the other way round, an empty transactional id; 15 with a transactional id, whose coordinator is not here; 14 no ids to be had now.
func (b *Broker) InitProducerId(_ *rpc.Context, req *protocol.InitProducerIdRequest, respond func(*protocol.InitProducerIdResponse)) {
	resp := protocol.NewInitProducerIdResponse()
	fail := func(e *kerr.Error) {
		resp.ErrorCode, resp.ProducerId, resp.ProducerEpoch = e.Code, -1, -1
		respond(resp)
	}
	switch id := req.TransactionalId; {
	case (req.ProducerId == -1) != (req.ProducerEpoch == -1):
		fail(kerr.InvalidRequest)
	case id != nil && *id == "":
		fail(kerr.InvalidRequest)
	case id != nil:
		fail(kerr.CoordinatorNotAvailable)
	default:
		b.producerIDs.next(func(id int64, err *kerr.Error) {
			if err != nil {
				fail(err)
				return
			}
			resp.ProducerId = id
			respond(resp)
		})
	}
}

// producerIDs hands out the ids of blocks of 1,000 that the controller reserves for this broker. The next block is asked for when nine
// tenths of one are gone, so that nobody waits for it.
type producerIDs struct {
	b *Broker

	mu      sync.Mutex
	free    []idBlock // in order
	asked   bool      // a block is on its way
	waiting []func(int64, *kerr.Error)
}

// idBlock are the ids first <= id < end, of a block of size.
type idBlock struct{ first, end, size int64 }

func newProducerIDs(b *Broker) *producerIDs { return &producerIDs{b: b} }

// next calls done with an id that nobody had before.
func (p *producerIDs) next(done func(int64, *kerr.Error)) {
	p.mu.Lock()
	if len(p.free) == 0 {
		p.waiting = append(p.waiting, done)
		p.askUnlock()
		return
	}
	id := p.take()
	if block := p.free; len(block) > 1 || len(block) == 1 && block[0].end-block[0].first > block[0].size/10 {
		p.mu.Unlock()
	} else {
		p.askUnlock()
	}
	done(id, nil)
}

func (p *producerIDs) take() int64 {
	id := p.free[0].first
	if p.free[0].first++; p.free[0].first == p.free[0].end {
		p.free = p.free[1:]
	}
	return id
}

// askUnlock asks for a block unless one is on its way, and releases the lock.
func (p *producerIDs) askUnlock() {
	asked := p.asked
	p.asked = true
	p.mu.Unlock()
	if asked {
		return
	}
	req := protocol.NewAllocateProducerIdsRequest()
	req.BrokerId, req.BrokerEpoch = p.b.id, p.b.Epoch()
	p.b.ctrl.Send(nil, req, 0, func(resp protocol.Response, err error) {
		r, _ := resp.(*protocol.AllocateProducerIdsResponse)
		if err != nil || r == nil || r.ErrorCode != kerr.None || r.ProducerIdLen <= 0 {
			p.b.env.Logger().Warn("Could not get a block of producer ids.", "err", err)
			p.got(idBlock{})
			return
		}
		p.got(idBlock{r.ProducerIdStart, r.ProducerIdStart + int64(r.ProducerIdLen), int64(r.ProducerIdLen)})
	})
}

// got serves those who wait from a block, which is empty if there was none to be had: producers ask again.
func (p *producerIDs) got(block idBlock) {
	type answer struct {
		done func(int64, *kerr.Error)
		id   int64
		err  *kerr.Error
	}
	var answers []answer
	p.mu.Lock()
	p.asked = false
	if block.size > 0 {
		p.free = append(p.free, block)
	}
	for _, done := range p.waiting {
		switch {
		case block.size == 0:
			answers = append(answers, answer{done, -1, kerr.CoordinatorLoadInProgress})
		case len(p.free) == 0:
			answers = append(answers, answer{done, -1, kerr.CoordinatorLoadInProgress})
		default:
			answers = append(answers, answer{done, p.take(), nil})
		}
	}
	p.waiting = nil
	p.mu.Unlock()
	for _, a := range answers {
		a.done(a.id, a.err)
	}
}
