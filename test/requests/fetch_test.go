package requests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// part is a partition and the offset from which it is read.
type part struct {
	topic  string
	index  int32
	offset int64
}

func fetchRequest(parts ...part) *protocol.FetchRequest {
	r := protocol.NewFetchRequest()
	r.MaxWaitMs, r.MinBytes, r.MaxBytes = 700, 1, 50<<20
	for _, p := range parts {
		q := protocol.NewFetchRequestFetchPartition()
		q.Partition, q.FetchOffset, q.PartitionMaxBytes = p.index, p.offset, 1<<20
		r.Topics = append(r.Topics, protocol.FetchRequestFetchTopic{Topic: p.topic, Partitions: []protocol.FetchRequestFetchPartition{q}})
	}
	return r
}

func fetchByID(id uuid.UUID) *protocol.FetchRequest {
	r := fetchRequest(part{})
	r.Topics[0].TopicId = id
	return r
}

// session is a request of a session.
func session(id, epoch int32, parts ...part) *protocol.FetchRequest {
	r := fetchRequest(parts...)
	r.SessionId, r.SessionEpoch = id, epoch
	return r
}

func (n *node) fetch(p *peer, version int16, r *protocol.FetchRequest) *protocol.FetchResponse {
	n.t.Helper()
	return ask[*protocol.FetchResponse](p, version, r)
}

// read is the batch that has an offset.
func (n *node) read(topic string, index int32, offset int64) record.Batch {
	n.t.Helper()
	b, _, err := record.Next(n.fetch(n.dial(), 12, fetchRequest(part{topic, index, offset})).Responses[0].Partitions[0].Records)
	if err != nil {
		n.t.Fatalf("read %s-%d at %d: %v", topic, index, offset, err)
	}
	return b
}

func (n *node) readAll(topic string, index int32) []byte {
	n.t.Helper()
	return n.fetch(n.dial(), 12, fetchRequest(part{topic, index, 0})).Responses[0].Partitions[0].Records
}

// fetched has a line of words for each partition of an answer.
func fetched(r *protocol.FetchResponse) string {
	var out []string
	for _, t := range r.Responses {
		for _, p := range t.Partitions {
			aborted := "null"
			if p.AbortedTransactions != nil {
				aborted = fmt.Sprint(len(p.AbortedTransactions))
			}
			records := "null"
			if p.Records != nil {
				n := 0
				for rest := p.Records; len(rest) > 0; n++ {
					var err error
					if _, rest, err = record.Next(rest); err != nil {
						break
					}
				}
				records = fmt.Sprint(n, " batches")
			}
			out = append(out, fmt.Sprintf("%s-%d error %d high %d stable %d start %d aborted %s, %s", t.Topic, p.PartitionIndex, p.ErrorCode, p.HighWatermark,
				p.LastStableOffset, p.LogStartOffset, aborted, records))
		}
	}
	return strings.Join(out, "; ")
}

// Something always comes: the first batch, however large.
func TestFetchLimits(t *testing.T) {
	n := start(t)
	for _, name := range []string{"a", "b", "empty"} {
		n.create(name, 1)
	}
	n.produce("a", 0, batch(20))
	n.produce("a", 0, batch(20))
	n.produce("b", 0, batch(20))
	for _, v := range []int16{4, 11, 12} {
		r := fetchRequest(part{"empty", 0, 0}, part{"a", 0, 0}, part{"b", 0, 0})
		r.MaxBytes = 1
		start := -1
		if v >= 5 {
			start = 0
		}
		is(t, fmt.Sprint("max_bytes 1, version ", v), fetched(n.fetch(n.dial(), v, r)), fmt.Sprintf(
			"empty-0 error 0 high 0 stable 0 start %[1]d aborted null, 0 batches; a-0 error 0 high 40 stable 40 start %[1]d aborted null, 1 batches; "+
				"b-0 error 0 high 20 stable 20 start %[1]d aborted null, 0 batches", start))
	}
	for _, at := range []int64{41, -1} {
		for isolation := range int8(2) {
			r := fetchRequest(part{"a", 0, at}, part{"nowhere", 0, 0})
			r.IsolationLevel = isolation
			is(t, fmt.Sprint("offset ", at), fetched(n.fetch(n.dial(), 12, r)),
				"a-0 error 1 high -1 stable -1 start -1 aborted null, 0 batches; nowhere-0 error 3 high -1 stable -1 start -1 aborted 0, 0 batches")
		}
	}
	epoch := fetchRequest(part{"a", 0, 0})
	epoch.Topics[0].Partitions[0].CurrentLeaderEpoch = 9
	is(t, "a newer leader epoch", fetched(n.fetch(n.dial(), 12, epoch)), "a-0 error 75 high -1 stable -1 start -1 aborted null, 0 batches")
	committed := fetchRequest(part{"a", 0, 0})
	committed.IsolationLevel = 1
	is(t, "read committed", fetched(n.fetch(n.dial(), 12, committed)), "a-0 error 0 high 40 stable 40 start 0 aborted 0, 2 batches")
	is(t, "unknown id", fetched(n.fetch(n.dial(), 13, fetchByID(uuid.UUID{1}))), "-0 error 100 high -1 stable -1 start -1 aborted 0, 0 batches")
}

