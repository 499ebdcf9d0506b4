package raft

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A node whose quorum-state or snapshot is damaged does not start: it could vote twice, or forget. The error names the file, and
// nothing on the disk is changed by the attempt.
func TestDamagedFilesAtStart(t *testing.T) {
	state := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	for name, c := range map[string]struct {
		file   string
		damage func([]byte) []byte
	}{
		"quorum-state is empty":   {QuorumStateFile, state("")},
		"quorum-state is cut":     {QuorumStateFile, func(b []byte) []byte { return b[:len(b)/2] }},
		"quorum-state is no JSON": {QuorumStateFile, state("leaderEpoch=3\n")},
		"quorum-state is of a later format": {QuorumStateFile, func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"data_version":1`), []byte(`"data_version":9`), 1)
		}},
		"quorum-state has no such epoch": {QuorumStateFile, state(`{"leaderId":1,"leaderEpoch":-2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`)},
		"snapshot has a bad byte":        {SnapshotID{10, 1}.String() + snapshotSuffix, func(b []byte) []byte { b[70] ^= 1; return b }},
		"snapshot is empty":              {SnapshotID{10, 1}.String() + snapshotSuffix, state("")},
	} {
		t.Run(name, func(t *testing.T) {
			w, n, cfg := filled(t, 10)
			path := filepath.Join(cfg.LogDir(), c.file)
			before, err := n.Disk().ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := c.damage(bytes.Clone(before))
			if bytes.Equal(bad, before) {
				t.Fatal("no damage")
			}
			if err := n.Disk().WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			n = n.Restart()
			n.Do("open", func() {
				if _, err = Open(n, cfg); err == nil || !strings.Contains(err.Error(), c.file) {
					t.Errorf("error %v does not name %s", err, c.file)
				}
			})
			w.RunFor(time.Second)
			if after, readErr := n.Disk().ReadFile(path); readErr != nil || !bytes.Equal(after, bad) {
				t.Errorf("the file was changed: %v", readErr)
			}
			t.Log(err)
		})
	}
}
