package storage

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// The small files may hold anything. Reading them never panics, takes no more memory than they are long, and what was
// read is read again when it is written.

func fuzzFile(f *testing.F, name string, seeds []string, read func(t *testing.T, fsys env.FS, dir string, data []byte)) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	fsys := realFS()
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		read(t, fsys, dir, data)
	})
}

func FuzzOffsetCheckpoint(f *testing.F) {
	seeds := []string{"", "0\n", "0\n2\na 0 5\nb-c 1 9223372036854775807\n", "0\n99999999999\n", "0\n1\na 0 -5", "1\n0\n"}
	fuzzFile(f, RecoveryPointCheckpoint, seeds, func(t *testing.T, fsys env.FS, dir string, _ []byte) {
		path := filepath.Join(dir, RecoveryPointCheckpoint)
		got, err := ReadOffsetCheckpoint(fsys, path)
		if err != nil {
			return
		}
		if err := WriteOffsetCheckpoint(fsys, path, got); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadOffsetCheckpoint(fsys, path); err != nil || !reflect.DeepEqual(again, got) && len(got) > 0 {
			t.Errorf("%v, written and read: %v, %v", got, again, err)
		}
	})
}

func FuzzLeaderEpochs(f *testing.F) {
	seeds := []string{"", "0\n2\n1 0\n3 10\n", "0\n3\n5 10\n3 20\n3 5\n", "0\n1\n2147483647 9223372036854775807\n"}
	fuzzFile(f, LeaderEpochFile, seeds, func(t *testing.T, fsys env.FS, dir string, _ []byte) {
		path := filepath.Join(dir, LeaderEpochFile)
		c, err := openLeaderEpochs(fsys, path)
		if err != nil {
			return
		}
		for i := 1; i < len(c.entries); i++ {
			if a, b := c.entries[i-1], c.entries[i]; a.epoch >= b.epoch || a.start >= b.start {
				t.Errorf("%v and %v do not rise", a, b)
			}
		}
		c.dirty = true
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		if again, err := openLeaderEpochs(fsys, path); err != nil || !reflect.DeepEqual(again.entries, c.entries) {
			t.Errorf("%v, written and read: %v, %v", c.entries, again, err)
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	const entry = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x0c"
	name := offsetName(5, txnIndexSuffix)
	fuzzFile(f, name, []string{"", entry, entry + entry, entry[:33]}, func(t *testing.T, fsys env.FS, dir string, data []byte) {
		x, err := openTxnIndex(fsys, filepath.Join(dir, name), 5)
		if err == nil && len(x.entries)*txnEntrySize != len(data) || err != nil && len(x.entries) > 0 {
			t.Errorf("%d entries of %d bytes, %v", len(x.entries), len(data), err)
		}
	})
}

func FuzzProducerSnapshot(f *testing.F) {
	p := newProducers(time.Hour)
	f.Add(p.encodeSnapshot())
	p.update(produced{id: 1, epoch: 2, count: 3, txn: true}.batch(f), nil)
	p.update(produced{id: 2, epoch: 1, marker: commit0, offset: 3}.batch(f), commit0)
	f.Add(p.encodeSnapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		fixCRC(data)
		got := newProducers(1 << 62)
		if err := got.loadSnapshot(data, 0); err != nil {
			return
		}
		again := newProducers(1 << 62)
		if err := again.loadSnapshot(got.encodeSnapshot(), 0); err != nil || !reflect.DeepEqual(again.entries, got.entries) {
			t.Errorf("%+v, written and read: %+v, %v", got.all(), again.all(), err)
		}
	})
}

func FuzzMetaProperties(f *testing.F) {
	seeds := []string{"", "#\nnode.id=1\nversion=1\ncluster.id=abc\ndirectory.id=" + someID, "version=0\nbroker.id=1", "version=1\\\n1", `cluster.id=\u00zz`, "version=1\nnode.id=-5\ncluster.id=", "broker.id=-5"}
	fuzzFile(f, MetaPropertiesFile, seeds, func(t *testing.T, fsys env.FS, dir string, _ []byte) {
		got, err := ReadMetaProperties(fsys, dir)
		if err != nil {
			return
		}
		if err := WriteMetaProperties(fsys, dir, got, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadMetaProperties(fsys, dir); err != nil || again != got {
			t.Errorf("%+v, written and read: %+v, %v", got, again, err)
		}
	})
}

func FuzzPartitionMetadata(f *testing.F) {
	fuzzFile(f, PartitionMetadataFile, []string{"", "version: 0\ntopic_id: " + someID, "version: 0\n"}, func(t *testing.T, fsys env.FS, dir string, data []byte) {
		if id, err := ReadPartitionMetadata(fsys, dir); err == nil && id.IsZero() && len(data) > 0 {
			t.Error("no id and no error")
		}
	})
}

func FuzzCleanShutdown(f *testing.F) {
	fuzzFile(f, CleanShutdownFile, []string{"", `{"version":0,"brokerEpoch":13}`, `{"brokerEpoch":1e3}`}, func(t *testing.T, fsys env.FS, dir string, _ []byte) {
		if _, clean, err := ReadCleanShutdown(fsys, dir); err != nil || !clean {
			t.Errorf("clean %t, %v", clean, err)
		}
	})
}

// fixCRC makes the CRC of a producer snapshot right, so that its content is looked at.
func fixCRC(b []byte) {
	if len(b) >= producerSnapshotHeader {
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	}
}
