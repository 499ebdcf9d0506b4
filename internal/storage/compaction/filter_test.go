package compaction

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ottla-io/ottla/internal/record"
)

// written is a record beside what is known of it without looking at batches.
type written struct {
	offset, batch int64 // batch: base offset
	key, value    string
	keyless       bool
	tombstone     bool
	aborted       bool
}

// txn is a transaction of a history.
type txn struct {
	AbortedTxn
	commit  bool
	batches []int64 // base offsets
}

// history is a log as a slice, and what a naive reader knows of it.
type history struct {
	r       *rand.Rand
	batches []record.Batch
	records []written
	txns    []txn
	index   []AbortedTxn // what the cleaned log has of it
	last    map[int64]LastRecord
	horizon map[int64]int64 // by base offset of a batch
	end     int64
}

// newHistory writes batches of producers with and without transactions; all transactions are ended.
func newHistory(seed uint64) *history {
	h := &history{r: rand.New(rand.NewPCG(seed, 2)), last: map[int64]LastRecord{}, horizon: map[int64]int64{}}
	open := map[int64]*txn{}
	sequence := map[int64]int32{}
	for range 5 + h.r.IntN(40) {
		id := int64(h.r.IntN(5)) - 1
		t := open[id]
		if t != nil && h.r.IntN(3) == 0 {
			h.endTxn(t)
			delete(open, id)
			continue
		}
		b := record.NewBuilder(h.end, record.Compression(h.r.IntN(5)))
		b.SetLeaderEpoch(int32(h.end / 50))
		if id >= 0 {
			b.SetProducer(id, 0, sequence[id])
			if t == nil && id%2 == 0 {
				t = &txn{AbortedTxn: AbortedTxn{ProducerID: id, First: h.end}, commit: h.r.IntN(2) == 0}
				open[id] = t
			}
			if t != nil {
				b.SetTransactional()
				t.batches = append(t.batches, h.end)
			}
		}
		if h.r.IntN(5) == 0 {
			b.SetLogAppendTime(h.end + 7)
		}
		for range 1 + h.r.IntN(4) {
			h.record(b, t)
		}
		sequence[id] += int32(b.NextOffset() - h.end)
		h.add(b)
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		h.endTxn(open[id])
	}
	return h
}

// record draws a record.
func (h *history) record(b *record.Builder, t *txn) {
	w := written{offset: b.NextOffset(), batch: h.end, key: fmt.Sprint(h.r.IntN(12)), value: fmt.Sprint(h.r.IntN(1000))}
	key, value := []byte(w.key), []byte(w.value)
	if w.keyless = h.r.IntN(20) == 0; w.keyless {
		key = nil
	}
	if w.tombstone = h.r.IntN(4) == 0; w.tombstone {
		value, w.value = nil, ""
	}
	w.aborted = t != nil && !t.commit
	b.Append(w.offset+int64(h.r.IntN(9)), key, value, record.Header{Key: []byte("h")})
	h.records = append(h.records, w)
}

// endTxn writes the marker of a transaction.
func (h *history) endTxn(t *txn) {
	b := record.NewBuilder(h.end, record.None)
	b.AppendEndTxn(h.end, t.ProducerID, 0, record.EndTxn{Commit: t.commit})
	t.Last, t.LastStable = h.end, h.end+1
	h.txns = append(h.txns, *t)
	if !t.commit {
		h.index = append(h.index, t.AbortedTxn)
	}
	h.add(b)
}

func (h *history) add(b *record.Builder) {
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	batch = slices.Clone(batch)
	h.batches = append(h.batches, batch)
	h.end = batch.NextOffset()
	if batch.HasProducerID() && !batch.IsControl() {
		h.last[batch.ProducerID()] = LastRecord{batch.LastOffset(), 0}
	}
}

// clean runs a pass as a cleaner does.
func (h *history) clean(t *testing.T, now, retention, highWatermark, from int64, memory int64) (latest int64, out []record.Batch, kept []AbortedTxn) {
	t.Helper()
	m := NewOffsetMap(memory, 0.9, h.end)
	m.Passed(from - 1)
	f := Filter{Map: m, Transactions: NewTransactions(), Decompressor: new(record.Decompressor)}
	f.Transactions.Expect(h.index)
	for _, b := range h.batches {
		full, _, err := f.Note(b, from)
		if err != nil {
			t.Fatal(err)
		}
		if full {
			break
		}
	}
	f = Filter{
		Map: m, Transactions: NewTransactions(), Decompressor: new(record.Decompressor),
		Now: now, DeleteRetention: retention, LastRecords: h.last, HighWatermark: highWatermark,
	}
	f.Transactions.Expect(h.index)
	f.Transactions.Kept = func(a AbortedTxn) error { kept = append(kept, a); return nil }
	for _, b := range h.batches {
		left, err := f.Batch(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			if err := record.Batch(left).CheckCRC(); err != nil {
				t.Fatal(err)
			}
			out = append(out, left)
		}
	}
	return m.Latest(), out, kept
}

