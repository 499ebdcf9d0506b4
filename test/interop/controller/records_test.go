//go:build interop

package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// metadataLog reads what Kafka has in its metadata log.
func (k *kafkaNode) metadataLog() []raft.Batch {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join(k.dir, "data", "__cluster_metadata-0", "00000000000000000000.log"))
	if err != nil {
		k.t.Fatal(err)
	}
	var out []raft.Batch
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			break // the file is longer than what is written
		}
		one := raft.Batch{BaseOffset: batch.BaseOffset(), LastOffset: batch.LastOffset(), Epoch: batch.LeaderEpoch()}
		it := batch.Iter(nil)
		for rec := (record.Record{}); !batch.IsControl() && it.Next(&rec); {
			r, version, err := metadata.ParseRecord(rec.Value)
			if err != nil {
				k.t.Fatal(err)
			}
			one.Records = append(one.Records, metadata.Versioned{Record: r, Version: version})
		}
		if err := it.Err(); err != nil {
			k.t.Fatal(err)
		}
		out = append(out, one)
		b = rest
	}
	return out
}

// written are the records of a log from the first topic on, one line each. Ids of topics are told by name, other ids
// not at all; what only time makes is left out.
func written(log []raft.Batch) []string {
	names := map[uuid.UUID]string{}
	var lines []string
	for _, b := range log {
		for _, v := range b.Records {
			switch r := v.Record.(type) {
			case *metadata.NoOpRecord:
				continue
			case *metadata.TopicRecord:
				names[r.TopicId] = r.Name
			}
			if len(names) == 0 {
				continue
			}
			lines = append(lines, fmt.Sprintf("%T v%d %s", v.Record, v.Version, fields(reflect.ValueOf(v.Record).Elem(), names)))
		}
	}
	// Settings of one resource and topics removed by one request are in no order: sort each run of them.
	for i := 0; i < len(lines); i++ {
		kind, _, _ := strings.Cut(lines[i], " ")
		j := i + 1
		for j < len(lines) && strings.HasPrefix(lines[j], kind) && unordered(kind) {
			j++
		}
		slices.Sort(lines[i:j])
		i = j - 1
	}
	return lines
}

// unordered reports whether a request's records of a type are in no order with Kafka.
func unordered(kind string) bool {
	return slices.ContainsFunc([]string{"Config", "RemoveTopic", "ClientQuota", "AccessControl", "Scram"}, func(s string) bool { return strings.Contains(kind, s) })
}

func fields(v reflect.Value, names map[uuid.UUID]string) string {
	var parts []string
	for i := range v.NumField() {
		f := v.Field(i)
		name := v.Type().Field(i).Name
		switch {
		case name == "UnknownTags":
		case f.Type() == reflect.TypeFor[uuid.UUID]():
			parts = append(parts, name+"="+names[f.Interface().(uuid.UUID)])
		case f.Type() == reflect.TypeFor[[]uuid.UUID]():
			parts = append(parts, fmt.Sprintf("%s:%d", name, f.Len()))
		case f.Kind() == reflect.Pointer && f.IsNil(), f.Kind() == reflect.Slice && f.IsNil():
			parts = append(parts, name+"=null")
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			parts = append(parts, fmt.Sprintf("%s=%v", name, textOf(f)))
		case f.Kind() == reflect.Pointer:
			parts = append(parts, fmt.Sprintf("%s=%v", name, f.Elem().Interface()))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", name, f.Interface()))
		}
	}
	return strings.Join(parts, " ")
}

// compareRecords: both controllers wrote the same records, in the same order.
func compareRecords(t *testing.T, kafka *kafkaNode, ours *ourNode) {
	t.Helper()
	if diff := cmp.Diff(written(kafka.metadataLog()), written(ours.q.log)); diff != "" {
		t.Errorf("records differ (-kafka +ours):\n%s", diff)
	}
}

// compareReplay: a controller of ours that stood by while Kafka wrote its log can take over, and knows all topics.
func compareReplay(t *testing.T, kafka *kafkaNode, ours *ourNode) {
	t.Helper()
	heir := newOurs(t)
	log := kafka.metadataLog()
	heir.c.HandleCommit(log)
	heir.q.next = log[len(log)-1].LastOffset + 1
	heir.c.HandleLeaderChange(raft.LeaderAndEpoch{LeaderID: 1, Epoch: 9})
	ask := create(true, "a\nb\nc.d\nc_d\nc-d\nold\nm1\nbig\nnew partitions=3 rf=1")
	want, got := text(ours.ask(ask, 7)), text(heir.ask(ask, 7))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers differ (-ours +heir of Kafka's log):\n%s", diff)
	}
	if r := heir.ask(remove("m1"), 6).(*protocol.DeleteTopicsResponse); r.Responses[0].ErrorCode != 0 {
		t.Errorf("delete: error %d", r.Responses[0].ErrorCode)
	}
}
