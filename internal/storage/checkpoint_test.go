package storage

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/env"
)

func TestOffsetCheckpoint(t *testing.T) {
	fsys := realFS()
	path := filepath.Join(t.TempDir(), RecoveryPointCheckpoint)
	want := map[TopicPartition]int64{{"b", 2}: 5, {"b", 10}: 0, {"a", 3}: 1 << 60}
	if err := WriteOffsetCheckpoint(fsys, path, want); err != nil {
		t.Fatal(err)
	}
	if data, err := env.ReadFile(fsys, path); err != nil || string(data) != "0\n3\na 3 1152921504606846976\nb 2 5\nb 10 0\n" {
		t.Errorf("%q, %v", data, err)
	}
	if got, err := ReadOffsetCheckpoint(fsys, path); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ReadOffsetCheckpoint(fsys, path+"-missing"); err != nil || len(got) != 0 {
		t.Errorf("of no file: %v, %v", got, err)
	}
}

func TestOffsetCheckpointTexts(t *testing.T) {
	fsys := realFS()
	path := filepath.Join(t.TempDir(), LogStartCheckpoint)
	for _, c := range []struct{ text, err string }{
		{"", ""},
		{"0\n", ""}, // Kafka takes it for an empty one
		{"0\n0\n", ""},
		{"0\n1\na 0 5\n", ""},
		{"0\n1\na 0 5", ""},
		{"0\r\n1\r\na 0 5\r\n", ""},
		{"0\n1\na  0\t5\n", ""},
		{"1\n0\n", "unrecognized version"},
		{"x\n", "unrecognized version"},
		{"0\nx\n", "malformed line 2"},
		{"0\n-1\n", "malformed line 2"},
		{"0\n2\na 0 5\n", "expected 2 entries in the checkpoint file, but found 1"},
		{"0\n1\na 0 5\na 1 5\n", "expected 1 entries in the checkpoint file, but found 2"},
		{"0\n1\na 0\n", "malformed line 3"},
		{"0\n1\na x 5\n", "malformed line 3"},
		{"0\n1\na 0 x\n", "malformed line 3"},
		{"0\n1\na 99999999999 5\n", "malformed line 3"},
		{"0\n1\n\n", "malformed line 3"},
		{"\x00\x00\x00", "unrecognized version"},
	} {
		if err := env.WriteFileAtomic(fsys, path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadOffsetCheckpoint(fsys, path)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)):
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		}
	}
}
