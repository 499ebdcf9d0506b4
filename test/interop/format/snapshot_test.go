//go:build interop

package format

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/test/interop/servertest"
)

// compareSnapshots compares what is in the bootstrap snapshots of two folders, all but the directory ids and salts that were drawn.
func compareSnapshots(t *testing.T, kafka, ours string) {
	t.Helper()
	a, err := filepath.Glob(kafka + "/*/" + raft.Topic + "-0/*.checkpoint")
	if err != nil || len(a) != 1 {
		return
	}
	dir, _ := filepath.Rel(kafka, filepath.Dir(a[0]))
	if diff := cmp.Diff(snapshotText(t, filepath.Join(kafka, dir)), snapshotText(t, filepath.Join(ours, dir))); diff != "" {
		t.Errorf("bootstrap snapshots, Kafka's (-) and ours (+):\n%s", diff)
	}
}

func snapshotText(t *testing.T, dir string) []string {
	t.Helper()
	r, err := raft.OpenSnapshot(real.New(real.Options{}).FS(), dir, raft.SnapshotID{})
	if err != nil {
		t.Fatal(err)
	}
	h := r.Head()
	out := []string{fmt.Sprintf("kraft.version %d", h.KRaftVersion)}
	if h.Voters != nil {
		for _, v := range h.Voters.All() {
			out = append(out, fmt.Sprintf("voter %d at %v, kraft.version %d to %d", v.Key.ID, v.Endpoints, v.MinKRaft, v.MaxKRaft))
		}
	}
	for {
		b, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		for _, v := range b.Records {
			out = append(out, recordText(v))
		}
	}
}

func recordText(v metadata.Versioned) string {
	switch r := v.Record.(type) {
	case *metadata.FeatureLevelRecord:
		return fmt.Sprintf("%s %d v%d", r.Name, r.FeatureLevel, v.Version)
	case *metadata.UserScramCredentialRecord:
		return fmt.Sprintf("%s %d %d salt %x stored %x server %x v%d", r.Name, r.Mechanism, r.Iterations, r.Salt, r.StoredKey, r.ServerKey, v.Version)
	}
	return fmt.Sprintf("%T v%d", v.Record, v.Version)
}

var drawn = regexp.MustCompile(`(voterDirectoryId":"|CreateTime: |lastContainedLogTimestamp":|CRC: |crc: )[\w/.-]*`)

// Kafka's dump of our snapshot is its dump of its own.
func TestDumpOfSnapshot(t *testing.T) {
	dump := func(by func(*servertest.Cluster, testing.TB)) []string {
		c := servertest.New(t)
		by(c, t)
		file := raft.SnapshotPath(raft.LogDir(c.Data), raft.SnapshotID{})
		out := servertest.Kafka(t, "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", file)
		out = strings.ReplaceAll(out, c.Dir, "")
		return strings.Split(regexp.MustCompile(`"port":\d+`).ReplaceAllString(drawn.ReplaceAllString(out, "$1…"), `"port":…`), "\n")
	}
	kafka, ours := dump((*servertest.Cluster).FormatByKafka), dump((*servertest.Cluster).Format)
	if diff := cmp.Diff(kafka, ours); diff != "" || len(ours) < 10 {
		t.Errorf("%d lines; Kafka's (-) and ours (+):\n%s", len(ours), diff)
	}
}
