package controller

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/timeline"
)

// producerIDBlock is how many producer ids a broker gets at a time.
const producerIDBlock = 1000

// producerIDs owns the next producer id that was not given out (KIP-730). It never goes back.
type producerIDs struct {
	log     *slog.Logger
	cluster *cluster
	next    *timeline.Value[int64]
}

func newProducerIDs(log *slog.Logger, c *cluster, r *timeline.Registry) *producerIDs {
	return &producerIDs{log, c, timeline.NewValue(r, int64(0))}
}

// allocate gives a broker the next block and returns its first id.
func (p *producerIDs) allocate(broker int32, epoch int64) (Result[int64], error) {
	if err := p.cluster.checkEpoch(broker, epoch); err != nil {
		return Result[int64]{}, err
	}
	first := p.next.Get()
	if first > math.MaxInt64-producerIDBlock {
		return Result[int64]{}, fail(kerr.UnknownServerError, "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit")
	}
	rec := metadata.NewProducerIdsRecord()
	rec.BrokerId, rec.BrokerEpoch, rec.NextProducerId = broker, epoch, first+producerIDBlock
	return Result[int64]{Records: []metadata.Versioned{{Record: rec}}, Response: first}, nil
}

func (p *producerIDs) replay(r *metadata.ProducerIdsRecord) error {
	if next := p.next.Get(); next > 0 && r.NextProducerId <= next {
		return fmt.Errorf("next producer id %d is not greater than the current one, %d", r.NextProducerId, next)
	}
	p.next.Set(r.NextProducerId)
	p.log.Info("Replaying ProducerIdsRecord.", "broker", r.BrokerId, "brokerEpoch", r.BrokerEpoch, "nextProducerId", r.NextProducerId)
	return nil
}
