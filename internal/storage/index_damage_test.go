package storage

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// indexedSettings are those of a topic with an index entry for each batch, and small segments.
func indexedSettings(t testing.TB) config.Topic {
	own := map[string]string{"index.interval.bytes": "0", "internal.segment.bytes": "2000"}
	return config.Topic{Layers: config.Layers{Node: nodeSettings(t)}, Own: own}
}

// someBatch is one with a single record.
func someBatch(t testing.TB, value []byte) []byte {
	t.Helper()
	b := record.NewBuilder(0, record.None)
	b.Append(1_700_000_000_000, nil, value)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// withBatches makes a log with a batch per offset and closes it in order.
func withBatches(t testing.TB, dir string, n int) {
	t.Helper()
	m := openManager(t, dir)
	l, err := m.Open(TopicPartition{"t", 0}, uuid.UUID{1}, uuid.Zero, indexedSettings(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := l.AppendAsLeader(someBatch(t, fmt.Appendf(nil, "%03d", i)), 0, AppendOptions{ProduceVersion: 9}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Shutdown(1); err != nil {
		t.Fatal(err)
	}
}

// Indexes of a log that was closed in order are not looked at when it is opened. What is wrong with one costs time, but no answer is
// wrong, and the next start makes it again.
func TestDamagedIndexesAreNotUsed(t *testing.T) {
	const batches, sealed, active = 60, "t-0/00000000000000000000", "t-0/00000000000000000056"
	overwrite := func(entry int, b []byte, size int) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, int64(entry*size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	beside := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 5), 5*71+24)
	for _, c := range []struct {
		name, file string
		damage     func(t *testing.T, path string)
	}{
		{"position inside a batch", sealed + ".index", overwrite(4, beside, offsetEntrySize)},
		{"position inside a batch, active", active + ".index", overwrite(2, binary.BigEndian.AppendUint32([]byte{0, 0, 0, 3}, 3*71+24), offsetEntrySize)},
		{"offset of another batch", sealed + ".index", overwrite(6, binary.BigEndian.AppendUint32(nil, 6), offsetEntrySize)},
		{"garbage for a time", active + ".timeindex", overwrite(0, []byte{0x80}, timeEntrySize)},
		{"garbage behind the last time", active + ".timeindex", overwrite(1, []byte("garbage that was never a time..."), timeEntrySize)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			withBatches(t, dir, batches)
			path := filepath.Join(dir, c.file)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c.damage(t, path)
			for life := range 2 {
				m := openManagerWith(t, dir, func(o *ManagerOptions) {
					o.Settings = func(string) config.Topic { return indexedSettings(t) }
				})
				l := m.Log(TopicPartition{"t", 0})
				for round := range 2 { // the second one finds what the first has noticed
					checkEveryOffset(t, l, batches)
					if found, ok, err := l.MaxTimestamp(); err != nil || !ok || found.Offset != 0 {
						t.Errorf("life %d, round %d: largest timestamp %+v %t %v", life, round, found, ok, err)
					}
				}
				if _, err := l.AppendAsLeader(someBatch(t, []byte("more")), 0, AppendOptions{ProduceVersion: 9}); err != nil {
					t.Fatal(err)
				}
				checkEveryOffset(t, l, batches)
				if err := l.TruncateTo(batches); err != nil {
					t.Fatal(err)
				}
				if err := m.Shutdown(1); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != string(good) {
				t.Errorf("the index was not made again: %v\n% x\n% x", err, got, good)
			}
		})
	}
}

func checkEveryOffset(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range int64(n) {
		offset := i * 7 % int64(n) // readers that go on where they ended use no index
		s, err := l.Read(offset, 1, true, l.EndOffset())
		if err != nil {
			t.Fatalf("read %d: %v", offset, err)
		}
		b, err := s.Bytes()
		s.Release()
		if want := fmt.Sprintf("%03d", offset); err != nil || !containsValue(b, want) {
			t.Fatalf("read %d: % x, %v", offset, b, err)
		}
	}
}

func containsValue(b []byte, want string) bool {
	return len(b) >= 4 && string(b[len(b)-4:len(b)-1]) == want
}

// A file of records that is gone is an error for who reads it, not a segment without records.
func TestMissingRecordsAreNotMade(t *testing.T) {
	dir := t.TempDir()
	withBatches(t, dir, 60)
	m := openManager(t, dir)
	defer m.Abandon()
	path := filepath.Join(dir, "t-0", offsetName(28, logSuffix))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l := m.Log(TopicPartition{"t", 0})
	if s, err := l.Read(30, 1, true, 60); err == nil {
		t.Errorf("read %d bytes of a file that is not there", s.Len)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading has made the file")
	}
}
