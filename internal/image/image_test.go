package image

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// flat is everything an image says, in a form that can be compared.
type flat struct {
	Provenance  Provenance
	Features    map[string]int16
	Brokers     []*Broker
	Controllers []*Controller
	Topics      []*Topic
	ByID        int
	Configs     map[ConfigResource]map[string]string
	Quotas      []*ClientQuota
	ProducerIDs ProducerIDs
	ACLs        []*metadata.AccessControlEntryRecord
	Scram       []*metadata.UserScramCredentialRecord
	Tokens      []*metadata.DelegationTokenRecord
}

func flatten(img *Image) flat {
	f := flat{
		Provenance: img.Provenance, Features: map[string]int16{}, Configs: map[ConfigResource]map[string]string{}, ProducerIDs: img.ProducerIDs,
		Brokers: slices.Collect(img.Cluster.Brokers()), Controllers: slices.Collect(img.Cluster.Controllers()), Topics: slices.Collect(img.Topics.All()),
		Quotas: slices.Collect(img.ClientQuotas.All()), ACLs: slices.Collect(img.ACLs.All()), Scram: slices.Collect(img.Scram.All()),
		Tokens: slices.Collect(img.DelegationTokens.All()),
	}
	for _, t := range f.Topics {
		if img.Topics.ByID(t.ID) == t {
			f.ByID++
		}
	}
	for name, level := range img.Features.All() {
		f.Features[name] = level
	}
	for r, m := range img.Configs.All() {
		f.Configs[r] = m
	}
	return f
}

// recordList is a snapshot in memory.
type recordList []metadata.Versioned

func (l *recordList) Append(records []metadata.Versioned) error {
	*l = append(*l, records...)
	return nil
}

func replayAll(t testing.TB, base *Image, p Provenance, records ...metadata.Record) *Image {
	t.Helper()
	d := NewDelta(base)
	for _, rec := range records {
		if err := d.Replay(roundTrip(t, rec)); err != nil {
			t.Fatal(err)
		}
	}
	return d.Apply(p)
}

// One history must lead to one image: record by record, in one delta, through a snapshot, and by comparing two
// images. What was published before must not change.
func TestOneHistoryOneImage(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(seed)
			all := []metadata.Record{&metadata.FeatureLevelRecord{Name: metadata.FeatureMetadata, FeatureLevel: int16(metadata.LatestVersion)}}
			step := replayAll(t, Empty, Provenance{}, all...)
			type published struct {
				img  *Image
				said []metadata.Versioned
			}
			var old []published
			for i := range 400 {
				records := h.next()
				all = append(all, records...)
				d := NewDelta(step)
				for _, rec := range records {
					if err := d.Replay(roundTrip(t, rec)); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
				next := d.Apply(Provenance{Offset: int64(len(all))})
				checkDelta(t, d, next)
				step = next
				if i%50 == 0 {
					old = append(old, published{step, written(t, step)})
				}
			}
			want := flatten(step)
			if want.ByID != len(want.Topics) {
				t.Fatalf("%d of %d topics are found by id", want.ByID, len(want.Topics))
			}
			check := func(how string, img *Image) {
				t.Helper()
				if diff := cmp.Diff(want, flatten(img)); diff != "" {
					t.Errorf("%s (-record by record +%s):\n%s", how, how, diff)
				}
			}
			check("one delta", replayAll(t, Empty, step.Provenance, all...))
			var records []metadata.Record
			for _, v := range written(t, step) {
				records = append(records, v.Record)
			}
			check("snapshot", replayAll(t, Empty, step.Provenance, records...))
			check("compared with empty", Between(Empty, step).Apply(step.Provenance))
			for _, o := range old {
				d := Between(o.img, step)
				check("compared", d.Apply(step.Provenance))
				checkDelta(t, d, d.Apply(step.Provenance))
				if diff := cmp.Diff(o.said, written(t, o.img)); diff != "" {
					t.Errorf("an image changed after it was published:\n%s", diff)
				}
			}
		})
	}
}

func written(t testing.TB, img *Image) []metadata.Versioned {
	t.Helper()
	var l recordList
	if err := img.Write(&l, WriteOptions{OnLoss: func(what string) { t.Errorf("lost: %s", what) }}); err != nil {
		t.Fatal(err)
	}
	return l
}

