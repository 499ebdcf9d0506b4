package replica

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// Special timestamps of ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// ask finds out where the leader's logs lie of partitions whose offset it does not have: first their ends, then their starts.
func (f *fetcher) ask(parts []*followed) {
	f.busy = true
	f.listOffsets(parts, latest, func(ends []int64) {
		f.listOffsets(parts, earliest, func(starts []int64) {
			f.busy = false
			for i, x := range parts {
				if x.gone || !x.outOf || ends[i] < 0 || starts[i] < 0 {
					continue
				}
				x.outOf = false
				if err := x.p.outOfRange(x.epoch, starts[i], ends[i]); err != nil {
					f.failed(x, err)
					continue
				}
				f.place(x)
			}
			f.next()
		})
	})
}

// listOffsets asks for one sort of offset of each partition; -1 where there is no answer, and then the partition rests.
func (f *fetcher) listOffsets(parts []*followed, timestamp int64, done func([]int64)) {
	req := protocol.NewListOffsetsRequest()
	req.ReplicaId = f.m.cfg.NodeID
	for _, x := range parts {
		p := protocol.NewListOffsetsRequestListOffsetsPartition()
		p.PartitionIndex, p.CurrentLeaderEpoch, p.Timestamp = x.p.Index, x.epoch, timestamp
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Name != x.p.Topic {
			req.Topics = append(req.Topics, protocol.ListOffsetsRequestListOffsetsTopic{Name: x.p.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	version := f.m.img.Load().Features.MetadataVersion().ListOffsetsVersion()
	f.client.Send(req, version, f.m.cfg.Fetch.Timeout, func(resp protocol.Response, err error) {
		f.queue.Post("listed", func() {
			if f.closed {
				return
			}
			r, _ := resp.(*protocol.ListOffsetsResponse)
			done(f.listed(parts, r, err))
		})
	})
}

func (f *fetcher) listed(parts []*followed, resp *protocol.ListOffsetsResponse, err error) []int64 {
	offsets := make([]int64, len(parts))
	for i, x := range parts {
		offsets[i] = -1
		one := err
		if err == nil {
			offsets[i], one = offsetIn(resp, x)
		}
		if one != nil {
			f.failed(x, one)
		}
	}
	return offsets
}

func offsetIn(resp *protocol.ListOffsetsResponse, x *followed) (int64, error) {
	for i := range resp.Topics {
		for _, p := range resp.Topics[i].Partitions {
			if resp.Topics[i].Name == x.p.Topic && p.PartitionIndex == x.p.Index {
				if err := kerr.FromCode(p.ErrorCode); err != nil {
					return -1, err
				}
				return p.Offset, nil
			}
		}
	}
	return -1, kerr.UnknownTopicOrPartition
}
