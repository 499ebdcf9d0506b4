package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// Check asks the node, which runs, for everything and compares it with what the client was told. powerCut says that what was not
// synced may be gone: the client then takes what is left for the truth.
func (l *Workload) Check(powerCut bool) error {
	if err := l.checkMetadata(); err != nil {
		return err
	}
	for _, t := range l.topics {
		found, err := l.read(t)
		if err == nil {
			err = l.compare(t, found, powerCut && !t.flushed)
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
	}
	return l.checkCommitted(powerCut)
}

// checkMetadata looks for topics and settings (1).
func (l *Workload) checkMetadata() error {
	resp, err := l.w.Read(metadataOfAll(), 12)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for _, t := range resp.(*protocol.MetadataResponse).Topics {
		ids[*t.Name] = t.TopicId.String()
	}
	for _, t := range l.topics {
		if ids[t.name] != t.id.String() {
			return fmt.Errorf("invariant 1: topic %s was created with id %s, and has %q", t.name, t.id, ids[t.name])
		}
		want, known := l.retention[t.name]
		if !known {
			continue
		}
		got, err := l.retentionOf(t)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("invariant 1: retention.ms of %s was set to %s, and is %s", t.name, want, got)
		}
	}
	return nil
}

func metadataOfAll() *protocol.MetadataRequest {
	req := protocol.NewMetadataRequest()
	req.Topics = nil
	return req
}

func (l *Workload) retentionOf(t *topicState) (string, error) {
	req := protocol.NewDescribeConfigsRequest()
	req.Resources = []protocol.DescribeConfigsRequestDescribeConfigsResource{{ResourceType: 2, ResourceName: t.name, ConfigurationKeys: []string{"retention.ms"}}}
	resp, err := l.w.Read(req, 4)
	if err != nil {
		return "", err
	}
	r := resp.(*protocol.DescribeConfigsResponse).Results[0]
	if r.ErrorCode != kerr.None || len(r.Configs) != 1 || r.Configs[0].Value == nil {
		return "", fmt.Errorf("describe settings of %s: %+v", t.name, r)
	}
	return *r.Configs[0].Value, nil
}

// read reads a log from its start to its end: the number of each record, by offset (3).
func (l *Workload) read(t *topicState) (map[int64]int, error) {
	found := map[int64]int{}
	for offset := int64(0); ; {
		records, high, err := l.fetch(t, offset)
		if err != nil {
			return nil, err
		}
		for len(records) > 0 {
			b, rest, err := record.Next(records)
			if err != nil {
				return nil, fmt.Errorf("invariant 3: at offset %d: %w", offset, err)
			}
			if err := b.CheckCRC(); err != nil {
				return nil, fmt.Errorf("invariant 3: at offset %d: %w", offset, err)
			}
			it := b.Iter(nil)
			var r record.Record
			for it.Next(&r) {
				number, ok := strings.CutPrefix(string(r.Value), t.name+"/")
				n, err := strconv.Atoi(number)
				if !ok || err != nil || r.Offset != offset {
					return nil, fmt.Errorf("invariant 3: offset %d, after %d, holds %.40q", r.Offset, offset-1, r.Value)
				}
				found[offset] = n
				offset++
			}
			if it.Err() != nil {
				return nil, fmt.Errorf("invariant 3: at offset %d: %w", offset, it.Err())
			}
			records = rest
		}
		if offset >= high {
			return found, nil
		}
	}
}

func (l *Workload) fetch(t *topicState, offset int64) (records []byte, high int64, err error) {
	req := protocol.NewFetchRequest()
	req.MaxWaitMs, req.MinBytes, req.MaxBytes = 0, 1, 1000
	p := protocol.NewFetchRequestFetchPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1000
	req.Topics = []protocol.FetchRequestFetchTopic{{Topic: t.name, Partitions: []protocol.FetchRequestFetchPartition{p}}}
	resp, err := l.w.Read(req, 12)
	if err != nil {
		return nil, 0, err
	}
	part := resp.(*protocol.FetchResponse).Responses[0].Partitions[0]
	if part.ErrorCode != kerr.None {
		return nil, 0, fmt.Errorf("fetch at offset %d: %w", offset, kerr.FromCode(part.ErrorCode))
	}
	return part.Records, part.HighWatermark, nil
}

// compare compares a log with what was acknowledged (2, 4, 6).
func (l *Workload) compare(t *topicState, found map[int64]int, mayLose bool) error {
	end := int64(len(found))
	seen := map[int]int64{}
	for offset := range end {
		n := found[offset]
		if before, twice := seen[n]; twice {
			return fmt.Errorf("invariant 4: record %d is at offset %d and at %d", n, before, offset)
		}
		seen[n] = offset
		if offset > 0 && n < found[offset-1] {
			return fmt.Errorf("invariant 4: record %d at offset %d comes behind record %d", n, offset, found[offset-1])
		}
	}
	if !mayLose && end < t.end {
		return fmt.Errorf("invariant 6: the log ended at %d at least, and ends at %d", t.end, end)
	}
	for offset, n := range t.acked {
		got, there := found[offset]
		switch {
		case there && got == n:
		case mayLose && !there:
			delete(t.acked, offset)
		default:
			return fmt.Errorf("invariant 2: offset %d was acknowledged with record %d; there: %v, record %d", offset, n, there, got)
		}
	}
	t.end = min(t.end, end)
	t.producer = -1 // a client that was cut off begins anew
	return nil
}

// checkCommitted looks at the offset of the group (5).
func (l *Workload) checkCommitted(powerCut bool) error {
	if len(l.topics) == 0 || l.committed == 0 {
		return nil
	}
	req := protocol.NewOffsetFetchRequest()
	req.GroupId = "readers"
	req.Topics = []protocol.OffsetFetchRequestTopic{{Name: l.topics[0].name, PartitionIndexes: []int32{0}}}
	for range 100 { // the group is being loaded
		resp, err := l.w.Read(req, 7)
		if err != nil {
			return err
		}
		r := resp.(*protocol.OffsetFetchResponse)
		if r.ErrorCode == kerr.CoordinatorLoadInProgress.Code || r.ErrorCode == kerr.NotCoordinator.Code {
			l.w.RunFor(loadWait)
			continue
		}
		got := r.Topics[0].Partitions[0].CommittedOffset
		if got != l.committed && !slices.Contains(l.perhaps, got) && !powerCut {
			return fmt.Errorf("invariant 5: offset %d was committed, and is %d", l.committed, got)
		}
		l.committed, l.perhaps = max(got, 0), nil
		return nil
	}
	return fmt.Errorf("the group is not loaded")
}

// loadWait is how long the client waits before it asks a coordinator again that is loading.
const loadWait = 50 * time.Millisecond
