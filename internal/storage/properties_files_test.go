package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/uuid"
)

const someID = "JEXY6aqzQY-32P5TStzaFg"

func parseID(t *testing.T, text string) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestMetaProperties(t *testing.T) {
	id := parseID(t, someID)
	for _, c := range []struct {
		text string
		want MetaProperties
		err  string
	}{
		{"version=1\nnode.id=2\ncluster.id=abc\n", MetaProperties{1, "abc", 2, uuid.Zero}, ""},
		{"#x\r\nversion : 1\r\n node.id 2\r\ncluster.id=a\\\r\n  bc\r\ndirectory.id=" + someID, MetaProperties{1, "abc", 2, id}, ""},
		{"version=0\nbroker.id=2\ncluster.id=abc\n", MetaProperties{0, "abc", 2, uuid.Zero}, ""},
		{"version=0\n", MetaProperties{0, "", -1, uuid.Zero}, ""},
		{"broker.id=2\n", MetaProperties{0, "", 2, uuid.Zero}, ""},
		{"version=1\ncluster.id=abc\n", MetaProperties{}, "node.id"},
		{"version=1\nnode.id=2\n", MetaProperties{}, "cluster.id"},
		{"version=2\nnode.id=2\ncluster.id=abc\n", MetaProperties{}, "version"},
		{"version=x\nnode.id=2\ncluster.id=abc\n", MetaProperties{}, "version"},
		{"version=1\nnode.id=x\ncluster.id=abc\n", MetaProperties{}, "node.id"},
		{"version=1\nnode.id=2\ncluster.id=abc\ndirectory.id=x\n", MetaProperties{}, "directory.id"},
		{"version=1\nnode.id=2\ncluster.id=abc\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\n", MetaProperties{}, "reserved directory ID"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, MetaPropertiesFile)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadMetaProperties(realFS(), dir)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %+v, %v", c.text, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)):
			t.Errorf("%q: %v, want %s", c.text, err, c.err)
		}
	}
	if _, err := ReadMetaProperties(realFS(), t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}

func TestMetaPropertiesAreWrittenAsRead(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []MetaProperties{
		{1, "abc", 2, parseID(t, someID)},
		{1, " a=b:c#d!e\\f\tg\nh\u00fc ", 0, uuid.Zero},
		{0, "", 7, uuid.Zero},
	} {
		if err := WriteMetaProperties(realFS(), dir, want, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadMetaProperties(realFS(), dir); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	p := MetaProperties{1, "Zm9ybWF0LWZhY3RzLTAwMQ", 1, parseID(t, someID)}
	if err := WriteMetaProperties(realFS(), dir, p, time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	const want = "#\n#Tue Nov 14 22:13:20 UTC 2023\nnode.id=1\ndirectory.id=" + someID + "\nversion=1\ncluster.id=Zm9ybWF0LWZhY3RzLTAwMQ\n"
	if data, err := os.ReadFile(filepath.Join(dir, MetaPropertiesFile)); err != nil || string(data) != want {
		t.Errorf("%q, %v", data, err)
	}
}

func TestPartitionMetadata(t *testing.T) {
	dir := t.TempDir()
	if id, err := ReadPartitionMetadata(realFS(), dir); err != nil || !id.IsZero() {
		t.Errorf("of no file: %s, %v", id, err)
	}
	if err := WritePartitionMetadata(realFS(), dir, parseID(t, someID)); err != nil {
		t.Fatal(err)
	}
	if id, err := ReadPartitionMetadata(realFS(), dir); err != nil || id.String() != someID {
		t.Errorf("%s, %v", id, err)
	}
	path := filepath.Join(dir, PartitionMetadataFile)
	if data, err := os.ReadFile(path); err != nil || string(data) != "version: 0\ntopic_id: "+someID {
		t.Errorf("%q, %v", data, err)
	}
	for _, text := range []string{
		"version: 0\n", "version: 1\ntopic_id: " + someID, "topic_id: " + someID, "version: 0\ntopic_id: x", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if id, err := ReadPartitionMetadata(realFS(), dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %s, %v", text, id, err)
		}
	}
}

func TestCleanShutdown(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, CleanShutdownFile)
	want := func(what string, epoch int64, clean bool) {
		t.Helper()
		if gotEpoch, gotClean, err := ReadCleanShutdown(realFS(), dir); err != nil || gotEpoch != epoch || gotClean != clean {
			t.Errorf("%s: epoch %d, clean %t, %v", what, gotEpoch, gotClean, err)
		}
	}
	want("no file", -1, false)
	if err := WriteCleanShutdown(realFS(), dir, 13); err != nil {
		t.Fatal(err)
	}
	want("written", 13, true)
	if data, err := os.ReadFile(path); err != nil || string(data) != `{"version":0,"brokerEpoch":13}` {
		t.Errorf("%q, %v", data, err)
	}
	for _, text := range []string{"", "{", `{"version":0}`, `{"version":0,"brokerEpoch":null}`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want(text, -1, true)
	}
	for range 2 {
		if err := RemoveCleanShutdown(realFS(), dir); err != nil {
			t.Fatal(err)
		}
		want("removed", -1, false)
	}
}