// naive says which records and markers are left after a pass at now in which the map reached to latest, by looking at everything
// for each of them.
func (h *history) naive(now, retention, highWatermark, latest int64) (records []written, markers []int64) {
	present := map[int64]bool{}
	for _, b := range h.batches {
		present[b.BaseOffset()] = true
	}
	horizon := maps.Clone(h.horizon)
	for _, r := range h.records {
		if r.aborted || r.offset <= latest && r.keyless {
			continue
		}
		if r.offset <= latest {
			if slices.ContainsFunc(h.records, func(o written) bool {
				return !o.aborted && !o.keyless && o.key == r.key && o.offset > r.offset && o.offset <= latest
			}) {
				continue
			}
			if at, ok := h.horizon[r.batch]; ok && r.tombstone && at <= now {
				continue
			}
		}
		records = append(records, r)
		if _, ok := h.horizon[r.batch]; r.tombstone && !ok {
			horizon[r.batch] = now + retention
		}
	}
	for _, t := range h.txns {
		if !present[t.Last] {
			continue
		}
		gone := !slices.ContainsFunc(t.batches, func(base int64) bool { return present[base] })
		at, ok := h.horizon[t.Last]
		if gone && ok && at <= now {
			continue // or empty, which has no marker either
		}
		if gone && !ok {
			horizon[t.Last] = now + retention
		}
		markers = append(markers, t.Last)
	}
	h.horizon = horizon
	return records, markers
}

// view is what a consumer makes of records: the last value of each key.
func view(records []written) map[string]string {
	out := map[string]string{}
	for _, r := range records {
		switch {
		case r.aborted || r.keyless:
		case r.tombstone:
			delete(out, r.key)
		default:
			out[r.key] = r.value
		}
	}
	return out
}

// Passes leave what a naive model leaves, a consumer ends up with the same values, and producers are found where they were.
func TestFilterAgainstNaiveModel(t *testing.T) {
	for seed := range uint64(400) {
		h := newHistory(seed)
		want := view(h.records)
		now := int64(10_000)
		from := int64(0)
		for pass := range 6 {
			name := fmt.Sprintf("seed %d, pass %d", seed, pass)
			memory := int64(bytesPerSlot * 1000)
			if seed%3 == 0 {
				memory = int64(bytesPerSlot * (2 + h.r.IntN(8)))
			}
			highWatermark := h.end + int64(h.r.IntN(2))
			latest, out, kept := h.clean(t, now, 100, highWatermark, from, memory)
			if last := h.batches[len(h.batches)-1]; seed%3 != 0 && latest != max(last.LastOffset(), from-1) {
				t.Fatalf("%s: looked at everything up to %d, not to %d", name, latest, last.LastOffset())
			}
			if last := h.batches[len(h.batches)-1].NextOffset(); last == highWatermark && (len(out) == 0 || out[len(out)-1].NextOffset() != last) {
				t.Fatalf("%s: the last batch below the high watermark is gone", name)
			}
			records, markers := h.naive(now, 100, highWatermark, latest)
			h.compare(t, name, out, records, markers)
			if got := view(records); !maps.Equal(got, want) {
				t.Fatalf("%s: a consumer sees %v, not %v", name, got, want)
			}
			h.checkKept(t, name, kept, out)
			h.batches, h.records, h.index = out, records, kept
			from = latest + 1
			now += int64(h.r.IntN(120))
		}
	}
}

