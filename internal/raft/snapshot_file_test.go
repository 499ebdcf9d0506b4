package raft

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/record"
)

// goldenBootstrap is the 0-0 snapshot that Kafka's own format tool wrote.
func goldenBootstrap(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("../record/testdata/bootstrap.checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What Kafka wrote is read, and written again it is the same to the byte.
func TestSnapshotOfKafka(t *testing.T) {
	want := goldenBootstrap(t)
	e := real.New(real.Options{})
	dir := t.TempDir()
	if err := os.WriteFile(SnapshotPath(dir, bootstrapID), want, 0o400); err != nil {
		t.Fatal(err)
	}
	r, err := OpenSnapshot(e.FS(), dir, bootstrapID)
	if err != nil {
		t.Fatal(err)
	}
	b, ok, err := r.Next()
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err := r.Next(); ok || err != nil {
		t.Fatal("a second batch", ok, err)
	}
	if len(b.Records) != 6 || r.Head().KRaftVersion != 1 || r.Head().Voters.Len() != 1 {
		t.Errorf("%d records, head %+v", len(b.Records), r.Head())
	}

	var times []int64 // of the batches as they come
	for rest := want; len(rest) > 0; {
		var batch record.Batch
		if batch, rest, err = record.Next(rest); err != nil {
			t.Fatal(err)
		}
		times = append(times, batch.MaxTimestamp())
	}
	again := t.TempDir()
	w, err := newSnapshotWriter(e.FS(), again, bootstrapID, r.Head(), snapshotOptions{suffix: "x", maxBatch: DefaultMaxBatchBytes, clock: func() int64 {
		now := times[0]
		times = times[1:]
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range b.Records {
		if err := w.Append([]metadata.Versioned{rec}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(SnapshotPath(again, bootstrapID))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("written again:\n%x\nwant\n%x", got, want)
	}
	if fi, _ := os.Stat(SnapshotPath(again, bootstrapID)); fi.Mode() != 0o400 {
		t.Errorf("mode %v", fi.Mode())
	}
}

// A snapshot that was cut, or has one bad byte, is an error and never a shorter snapshot.
func TestDamagedSnapshot(t *testing.T) {
	whole := goldenBootstrap(t)
	e := real.New(real.Options{})
	dir := t.TempDir()
	read := func(b []byte) error {
		os.Remove(SnapshotPath(dir, bootstrapID))
		if err := os.WriteFile(SnapshotPath(dir, bootstrapID), b, 0o400); err != nil {
			t.Fatal(err)
		}
		r, err := OpenSnapshot(e.FS(), dir, bootstrapID)
		for ok := true; err == nil && ok; {
			_, ok, err = r.Next()
		}
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if read(whole[:n]) == nil {
			t.Fatalf("cut at %d bytes: no error", n)
		}
	}
	for i := range whole {
		if i >= 12 && i < 16 || i >= 166+12 && i < 166+16 || i >= 419+12 && i < 419+16 || i < 8 || i >= 166 && i < 166+8 || i >= 419 && i < 419+8 {
			continue // offset and leader epoch are outside of the CRC
		}
		b := bytes.Clone(whole)
		b[i] ^= 0x40
		if read(b) == nil {
			t.Fatalf("byte %d changed: no error", i)
		}
	}
}

func TestSnapshotNames(t *testing.T) {
	id := SnapshotID{709, 3}
	if got := id.String() + snapshotSuffix; got != "00000000000000000709-0000000003.checkpoint" {
		t.Error(got)
	}
	if got, ok := ParseSnapshotName(id.String() + snapshotSuffix); !ok || got != id {
		t.Error(got, ok)
	}
	for _, name := range []string{"", ".checkpoint", "00000000000000000709-0000000003.checkpoint.deleted", "0-0.checkpoint",
		"-0000000000000000709-0000000003.checkpoint", "00000000000000000709-00000000x3.checkpoint", "bootstrap.checkpoint"} {
		if id, ok := ParseSnapshotName(name); ok {
			t.Errorf("%q is %v", name, id)
		}
	}
}

func TestVoterSet(t *testing.T) {
	s := NewVoterSet(Voter{Key: ReplicaKey{ID: 3}}, Voter{Key: ReplicaKey{ID: 1, DirectoryID: [16]byte{9}}})
	if diff := cmp.Diff([]int32{1, 3}, s.IDs()); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		key  ReplicaKey
		want bool
	}{
		{ReplicaKey{ID: 3, DirectoryID: [16]byte{7}}, true}, // static: any directory
		{ReplicaKey{ID: 1, DirectoryID: [16]byte{9}}, true},
		{ReplicaKey{ID: 1, DirectoryID: [16]byte{8}}, false}, // another disk
		{ReplicaKey{ID: 1}, false},
		{ReplicaKey{ID: 2}, false},
	} {
		if got := s.Contains(c.key); got != c.want {
			t.Errorf("Contains(%v) = %v", c.key, got)
		}
	}
}
