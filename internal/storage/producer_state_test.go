package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// produced describes a batch of a producer.
type produced struct {
	id       int64
	epoch    int16
	sequence int32
	count    int
	txn      bool
	marker   *record.EndTxn
	offset   int64
	time     int64 // ms
}

func (p produced) batch(t testing.TB) record.Batch {
	t.Helper()
	b := record.NewBuilder(p.offset, record.None)
	if p.marker != nil {
		b.AppendEndTxn(p.time, p.id, p.epoch, *p.marker)
	} else {
		b.SetProducer(p.id, p.epoch, p.sequence)
		if p.txn {
			b.SetTransactional()
		}
		for range max(1, p.count) {
			b.Append(p.time, nil, []byte("v"))
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// step is a batch to be judged, and to be appended unless it was refused or is a duplicate.
type step struct {
	produced
	origin  Origin
	version int16 // of the transaction
	want    error
	dup     bool
	first   int64 // of a duplicate
}

var commit0, commit1 = &record.EndTxn{Commit: true}, &record.EndTxn{Commit: true, CoordinatorEpoch: 1}

func TestSequences(t *testing.T) {
	ok := func(epoch int16, sequence int32, count int) step {
		return step{produced: produced{id: 9, epoch: epoch, sequence: sequence, count: count}}
	}
	fails := func(epoch int16, sequence int32, count int, err error) step {
		s := ok(epoch, sequence, count)
		s.want = err
		return s
	}
	dup := func(epoch int16, sequence int32, count int, first int64) step {
		s := ok(epoch, sequence, count)
		s.dup, s.first = true, first
		return s
	}
	txn := func(s step) step { s.txn = true; return s }
	end := func(epoch int16, m *record.EndTxn, version int16, err error) step {
		return step{produced: produced{id: 9, epoch: epoch, marker: m}, origin: FromCoordinator, version: version, want: err}
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"an unknown producer may begin anywhere", []step{ok(3, 77, 2), ok(3, 79, 1)}},
		{"gaps", []step{ok(0, 0, 2), fails(0, 3, 1, kerr.OutOfOrderSequenceNumber), fails(0, 1, 2, kerr.OutOfOrderSequenceNumber), ok(0, 2, 1)}},
		{"the last five batches are known", []step{
			ok(0, 0, 2), ok(0, 2, 1), ok(0, 3, 3), ok(0, 6, 1), ok(0, 7, 2), dup(0, 0, 2, 0), dup(0, 3, 3, 3), dup(0, 7, 2, 7),
			ok(0, 9, 1), fails(0, 0, 2, kerr.OutOfOrderSequenceNumber), dup(0, 2, 1, 2), dup(0, 9, 1, 9),
		}},
		{"a part of a batch is not a duplicate", []step{ok(0, 0, 5), fails(0, 0, 3, kerr.OutOfOrderSequenceNumber), fails(0, 2, 3, kerr.OutOfOrderSequenceNumber)}},
		{"sequences wrap", []step{ok(0, math.MaxInt32-2, 2), ok(0, math.MaxInt32, 3), dup(0, math.MaxInt32, 3, 2), ok(0, 2, 1)}},
		{"sequences wrap between batches", []step{ok(0, math.MaxInt32-1, 2), fails(0, 1, 1, kerr.OutOfOrderSequenceNumber), ok(0, 0, 1)}},
		{"an epoch begins with sequence 0", []step{ok(0, 0, 4), fails(1, 4, 1, kerr.OutOfOrderSequenceNumber), ok(1, 0, 1), ok(1, 1, 1)}},
		{"an old epoch is fenced, its duplicates too", []step{ok(4, 0, 2), ok(5, 0, 2), fails(4, 2, 1, kerr.InvalidProducerEpoch), fails(4, 0, 2, kerr.InvalidProducerEpoch), dup(5, 0, 2, 2)}},
		{"a transaction wants transactional batches", []step{txn(ok(0, 0, 1)), fails(0, 1, 1, kerr.InvalidTxnState), txn(ok(0, 1, 1)), end(0, commit0, 1, nil), ok(0, 2, 1)}},
		{"a gap comes before the state of the transaction", []step{txn(ok(0, 0, 1)), fails(0, 5, 1, kerr.OutOfOrderSequenceNumber)}},
		{"sequences go on behind a marker of the same epoch", []step{txn(ok(0, 0, 1)), end(0, commit0, 1, nil), fails(0, 0, 3, kerr.OutOfOrderSequenceNumber), txn(ok(0, 1, 1))}},
		{"a marker of a new epoch begins sequences anew", []step{txn(ok(0, 0, 3)), end(1, commit0, 2, nil), fails(0, 3, 1, kerr.InvalidProducerEpoch), fails(1, 3, 1, kerr.OutOfOrderSequenceNumber), txn(ok(1, 0, 1))}},
		{"a marker may come first", []step{end(7, commit0, 2, nil), fails(6, 0, 1, kerr.InvalidProducerEpoch), fails(7, 3, 1, kerr.OutOfOrderSequenceNumber), ok(7, 0, 1)}},
		{"markers of old epochs and coordinators", []step{
			txn(ok(3, 0, 1)), end(2, commit0, 1, kerr.InvalidProducerEpoch), end(3, commit1, 1, nil), end(3, commit0, 1, kerr.TransactionCoordinatorFenced), end(3, commit1, 1, nil),
		}},
		{"a marker of transaction version 2 has a new epoch, or is sent again", []step{
			txn(ok(3, 0, 1)), end(3, commit0, 2, kerr.InvalidProducerEpoch), end(4, commit0, 2, nil), end(4, commit0, 2, nil), end(3, commit0, 2, kerr.InvalidProducerEpoch),
		}},
		{"the largest epoch cannot grow", []step{txn(ok(math.MaxInt16, 0, 1)), end(math.MaxInt16, commit0, 2, nil)}},
		{"a coordinator's batches have no sequences of meaning", []step{
			{produced: produced{id: 9, epoch: 2, sequence: 0, txn: true}, origin: FromCoordinator},
			{produced: produced{id: 9, epoch: 2, sequence: 0, txn: true}, origin: FromCoordinator},
			{produced: produced{id: 9, epoch: 1, sequence: 0, txn: true}, origin: FromCoordinator, want: kerr.InvalidProducerEpoch},
			{produced: produced{id: 9, epoch: 2, sequence: 5}, origin: FromCoordinator, want: kerr.InvalidTxnState},
		}},
		{"without a producer id nothing is checked", []step{
			{produced: produced{id: -1, epoch: -1, sequence: -1}}, {produced: produced{id: -1, epoch: -1, sequence: -1}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProducers(time.Hour)
			offset := int64(0)
			for i, s := range c.steps {
				s.offset = offset
				b := s.batch(t)
				dup, isDup, err := p.check(b, AppendOptions{Origin: s.origin, TransactionVersion: s.version}, s.marker)
				if !errors.Is(err, s.want) || isDup != s.dup || isDup && (dup.firstOffset() != s.first || dup.lastOffset != s.first+int64(s.count)-1) {
					t.Fatalf("step %d, %+v: duplicate %t %+v, %v", i, s, isDup, dup, err)
				}
				if err == nil && !isDup {
					p.update(b, s.marker)
					offset = b.NextOffset()
				}
			}
		})
	}
}

// naive is the list of all batches of a log; what is asked of it is found by going through it.
type naive struct {
	log    []produced
	forgot map[int64]int // batches of a producer up to this place in the log are known by their last only
	high   int64
}

// state of a producer, as the log tells it.
func (n *naive) state(id int64) (known bool, epoch int16, batches []produced, txnStart int64, coordinator int32, last int64) {
	txnStart, coordinator = -1, -1
	for i, b := range n.log {
		if b.id != id {
			continue
		}
		if !known || b.epoch != epoch {
			batches = nil
		}
		known, epoch, last = true, b.epoch, b.time
		if b.marker != nil {
			txnStart, coordinator = -1, b.marker.CoordinatorEpoch
		} else {
			batches = append(batches, b)
			if b.txn && txnStart < 0 {
				txnStart = b.offset
			}
		}
		if i == n.forgot[id] && len(batches) > 0 {
			batches = batches[len(batches)-1:]
		}
	}
	return known, epoch, batches[max(0, len(batches)-batchesKept):], txnStart, coordinator, last
}

// check is the verdict about a batch.
func (n *naive) check(b produced) (dup int64, err error) {
	known, epoch, batches, txnStart, _, _ := n.state(b.id)
	if !known {
		return -1, nil
	}
	for _, k := range batches {
		if b.marker == nil && b.epoch == epoch && k.sequence == b.sequence && k.count == b.count {
			return k.offset, nil
		}
	}
	next := int64(0)
	if len(batches) > 0 {
		l := batches[len(batches)-1]
		next = (int64(l.sequence) + int64(l.count)) % (math.MaxInt32 + 1)
	}
	switch {
	case b.epoch < epoch:
		return -1, kerr.InvalidProducerEpoch
	case b.marker != nil:
		return -1, nil
	case b.epoch > epoch && b.sequence != 0, b.epoch == epoch && int64(b.sequence) != next:
		return -1, kerr.OutOfOrderSequenceNumber
	case txnStart >= 0 && !b.txn:
		return -1, kerr.InvalidTxnState
	}
	return -1, nil
}

func (n *naive) undecided() (int64, bool) {
	first, found := int64(math.MaxInt64), false
	open := map[int64]int64{}
	note := func(o int64) { first, found = min(first, o), true }
	for _, b := range n.log {
		start, isOpen := open[b.id]
		switch {
		case b.marker == nil && b.txn && !isOpen:
			open[b.id] = b.offset
		case b.marker != nil && isOpen:
			delete(open, b.id)
			if b.offset >= n.high {
				note(start)
			}
		}
	}
	for _, o := range open {
		note(o)
	}
	return first, found
}

func (n *naive) all() []Producer {
	out := []Producer{}
	seen := map[int64]bool{}
	for _, b := range n.log {
		if seen[b.id] {
			continue
		}
		seen[b.id] = true
		_, epoch, batches, txnStart, coordinator, last := n.state(b.id)
		p := Producer{b.id, epoch, -1, last, coordinator, txnStart}
		if len(batches) > 0 {
			l := batches[len(batches)-1]
			p.LastSequence = int32((int64(l.sequence) + int64(l.count) - 1) % (math.MaxInt32 + 1))
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Random histories of a few producers, with restarts from a snapshot, judged by a list of all batches.
func TestProducersAgainstList(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := &naive{forgot: map[int64]int{}}
		p := newProducers(time.Hour)
		offset := int64(0)
		refused, dups := 0, 0
		for i := range 120 {
			b := randomProduced(r, n, offset, int64(i))
			batch := b.batch(t)
			wantDup, want := n.check(b)
			dup, isDup, err := p.check(batch, AppendOptions{}, b.marker)
			if !errors.Is(err, want) || isDup != (wantDup >= 0) || isDup && dup.firstOffset() != wantDup {
				t.Fatalf("seed %d, batch %d %+v: duplicate %t %+v, %v; want %d, %v", seed, i, b, isDup, dup, err, wantDup, want)
			}
			switch {
			case isDup:
				dups++
			case err != nil:
				refused++
			default:
				p.update(batch, b.marker)
				n.log = append(n.log, b)
				offset = batch.NextOffset()
			}
			if r.IntN(4) == 0 {
				n.high += int64(r.IntN(int(offset-n.high) + 1))
				p.onHighWatermark(n.high)
			}
			if r.IntN(30) == 0 {
				p = restarted(t, p, n, offset)
			}
			compareProducers(t, fmt.Sprintf("seed %d, batch %d", seed, i), p, n)
		}
		if refused == 0 || dups == 0 {
			t.Errorf("seed %d: %d batches refused, %d duplicates: the history is too tame", seed, refused, dups)
		}
	}
}

func compareProducers(t *testing.T, where string, p *producers, n *naive) {
	t.Helper()
	if got, want := p.all(), n.all(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: producers\n got %+v\nwant %+v", where, got, want)
	}
	first, ok := p.firstUndecided()
	wantFirst, wantOK := n.undecided()
	if first != wantFirst || ok != wantOK {
		t.Fatalf("%s: first undecided offset %d %t, want %d %t", where, first, ok, wantFirst, wantOK)
	}
}

// restarted is the state that a snapshot at the end of the log gives. Transactions that have ended count as decided then.
func restarted(t *testing.T, p *producers, n *naive, end int64) *producers {
	t.Helper()
	out := newProducers(p.expiry)
	if err := out.loadSnapshot(p.encodeSnapshot(), 0); err != nil {
		t.Fatal(err)
	}
	n.high = end
	for _, b := range n.log {
		n.forgot[b.id] = 0
	}
	for i, b := range n.log {
		n.forgot[b.id] = i
	}
	return out
}

// randomProduced is mostly what comes next of a producer, sometimes what came before, or something wrong.
func randomProduced(r *rand.Rand, n *naive, offset, now int64) produced {
	id := int64(r.IntN(4))
	known, epoch, batches, txnStart, _, _ := n.state(id)
	b := produced{id: id, epoch: epoch, count: 1 + r.IntN(3), offset: offset, time: now, txn: txnStart >= 0 || r.IntN(4) == 0}
	if !known {
		b.sequence = []int32{0, 1000, math.MaxInt32 - 3}[r.IntN(3)]
	} else if len(batches) > 0 {
		l := batches[len(batches)-1]
		b.sequence = int32((int64(l.sequence) + int64(l.count)) % (math.MaxInt32 + 1))
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		if known {
			b.marker = &record.EndTxn{Commit: r.IntN(2) == 0}
			b.epoch += int16(r.IntN(2))
		}
	case 3:
		b.epoch++
		b.sequence = int32(r.IntN(2))
	case 4:
		b.epoch = max(0, b.epoch-1)
	case 5:
		b.sequence = (b.sequence + 1) & math.MaxInt32
	case 6:
		b.txn = !b.txn
	case 7, 8:
		if len(n.log) > 0 {
			old := n.log[max(0, len(n.log)-1-r.IntN(12))]
			if old.marker == nil {
				old.offset, old.time = offset, now
				return old
			}
		}
	}
	return b
}

// A producer that was silent is forgotten, unless its transaction is open.
func TestProducersExpire(t *testing.T) {
	p := newProducers(10 * time.Millisecond)
	p.update(produced{id: 1, time: 100}.batch(t), nil)
	p.update(produced{id: 2, time: 100, offset: 1, txn: true}.batch(t), nil)
	p.update(produced{id: 3, time: 105, offset: 2}.batch(t), nil)
	snapshot := p.encodeSnapshot()
	ids := func(p *producers) (out []int64) {
		for _, e := range p.all() {
			out = append(out, e.ID)
		}
		return out
	}
	for _, c := range []struct {
		now  int64
		want []int64
	}{{109, []int64{1, 2, 3}}, {110, []int64{2, 3}}, {1000, []int64{2}}} {
		fresh := newProducers(p.expiry)
		if err := fresh.loadSnapshot(snapshot, c.now); err != nil || !slices.Equal(ids(fresh), c.want) {
			t.Errorf("loaded at %d: %v, %v; want %v", c.now, ids(fresh), err, c.want)
		}
		p.expire(c.now)
		if !slices.Equal(ids(p), c.want) {
			t.Errorf("expired at %d: %v, want %v", c.now, ids(p), c.want)
		}
	}
}

// A known producer's batches are checked and noted without allocating.
func TestProducersDoNotAllocate(t *testing.T) {
	p := newProducers(time.Hour)
	b := produced{id: 5, count: 3}.batch(t)
	p.update(b, nil)
	sequence, offset := int32(3), int64(3)
	allocs := testing.AllocsPerRun(100, func() {
		b.SetBaseOffset(offset)
		binary.BigEndian.PutUint32(b[53:], uint32(sequence)) // the base sequence
		if _, dup, err := p.check(b, AppendOptions{}, nil); dup || err != nil {
			t.Fatal(dup, err)
		}
		p.update(b, nil)
		sequence, offset = sequence+3, offset+3
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a batch", allocs)
	}
}

// What the cleaner left of a control batch says nothing.
func TestEmptyControlBatch(t *testing.T) {
	p := newProducers(time.Hour)
	b := produced{id: 5, marker: commit0}.batch(t)
	p.update(b, nil)
	if all := p.all(); len(all) != 0 {
		t.Errorf("an empty control batch made %+v", all)
	}
}