// What an earlier pass has looked at takes no room in the map.
func TestNoteFrom(t *testing.T) {
	b := record.NewBuilder(10, record.None)
	for _, key := range []string{"a", "b", "c"} {
		b.Append(0, []byte(key), []byte("v"))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	f := Filter{Map: NewOffsetMap(2*bytesPerSlot, 1, 3), Transactions: NewTransactions()}
	if full, n, err := f.Note(batch, 11); full || n != 3 || err != nil || f.Map.Get([]byte("a")) != -1 || f.Map.Get([]byte("c")) != 12 {
		t.Errorf("full %t, %d messages, %v; a at %d, c at %d", full, n, err, f.Map.Get([]byte("a")), f.Map.Get([]byte("c")))
	}
}

func holds(batches []record.Batch, offset int64) bool {
	return slices.ContainsFunc(batches, func(b record.Batch) bool { return b.BaseOffset() <= offset && offset <= b.LastOffset() })
}

// compare looks for each record and marker, and nothing else, in what a pass has left.
func (h *history) compare(t *testing.T, name string, out []record.Batch, records []written, markers []int64) {
	t.Helper()
	var got []written
	var gotMarkers []int64
	lastOffset := int64(-1)
	for _, b := range out {
		if b.BaseOffset() <= lastOffset {
			t.Fatalf("%s: batch %v behind offset %d", name, b, lastOffset)
		}
		lastOffset = b.LastOffset()
		before := h.batches[slices.IndexFunc(h.batches, func(o record.Batch) bool { return o.BaseOffset() == b.BaseOffset() })]
		if b.LastOffset() != before.LastOffset() || b.LastSequence() != before.LastSequence() || b.LeaderEpoch() != before.LeaderEpoch() ||
			b.ProducerID() != before.ProducerID() || b.IsTransactional() != before.IsTransactional() || b.IsControl() != before.IsControl() ||
			b.TimestampType() != before.TimestampType() || b.Count() == 0 && b.MaxTimestamp() != before.MaxTimestamp() {
			t.Fatalf("%s: %v became %v", name, before, b)
		}
		if at, ok := b.DeleteHorizon(); b.Count() > 0 && (ok != (h.horizon[b.BaseOffset()] != 0) || ok && at != h.horizon[b.BaseOffset()]) {
			t.Fatalf("%s: horizon of %v is %d, not %d", name, b, at, h.horizon[b.BaseOffset()])
		}
		if b.IsControl() {
			if b.Count() > 0 {
				gotMarkers = append(gotMarkers, b.BaseOffset())
			}
			continue
		}
		var r record.Record
		it := b.Iter(nil)
		for it.Next(&r) {
			got = append(got, written{offset: r.Offset, key: string(r.Key), value: string(r.Value), keyless: r.Key == nil, tombstone: r.Value == nil})
			if len(r.Headers) != 1 || b.TimestampType() == record.CreateTime && (r.Timestamp < r.Offset || r.Timestamp > r.Offset+8) {
				t.Fatalf("%s: record at %d has time %d and headers %v", name, r.Offset, r.Timestamp, r.Headers)
			}
		}
		if err := it.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	same := func(a, b written) bool {
		return a.offset == b.offset && (a.keyless && b.keyless || a.key == b.key) && a.value == b.value && a.tombstone == b.tombstone
	}
	if !slices.EqualFunc(got, records, same) {
		t.Fatalf("%s: left are\n%+v, not\n%+v", name, got, records)
	}
	if !slices.Equal(gotMarkers, markers) {
		t.Fatalf("%s: markers at %v, not %v", name, gotMarkers, markers)
	}
	for id, last := range h.last {
		if !slices.ContainsFunc(out, func(b record.Batch) bool { return b.ProducerID() == id && b.LastOffset() == last.Offset }) {
			t.Fatalf("%s: the last batch of producer %d is gone", name, id)
		}
	}
}

// checkKept compares the transactions that the index keeps with those of which a batch was there.
func (h *history) checkKept(t *testing.T, name string, kept []AbortedTxn, out []record.Batch) {
	t.Helper()
	var want []AbortedTxn
	for _, x := range h.txns {
		if !x.commit && slices.ContainsFunc(x.batches, func(base int64) bool { return holds(h.batches, base) }) {
			want = append(want, x.AbortedTxn)
		}
	}
	if !slices.Equal(kept, want) {
		t.Fatalf("%s: the index has %v, not %v", name, kept, want)
	}
	for _, b := range out {
		if b.IsControl() || !b.IsTransactional() {
			continue
		}
		if !slices.ContainsFunc(out, func(m record.Batch) bool {
			return m.IsControl() && m.Count() > 0 && m.ProducerID() == b.ProducerID() && m.BaseOffset() > b.BaseOffset()
		}) {
			t.Fatalf("%s: %v has no marker", name, b)
		}
	}
}

// The batch that ends at the high watermark stays, if need be without records: else a log that ends there would seem to end before.
func TestHighWatermarkStays(t *testing.T) {
	b := record.NewBuilder(10, record.None)
	b.SetDeleteHorizon(500)
	b.Append(100, []byte("a"), nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for highWatermark, want := range map[int64]int{10: 0, 11: record.BatchHeaderSize, 12: 0} {
		f := Filter{Map: NewOffsetMap(1000, 1, 1), Transactions: NewTransactions(), Now: 500, HighWatermark: highWatermark}
		f.Map.Passed(10)
		left, err := f.Batch(nil, batch)
		if err != nil || len(left) != want || want > 0 && (record.Batch(left).Count() != 0 || record.Batch(left).LastOffset() != 10) {
			t.Errorf("high watermark %d: %d bytes are left, %v", highWatermark, len(left), err)
		}
	}
}