// checkDelta compares what a delta says about topics with the images before and after it.
func checkDelta(t *testing.T, d *Delta, next *Image) {
	t.Helper()
	base := d.Base()
	for topic := range next.Topics.All() {
		old, td := base.Topics.ByID(topic.ID), d.Topics().Topic(topic.ID)
		if td == nil {
			if old != topic {
				t.Fatalf("%s changed, but not in the delta", topic.Name)
			}
			continue
		}
		if td.Old != old || td.New != topic {
			t.Fatalf("%s: the delta leads from %p to %p, the images from %p to %p", topic.Name, td.Old, td.New, old, topic)
		}
		for id, p := range topic.Partitions {
			if o := old.Partition(int32(id)); (o == nil || !o.equal(p)) && !slices.Contains(td.Partitions(), int32(id)) {
				t.Fatalf("%s-%d changed, but not in the delta", topic.Name, id)
			}
		}
	}
	var deleted []*Topic
	for topic := range base.Topics.All() {
		if next.Topics.ByID(topic.ID) == nil {
			deleted = append(deleted, topic)
		}
	}
	if !slices.Equal(deleted, d.Topics().Deleted()) {
		t.Fatalf("deleted: %v, the delta says %v", deleted, d.Topics().Deleted())
	}
}

func TestSnapshotOrder(t *testing.T) {
	h := newHistory(7)
	img := replayAll(t, Empty, Provenance{}, &metadata.FeatureLevelRecord{Name: metadata.FeatureMetadata, FeatureLevel: 33})
	for range 600 {
		img = replayAll(t, img, Provenance{}, h.next()...)
	}
	rank := map[int16]int{}
	for i, rec := range []metadata.Record{
		&metadata.FeatureLevelRecord{}, &metadata.RegisterBrokerRecord{}, &metadata.RegisterControllerRecord{}, &metadata.TopicRecord{}, &metadata.ConfigRecord{},
		&metadata.ClientQuotaRecord{}, &metadata.ProducerIdsRecord{}, &metadata.AccessControlEntryRecord{}, &metadata.UserScramCredentialRecord{}, &metadata.DelegationTokenRecord{},
	} {
		rank[rec.RecordKey()] = i
	}
	rank[(&metadata.PartitionRecord{}).RecordKey()] = 3
	last, seen := 0, map[int]bool{}
	var topic uuid.UUID
	for _, v := range written(t, img) {
		r, ok := rank[v.Record.RecordKey()]
		if !ok || r < last {
			t.Fatalf("%s after kind %d", metadata.Name(v.Record.RecordKey()), last)
		}
		last, seen[r] = r, true
		switch rec := v.Record.(type) {
		case *metadata.TopicRecord:
			topic = rec.TopicId
		case *metadata.PartitionRecord:
			if rec.TopicId != topic {
				t.Fatal("a partition does not follow its topic")
			}
		}
	}
	if len(seen) != 10 {
		t.Errorf("only %d of 10 kinds were written", len(seen))
	}
}

func TestWriteAtOldVersion(t *testing.T) {
	h := newHistory(7)
	img := Empty
	for range 600 {
		img = replayAll(t, img, Provenance{}, h.next()...)
	}
	var lost []string
	var l recordList
	if err := img.Write(&l, WriteOptions{Version: metadata.MinVersion, OnLoss: func(what string) { lost = append(lost, what) }}); err != nil {
		t.Fatal(err)
	}
	for _, v := range l {
		if _, err := metadata.AppendRecord(nil, v.Record, v.Version); err != nil {
			t.Fatalf("a record cannot be written at %s: %v", metadata.MinVersion, err)
		}
	}
	for _, want := range []string{"scram credentials", "delegation tokens", "controller registration data"} {
		if !slices.Contains(lost, want) {
			t.Errorf("the loss of %s was not told; told: %v", want, lost)
		}
	}
}

func TestWriteError(t *testing.T) {
	img := replayAll(t, Empty, Provenance{}, &metadata.FeatureLevelRecord{Name: metadata.FeatureMetadata, FeatureLevel: 33})
	want := errors.New("disk full")
	if err := img.Write(writerFunc(func([]metadata.Versioned) error { return want }), WriteOptions{}); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]metadata.Versioned) error

func (f writerFunc) Append(records []metadata.Versioned) error { return f(records) }

