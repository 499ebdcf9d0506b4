package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// A crash may take partition.metadata from a folder that was just made: the log gets its id when it is opened for its topic. A log
// of another topic is nobody's.
func TestTopicIDs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"fresh-0", "other-0"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := openManager(t, dir)
	defer m.Abandon()
	if err := WritePartitionMetadata(m.fsys, filepath.Join(dir, "other-0"), uuid.UUID{9}); err != nil {
		t.Fatal(err)
	}
	m.Abandon()
	m = openManager(t, dir)
	settings := topicSettings(nodeSettings(t))("")
	id := uuid.UUID{1, 2, 3}
	l, err := m.Open(TopicPartition{"fresh", 0}, id, uuid.Zero, settings)
	if err != nil || l.TopicID() != id {
		t.Fatalf("open: %v", err)
	}
	if got, err := ReadPartitionMetadata(m.fsys, filepath.Join(dir, "fresh-0")); err != nil || got != id {
		t.Errorf("the folder says %s, %v", got, err)
	}
	if _, err := m.Open(TopicPartition{"other", 0}, id, uuid.Zero, settings); !errors.Is(err, kerr.InconsistentTopicId) {
		t.Errorf("open a log of another topic: %v", err)
	}
}
