package controller

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
)

// The controller and the image are two readers of one log. Whatever the log says, what the image writes as a snapshot makes
// a controller that has the state of one that read the log (I6): so both know the same, and a snapshot loses nothing.

// FuzzReplayEquality: random histories. A failure is a seed and a number of steps.
func FuzzReplayEquality(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed, uint16(200))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		h := newRandomHistory(t, seed)
		for range steps % 1000 {
			h.step(t)
		}
		h.answered(t)
		checkReplayEquality(t, h.c.cfg, h.quorum.committed())
	})
}

// TestReplayEqualityOfKafkasLog: the same of a real node's log.
func TestReplayEqualityOfKafkasLog(t *testing.T) {
	checkReplayEquality(t, FromNode(testNode(t), testClusterID), kafkaLog(t))
}

// registeredAt is where a broker was registered: a snapshot does not say it.
var registeredAt = regexp.MustCompile(`(?m)^broker (\d+) at -?\d+`)

func dumpOf(c *Controller) string {
	return registeredAt.ReplaceAllString(c.state.dump(), "broker $1")
}

func checkReplayEquality(t *testing.T, cfg Config, log []raft.Batch) {
	t.Helper()
	whole := New(newTestEnv(), cfg, &testQuorum{id: -7})
	for i := range log {
		whole.commit(&log[i])
	}
	want := dumpOf(whole)
	for cut := 0; ; cut += 1 + len(log)/5 {
		cut = min(cut, len(log))
		img := imageOf(t, image.Empty, log[:cut])
		c := New(newTestEnv(), cfg, &testQuorum{id: -7})
		end := int64(0)
		if cut > 0 {
			end = log[cut-1].LastOffset + 1
		}
		records := said(t, img)
		c.loadSnapshot(end, func() ([]metadata.Versioned, bool, error) {
			batch := records
			records = nil
			return batch, batch != nil, nil
		})
		for i := range log[cut:] {
			c.commit(&log[cut+i])
		}
		if diff := cmp.Diff(want, dumpOf(c)); diff != "" {
			t.Fatalf("the log up to %d as an image, and the rest (-the log +that):\n%s", end, diff)
		}
		again := imageOf(t, image.Empty, []raft.Batch{{Records: said(t, img)}})
		if diff := cmp.Diff(said(t, imageOf(t, img, log[cut:])), said(t, imageOf(t, again, log[cut:]))); diff != "" {
			t.Fatalf("an image at %d, and one made from its snapshot, lead to different ones (-first +second):\n%s", end, diff)
		}
		if cut == len(log) {
			return
		}
	}
}

// imageOf reads a log into an image; a transaction of metadata that is aborted leaves nothing.
func imageOf(t *testing.T, img *image.Image, log []raft.Batch) *image.Image {
	t.Helper()
	var before *image.Image
	for i := range log {
		for _, v := range log[i].Records {
			switch v.Record.(type) {
			case *metadata.BeginTransactionRecord:
				before = img
				continue
			case *metadata.AbortTransactionRecord:
				if before != nil {
					img = before
				}
				continue
			case *metadata.EndTransactionRecord:
				continue
			}
			d := image.NewDelta(img)
			if err := d.Replay(v.Record); err != nil {
				t.Fatalf("offset %d: %v", log[i].BaseOffset, err)
			}
			img = d.Apply(image.Provenance{Offset: log[i].LastOffset})
		}
	}
	return img
}

type recordList struct{ records []metadata.Versioned }

func (l *recordList) Append(records []metadata.Versioned) error {
	l.records = append(l.records, records...)
	return nil
}

// said is an image as records, read back as a log has them.
func said(t *testing.T, img *image.Image) []metadata.Versioned {
	t.Helper()
	var l recordList
	if err := img.Write(&l, image.WriteOptions{OnLoss: func(what string) { t.Errorf("a snapshot loses %s", what) }}); err != nil {
		t.Fatal(err)
	}
	out := []metadata.Versioned{}
	for _, v := range l.records {
		b, err := metadata.AppendRecord(nil, v.Record, v.Version)
		if err != nil {
			t.Fatal(err)
		}
		r, version, err := metadata.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, metadata.Versioned{Record: r, Version: version})
	}
	return out
}
