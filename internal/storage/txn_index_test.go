package storage

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ottla-io/ottla/internal/env"
)

func TestTxnIndexAgainstList(t *testing.T) {
	fsys := realFS()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		path := filepath.Join(t.TempDir(), offsetName(100, txnIndexSuffix))
		x, err := openTxnIndex(fsys, path, 100)
		if err != nil {
			t.Fatal(err)
		}
		var list []abortedTxn
		marker := int64(100)
		for range 60 {
			switch r.IntN(8) {
			case 0:
				to := marker - int64(r.IntN(10))
				list = slices.DeleteFunc(list, func(e abortedTxn) bool { return e.last >= to })
				if err := x.truncate(to); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := x.close(); err != nil {
					t.Fatal(err)
				}
				if x, err = openTxnIndex(fsys, path, 100); err != nil {
					t.Fatal(err)
				}
			default:
				marker += 1 + int64(r.IntN(4))
				e := abortedTxn{int64(r.IntN(3)), marker - int64(r.IntN(8)), marker, marker + 1 - int64(r.IntN(3))}
				if err := x.append(e); err != nil {
					t.Fatal(err)
				}
				list = append(list, e)
			}
			from := 90 + int64(r.IntN(int(marker-80)))
			to := from + int64(r.IntN(20))
			got, done := x.collect(nil, from, to)
			var want []AbortedTxn
			wantDone := false
			for _, e := range list {
				if e.last >= from && e.first < to {
					want = append(want, AbortedTxn{e.producerID, e.first})
				}
				if wantDone = e.lastStable >= to; wantDone {
					break
				}
			}
			if !slices.Equal(got, want) || done != wantDone {
				t.Fatalf("seed %d: aborted in [%d, %d): %v %t, want %v %t", seed, from, to, got, done, want, wantDone)
			}
		}
		if err := x.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The bytes are Kafka's, and damage of any kind is found.
func TestTxnIndexFile(t *testing.T) {
	fsys := realFS()
	path := filepath.Join(t.TempDir(), offsetName(5, txnIndexSuffix))
	x, err := openTxnIndex(fsys, path, 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there although nothing was aborted")
	}
	for _, e := range []abortedTxn{{7, 6, 11, 12}, {7, 13, 15, 12}} {
		if err := x.append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(x.sync(), x.close()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kafkas, err := os.ReadFile(filepath.Join(unpack(t, "clean"), "txn-0", offsetName(5, txnIndexSuffix)))
	if err != nil || !slices.Equal(good, kafkas) {
		t.Errorf("% x, %v\nKafka wrote % x", good, err, kafkas)
	}
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"cut", func(b []byte) []byte { return b[:40] }},
		{"garbage behind", func(b []byte) []byte { return append(b, 1, 2, 3) }},
		{"of a newer version", func(b []byte) []byte { b[1] = 1; return b }},
		{"zeros", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"markers that do not rise", func(b []byte) []byte { return append(b, b...) }},
		{"begins behind its end", func(b []byte) []byte { b[17] = 200; return b }},
	} {
		if err := env.WriteFileAtomic(fsys, path, c.damage(slices.Clone(good)), 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := openTxnIndex(fsys, path, 5)
		var damage *DamageError
		if !errors.As(err, &damage) || len(x.entries) != 0 {
			t.Errorf("%s: %d entries, %v", c.name, len(x.entries), err)
		}
	}
	path = filepath.Join(filepath.Dir(path), offsetName(12, txnIndexSuffix))
	if err := env.WriteFileAtomic(fsys, path, good, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openTxnIndex(fsys, path, 12); err == nil {
		t.Error("a marker below the segment's base is taken")
	}
}

// A damaged transaction index of a log that was closed in order is made again: readers must not see what was aborted.
func TestDamagedTxnIndexIsMadeAgain(t *testing.T) {
	dir := unpack(t, "clean")
	path := filepath.Join(dir, "txn-0", offsetName(5, txnIndexSuffix))
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, want[:50], 0o644); err != nil {
		t.Fatal(err)
	}
	m := openManager(t, dir)
	check(t, m, inBoth)
	if err := m.Shutdown(-1); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !slices.Equal(got, want) {
		t.Errorf("% x, %v\nwant % x", got, err, want)
	}
}

// openTxnIndex reads the transaction index of the segment with that base.
func openTxnIndex(fsys env.FS, path string, base int64) (*txnIndex, error) {
	s := newSegment(NewOpenFiles(fsys, 0), filepath.Dir(path), base, 0)
	return &s.txns, s.txns.load()
}
