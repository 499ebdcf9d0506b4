package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Making the indexes of a sound segment again costs no leader epoch of the segments behind it.
func TestRebuiltIndexesKeepLeaderEpochs(t *testing.T) {
	dir := unpack(t, "clean")
	path := filepath.Join(dir, "txn-0", LeaderEpochFile) // the log has segments at 0 and 5
	if err := os.WriteFile(path, []byte("0\n2\n0 0\n3 9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(dir, "txn-0", offsetName(0, offsetIndexSuffix))
	if err := os.Remove(index); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	m := openManager(t, dir)
	defer m.Abandon()
	if got := m.Log(TopicPartition{"txn", 0}).LatestEpoch(); got != 3 {
		t.Errorf("the latest epoch is %d, want 3", got)
	}
}