// Records that do not fit the state are errors, and leave no trace.
func TestReplayMisfits(t *testing.T) {
	id, other := uuid.UUID{1}, uuid.UUID{2}
	change := &metadata.PartitionChangeRecord{}
	change.SetDefaults()
	change.TopicId, change.PartitionId = id, 3
	img := replayAll(t, Empty, Provenance{},
		&metadata.TopicRecord{Name: "a", TopicId: id}, &metadata.PartitionRecord{TopicId: id, Replicas: []int32{1}, Leader: 1},
		&metadata.RegisterBrokerRecord{BrokerId: 1, BrokerEpoch: 5})
	for _, rec := range []metadata.Record{
		&metadata.TopicRecord{Name: "a", TopicId: other},
		&metadata.TopicRecord{Name: "b", TopicId: id},
		&metadata.PartitionRecord{TopicId: other},
		&metadata.PartitionRecord{TopicId: id, PartitionId: -1},
		change,
		&metadata.RemoveTopicRecord{TopicId: other},
		&metadata.ClearElrRecord{TopicName: "b"},
		&metadata.FenceBrokerRecord{Id: 1, Epoch: 4},
		&metadata.UnfenceBrokerRecord{Id: 2, Epoch: 5},
		&metadata.UnregisterBrokerRecord{BrokerId: 2},
		&metadata.BrokerRegistrationChangeRecord{BrokerId: 1, BrokerEpoch: 5, Fenced: 2},
		&metadata.UnregisterControllerRecord{ControllerId: 1},
		&metadata.RemoveAccessControlEntryRecord{Id: id},
		&metadata.RemoveUserScramCredentialRecord{Name: "u"},
		&metadata.RemoveDelegationTokenRecord{TokenId: "t"},
	} {
		d := NewDelta(img)
		if err := d.Replay(rec); err == nil {
			t.Errorf("%T was accepted", rec)
		}
		if diff := cmp.Diff(flatten(img), flatten(d.Apply(img.Provenance))); diff != "" {
			t.Errorf("%T left a trace:\n%s", rec, diff)
		}
	}
}

// The order of partitions in a snapshot is not promised; a gap that stays must not make a nil partition.
func TestPartitionsOutOfOrder(t *testing.T) {
	id := uuid.UUID{1}
	part := func(i int32) metadata.Record {
		return &metadata.PartitionRecord{TopicId: id, PartitionId: i, Leader: i, Replicas: []int32{1}}
	}
	change := &metadata.PartitionChangeRecord{}
	change.SetDefaults()
	change.TopicId, change.PartitionId, change.Leader = id, 2, 9
	img := replayAll(t, Empty, Provenance{}, &metadata.TopicRecord{Name: "a", TopicId: id}, part(2), change, part(1), part(0), part(1<<30))
	var leaders []int32
	for _, p := range img.Topics.ByName("a").Partitions {
		leaders = append(leaders, p.Leader)
	}
	if diff := cmp.Diff([]int32{0, 1, 9}, leaders); diff != "" {
		t.Error(diff)
	}
}