// A fetch waits at the end of the log, for as long as it said or until something comes; a thousand of them cost no thread.
func TestFetchWaits(t *testing.T) {
	n := start(t)
	n.create("t", 1)
	p := n.dial()
	r := fetchRequest(part{"t", 0, 0})
	r.MaxWaitMs = 500
	from := time.Now()
	is(t, "nothing comes", fetched(n.fetch(p, 12, r)), "t-0 error 0 high 0 stable 0 start 0 aborted null, 0 batches")
	if d := time.Since(from); d < 490*time.Millisecond {
		t.Errorf("the answer came after %v", d)
	}
	threads := n.proc("Threads")
	r.MaxWaitMs = 1_000_000
	var waiting []*peer
	for range 1000 {
		p := n.dial()
		p.send(12, r)
		waiting = append(waiting, p)
	}
	p.open("beside a thousand that wait")
	if more := n.proc("Threads") - threads; more > 20 {
		t.Errorf("%d more threads", more)
	}
	is(t, "offset", n.produce("t", 0, batch(1)).BaseOffset, 0)
	for _, p := range waiting {
		is(t, "what came", fetched(receive[*protocol.FetchResponse](p, 12)), "t-0 error 0 high 1 stable 1 start 0 aborted null, 1 batches")
	}
}

func TestFetchSessions(t *testing.T) {
	n := start(t)
	n.create("t", 1)
	n.produce("t", 0, batch(3))
	const data = "t-0 error 0 high 3 stable 3 start 0 aborted null, 1 batches"
	for _, v := range []int16{7, 12} {
		p := n.dial()
		ask := func(what string, r *protocol.FetchRequest, wantError int16, want string) *protocol.FetchResponse {
			t.Helper()
			got := n.fetch(p, v, r)
			is(t, what+": error", got.ErrorCode, wantError)
			is(t, what, fetched(got), want)
			return got
		}
		id := ask("open", session(0, 0, part{"t", 0, 0}), 0, data).SessionId
		if id == 0 {
			t.Fatal("no session")
		}
		is(t, "id", ask("the same again", session(id, 1), 0, data).SessionId, id)
		ask("from the end", func() *protocol.FetchRequest {
			r := session(id, 2, part{"t", 0, 3})
			r.MaxWaitMs = 0
			return r
		}(), 0, "")
		from := time.Now()
		is(t, "id", ask("nothing new", session(id, 3), 0, "").SessionId, id)
		if d := time.Since(from); d < 690*time.Millisecond {
			t.Errorf("nothing came after %v already", d)
		}
		ask("epoch 9", session(id, 9), 71, "")
		is(t, "id", ask("a session that is not there", session(4242, 1), 70, "").SessionId, 0)
		from = time.Now()
		r := fetchRequest()
		r.MaxWaitMs = 30_000
		is(t, "id", ask("no session and nothing", r, 0, "").SessionId, 0)
		if d := time.Since(from); d > 10*time.Second {
			t.Errorf("a fetch of nothing was answered after %v", d)
		}
		forget := session(id, 4)
		forget.ForgottenTopicsData = []protocol.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0}}}
		is(t, "id", ask("forget the last one", forget, 0, "").SessionId, 0)
		ask("after its end", session(id, 5), 70, "")
	}
}
