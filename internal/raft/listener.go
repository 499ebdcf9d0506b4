package raft

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/record"
)

// listenerContext is how far a listener has been told.
type listenerContext struct {
	listener Listener
	next     int64 // offset of the next record to hand over; -1 = nothing yet, not even a snapshot
	told     LeaderAndEpoch
}

type registration struct{ listener Listener }

func (registration) event() string { return "register" }

func (q *Quorum) onRegister(ev registration) {
	q.log.Info(fmt.Sprintf("Registered the listener %T", ev.listener))
	q.listeners = append(q.listeners, &listenerContext{listener: ev.listener, next: -1, told: LeaderAndEpoch{LeaderID: NoNode}})
	q.onDeliver()
	q.fireLeaderChange()
}

type deliver struct{}

func (deliver) event() string { return "deliver" }

// deliverBytes bounds what one event reads from the log for one listener, so that loading does not hold up the quorum.
const deliverBytes = 4 << 20

// onDeliver hands what is committed to the listeners that do not have it yet.
func (q *Quorum) onDeliver() {
	if q.highWatermark < 0 {
		return
	}
	q.publish() // listeners look at it
	more := false
	for _, l := range q.listeners {
		behind, err := q.deliverTo(l)
		if err != nil {
			q.fault(fmt.Errorf("hand committed records to %T: %w", l.listener, err))
			return
		}
		more = more || behind
	}
	kept := 0
	for kept < len(q.tail) && q.tail[kept].LastOffset < q.highWatermark {
		kept++
	}
	if q.tail = q.tail[kept:]; len(q.tail) == 0 {
		q.tail = nil
	}
	if more && !q.delivering {
		q.delivering = true
		q.queue.Post("deliver", func() {
			q.delivering = false
			q.Handle(deliver{})
		})
	}
	q.fireLeaderChange()
}

// deliverTo reports whether there is more to hand over.
func (q *Quorum) deliverTo(l *listenerContext) (bool, error) {
	if l.next < 0 || l.next < q.disk.StartOffset() {
		if err := q.deliverSnapshot(l); err != nil {
			return false, err
		}
	}
	for read := 0; l.next < q.highWatermark; {
		if batches := q.fromTail(l.next); len(batches) > 0 {
			l.next = batches[len(batches)-1].LastOffset + 1
			l.listener.HandleCommit(batches)
			continue
		}
		if read >= deliverBytes {
			return true, nil
		}
		var batches []Batch
		next := l.next
		err := q.readBatches(next, func(b record.Batch) error {
			if b.LastOffset() < next || b.LastOffset() >= q.highWatermark {
				return nil
			}
			if err := b.CheckCRC(); err != nil {
				return err
			}
			out, _, err := decodeBatch(b)
			batches = append(batches, out)
			read += len(b)
			l.next = b.NextOffset()
			return err
		})
		if err != nil {
			return false, fmt.Errorf("from offset %d: %w", next, err)
		}
		if len(batches) == 0 {
			return false, fmt.Errorf("no batch at offset %d below the high watermark %d", next, q.highWatermark)
		}
		l.listener.HandleCommit(batches)
	}
	return false, nil
}

// fromTail gives the batches in memory that are committed, if the one at offset is among them.
func (q *Quorum) fromTail(offset int64) []Batch {
	first := -1
	for i := range q.tail {
		if q.tail[i].BaseOffset == offset {
			first = i
		}
		if q.tail[i].LastOffset >= q.highWatermark {
			if first < 0 {
				return nil
			}
			return q.tail[first:i:i]
		}
	}
	if first < 0 {
		return nil
	}
	return q.tail[first:len(q.tail):len(q.tail)]
}

// deliverSnapshot gives a listener that has nothing, or too little, the newest snapshot.
func (q *Quorum) deliverSnapshot(l *listenerContext) error {
	id, ok := q.disk.latestSnapshot()
	if !ok {
		if l.next < q.disk.StartOffset() && q.disk.StartOffset() > 0 {
			return fmt.Errorf("the log starts at offset %d and there is no snapshot", q.disk.StartOffset())
		}
		q.log.Info(fmt.Sprintf("Setting the next offset of %T to 0 since there are no snapshots", l.listener))
		l.next = 0
		return nil
	}
	r, err := OpenSnapshot(q.env.FS(), q.disk.dir, id)
	if err != nil {
		return err
	}
	if id != bootstrapID {
		l.next = id.EndOffset
		l.listener.HandleLoadSnapshot(r)
		return nil
	}
	var records []metadata.Versioned
	for {
		b, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		records = append(records, b.Records...)
	}
	l.next = 0
	l.listener.HandleLoadBootstrap(records)
	return nil
}

// fireLeaderChange tells the listeners who leads. Of our own leadership they learn when they have been told everything
// from before it.
func (q *Quorum) fireLeaderChange() {
	if !q.started {
		return
	}
	q.publish()
	now := LeaderAndEpoch{q.election.LeaderID, q.election.Epoch}
	start := int64(-1)
	switch s := q.state.(type) {
	case *leader:
		start = s.epochStart
	case *resigned:
		now.LeaderID = NoNode
	case *unattached, *prospective, *candidate, *follower:
		if now.LeaderID == q.cfg.NodeID {
			now.LeaderID = NoNode
		}
	}
	for _, l := range q.listeners {
		if l.told != now && (start < 0 || l.next > start) {
			l.told = now
			l.listener.HandleLeaderChange(now)
		}
	}
}