func TestPartitionEpochs(t *testing.T) {
	id := uuid.UUID{1}
	img := replayAll(t, Empty, Provenance{}, &metadata.TopicRecord{Name: "a", TopicId: id},
		&metadata.PartitionRecord{TopicId: id, Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 9})
	p := img.Topics.Partition("a", 0)
	for _, c := range []struct {
		change                 metadata.PartitionChangeRecord
		leader, epoch, pEpoch  int32
		isr, elr, lastKnownELR []int32
	}{
		{metadata.PartitionChangeRecord{Isr: []int32{2}, Leader: -2}, 1, 4, 10, []int32{2}, nil, nil},
		{metadata.PartitionChangeRecord{Leader: 1}, 1, 5, 10, []int32{1, 2}, nil, nil}, // the same leader again begins an epoch
		{metadata.PartitionChangeRecord{Isr: []int32{}, Leader: -1, EligibleLeaderReplicas: []int32{1}, LastKnownElr: []int32{1}}, -1, 5, 10, nil, []int32{1}, []int32{1}},
	} {
		c.change.LeaderRecoveryState = -1
		got := p.merge(&c.change)
		if got.Leader != c.leader || got.LeaderEpoch != c.epoch || got.PartitionEpoch != c.pEpoch {
			t.Errorf("%+v: leader %d, leader epoch %d, partition epoch %d", c.change, got.Leader, got.LeaderEpoch, got.PartitionEpoch)
		}
		if diff := cmp.Diff([][]int32{c.isr, c.elr, c.lastKnownELR}, [][]int32{got.ISR, got.ELR, got.LastKnownELR}); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLocalChanges(t *testing.T) {
	a, b, a2 := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	part := func(id uuid.UUID, i, leader int32, replicas ...int32) metadata.Record {
		return &metadata.PartitionRecord{TopicId: id, PartitionId: i, Leader: leader, Replicas: replicas, Isr: replicas}
	}
	change := func(id uuid.UUID, i int32, f func(*metadata.PartitionChangeRecord)) metadata.Record {
		c := &metadata.PartitionChangeRecord{}
		c.SetDefaults()
		c.TopicId, c.PartitionId = id, i
		f(c)
		return c
	}
	img := replayAll(t, Empty, Provenance{},
		&metadata.TopicRecord{Name: "a", TopicId: a}, part(a, 0, 1, 1, 2), part(a, 1, 2, 2),
		&metadata.TopicRecord{Name: "b", TopicId: b}, part(b, 0, 1, 1, 2), part(b, 1, 1, 1, 2), part(b, 2, 2, 1, 2), part(b, 3, 1, 1, 2), part(b, 4, 2, 2, 3))
	d := NewDelta(img)
	for _, rec := range []metadata.Record{
		&metadata.RemoveTopicRecord{TopicId: a},
		&metadata.TopicRecord{Name: "a", TopicId: a2}, part(a2, 0, 1, 1),
		change(b, 0, func(c *metadata.PartitionChangeRecord) { c.Isr = []int32{1} }),
		change(b, 1, func(c *metadata.PartitionChangeRecord) { c.Leader = 2 }),
		change(b, 2, func(c *metadata.PartitionChangeRecord) { c.Leader = 1 }),
		change(b, 3, func(c *metadata.PartitionChangeRecord) { c.Replicas, c.Leader = []int32{2, 3}, 2 }),
		change(b, 4, func(c *metadata.PartitionChangeRecord) { c.Isr = []int32{2} }),
		part(b, 5, 2, 2, 1),
	} {
		if err := d.Replay(rec); err != nil {
			t.Fatal(err)
		}
	}
	d.Apply(Provenance{})
	show := func(list []LocalPartition) []string {
		var out []string
		for _, l := range list {
			s := fmt.Sprintf("%s-%d of %d", l.Topic.Name, l.ID, l.Topic.ID[0])
			if l.Elected() {
				s += " elected"
			}
			out = append(out, s)
		}
		return out
	}
	c := d.Topics().LocalChanges(1)
	got := [][]string{show(c.Deletes), show(c.Leaders), show(c.Followers)}
	want := [][]string{
		{"a-0 of 1", "b-3 of 2"},
		{"a-0 of 3 elected", "b-0 of 2", "b-2 of 2 elected"},
		{"b-1 of 2 elected", "b-5 of 2 elected"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// manyTopics is an image of n topics with one partition each.
func manyTopics(tb testing.TB, n int) *Image {
	d := NewDelta(Empty)
	for i := range n {
		id := uuid.UUID{byte(i * 7), byte(i >> 8), byte(i >> 16), byte(i), 9}
		_ = d.Replay(&metadata.TopicRecord{Name: fmt.Sprintf("topic-%06d", i*7919%n), TopicId: id})
		_ = d.Replay(&metadata.PartitionRecord{TopicId: id, Replicas: []int32{1}, Isr: []int32{1}, Leader: 1})
	}
	img := d.Apply(Provenance{})
	if img.Topics.Len() != n {
		tb.Fatalf("%d topics", img.Topics.Len())
	}
	return img
}

// One topic more must cost the same among a thousand topics and among a hundred thousand.
func TestOneTopicCostsOneTopic(t *testing.T) {
	cost := func(n int) float64 {
		img := manyTopics(t, n)
		return testing.AllocsPerRun(20, func() {
			d := NewDelta(img)
			_ = d.Replay(&metadata.TopicRecord{Name: "topic-x", TopicId: uuid.UUID{200, 1}})
			_ = d.Replay(&metadata.PartitionRecord{TopicId: uuid.UUID{200, 1}, Replicas: []int32{1}, Isr: []int32{1}, Leader: 1})
			d.Apply(Provenance{})
		})
	}
	few, many := cost(1_000), cost(100_000)
	if many > 2*few {
		t.Errorf("%.0f allocations among 1,000 topics, %.0f among 100,000", few, many)
	}
}

func BenchmarkOneTopicAmong100000(b *testing.B) {
	img := manyTopics(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		d := NewDelta(img)
		_ = d.Replay(&metadata.TopicRecord{Name: "topic-x", TopicId: uuid.UUID{200, 1}})
		_ = d.Replay(&metadata.PartitionRecord{TopicId: uuid.UUID{200, 1}, Replicas: []int32{1}, Isr: []int32{1}, Leader: 1})
		d.Apply(Provenance{})
	}
}

func BenchmarkLookupAmong100000(b *testing.B) {
	img := manyTopics(b, 100_000)
	var names []string
	var ids []uuid.UUID
	for t := range img.Topics.All() {
		names, ids = append(names, t.Name), append(ids, t.ID)
	}
	b.Run("name", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if img.Topics.ByName(names[i*7919%len(names)]) == nil {
				b.Fatal()
			}
		}
	})
	b.Run("id", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if img.Topics.ByID(ids[i*7919%len(ids)]) == nil {
				b.Fatal()
			}
		}
	})
}
