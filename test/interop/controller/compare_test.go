//go:build interop

package controller

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
)

// question is a request, in a version.
type question struct {
	name    string
	version int16
	req     protocol.Request
}

// TestSameAnswers asks both nodes the same questions in the same order. In the end both have the same records in their
// logs, and ours can go on with Kafka's.
func TestSameAnswers(t *testing.T) {
	kafka, ours := startKafka(t), startOurs(t)
	askBoth(t, kafka, ours, questions())
	t.Run("records", func(t *testing.T) { compareRecords(t, kafka, ours) })
	t.Run("replay", func(t *testing.T) { compareReplay(t, kafka, ours) })
}

func askBoth(t *testing.T, kafka *kafkaNode, ours *ourNode, questions []question) {
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			kafka.t, ours.t = t, t
			want, got := text(kafka.ask(q.req, q.version)), text(onTheWire(t, ours.ask(q.req, q.version), q.version))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers differ (-kafka +ours):\n%s", diff)
			}
		})
	}
}

// onTheWire is what a client sees of an answer in a version.
func onTheWire(t *testing.T, resp protocol.Response, version int16) protocol.Response {
	t.Helper()
	b, err := resp.Encode(nil, version)
	if err != nil {
		t.Fatal(err)
	}
	seen := protocol.NewResponse(resp.APIKey())
	if err := seen.Decode(wire.NewDecoder(b), version); err != nil {
		t.Fatal(err)
	}
	return seen
}

// text is an answer as sorted lines. Ids of topics are only there or not.
func text(resp protocol.Response) []string { return textOf(reflect.ValueOf(resp)) }

func textOf(of reflect.Value) []string {
	var lines []string
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[uuid.UUID]():
			lines = append(lines, fmt.Sprintf("%s zero=%t", prefix, v.Interface() == uuid.Zero))
		case v.Kind() == reflect.Pointer && v.IsNil():
			lines = append(lines, prefix+" null")
		case v.Kind() == reflect.Pointer:
			walk(prefix, v.Elem())
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(prefix+"/"+entryName(v.Index(i), i), v.Index(i))
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "ThrottleTimeMs" && name != "UnknownTags" {
					walk(prefix+"."+name, v.Field(i))
				}
			}
		default:
			lines = append(lines, fmt.Sprintf("%s %v", prefix, v.Interface()))
		}
	}
	walk("", of)
	sort.Strings(lines)
	return lines
}

// entryName names an entry of a list by what it is of, so that the order does not matter.
func entryName(e reflect.Value, i int) string {
	if e.Kind() == reflect.Struct {
		if parts := e.FieldByName("Entity"); parts.IsValid() {
			return strings.Join(textOf(parts), ",")
		}
		for _, field := range []string{"Name", "User", "ResourceName", "Topic", "PartitionId", "PartitionIndex", "EntityType"} {
			f := e.FieldByName(field)
			if f.IsValid() && f.Kind() == reflect.Pointer {
				if f.IsNil() {
					return "null"
				}
				f = f.Elem()
			}
			if f.IsValid() {
				return fmt.Sprint(f.Interface())
			}
		}
	}
	return strconv.Itoa(i)
}

// create reads topics as: name [partitions=n] [rf=n] [assign=0:1,2;1:2] [KEY=VALUE] [null:KEY], one a line.
func create(validateOnly bool, lines string) *protocol.CreateTopicsRequest {
	req := protocol.NewCreateTopicsRequest()
	req.ValidateOnly = validateOnly
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		topic := protocol.CreateTopicsRequestCreatableTopic{Name: strings.Trim(f[0], `"`), NumPartitions: -1, ReplicationFactor: -1}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			n, _ := strconv.Atoi(v)
			switch {
			case k == "partitions":
				topic.NumPartitions = int32(n)
			case k == "rf":
				topic.ReplicationFactor = int16(n)
			case k == "assign":
				for a := range strings.SplitSeq(v, ";") {
					p, replicas, _ := strings.Cut(a, ":")
					pid, _ := strconv.Atoi(p)
					topic.Assignments = append(topic.Assignments, protocol.CreateTopicsRequestCreatableReplicaAssignment{PartitionIndex: int32(pid), BrokerIds: ids(replicas)})
				}
			case strings.HasPrefix(k, "null:"):
				topic.Configs = append(topic.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: k[5:]})
			default:
				topic.Configs = append(topic.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: k, Value: &v})
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func ids(list string) []int32 {
	out := []int32{}
	for s := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, int32(n))
		}
	}
	return out
}

// remove takes names, and zero, unknown-id and both:NAME.
func remove(names ...string) *protocol.DeleteTopicsRequest {
	req := protocol.NewDeleteTopicsRequest()
	req.TimeoutMs = 30000
	for _, n := range names {
		s := protocol.DeleteTopicsRequestDeleteTopicState{}
		switch {
		case n == "zero":
		case n == "unknown-id":
			s.TopicId = uuid.UUID{9, 15: 9}
		case strings.HasPrefix(n, "both:"):
			name := n[5:]
			s.Name, s.TopicId = &name, uuid.UUID{9, 15: 9}
		default:
			s.Name = &n
		}
		req.Topics = append(req.Topics, s)
	}
	return req
}

// grow reads: name count [assignments], one a line.
func grow(lines string) *protocol.CreatePartitionsRequest {
	req := protocol.NewCreatePartitionsRequest()
	req.TimeoutMs = 30000
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		n, _ := strconv.Atoi(f[1])
		topic := protocol.CreatePartitionsRequestCreatePartitionsTopic{Name: f[0], Count: int32(n)}
		if len(f) > 2 {
			for a := range strings.SplitSeq(f[2], ";") {
				topic.Assignments = append(topic.Assignments, protocol.CreatePartitionsRequestCreatePartitionsAssignment{BrokerIds: ids(a)})
			}
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// alter reads: type name op key[=value], lines of one resource together; a fifth word begins another resource.
func alter(lines string) *protocol.IncrementalAlterConfigsRequest {
	req := protocol.NewIncrementalAlterConfigsRequest()
	kinds := map[string]int8{"topic": 2, "broker": 4, "client-metrics": 16, "group": 32, "unknown": 1}
	ops := map[string]int8{"set": 0, "null": 0, "delete": 1, "append": 2, "subtract": 3}
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		kind, name := kinds[f[0]], strings.Trim(f[1], `"`)
		k, v, _ := strings.Cut(f[3], "=")
		c := protocol.IncrementalAlterConfigsRequestAlterableConfig{Name: k, ConfigOperation: ops[f[2]], Value: &v}
		if f[2] == "null" || f[2] == "delete" {
			c.Value = nil
		}
		if n := len(req.Resources); n > 0 && req.Resources[n-1].ResourceType == kind && req.Resources[n-1].ResourceName == name && len(f) == 4 {
			req.Resources[n-1].Configs = append(req.Resources[n-1].Configs, c)
			continue
		}
		req.Resources = append(req.Resources, protocol.IncrementalAlterConfigsRequestAlterConfigsResource{
			ResourceType: kind, ResourceName: name,
			Configs: []protocol.IncrementalAlterConfigsRequestAlterableConfig{c},
		})
	}
	return req
}

// alterWhole makes an AlterConfigs request of the same lines.
func alterWhole(lines string) *protocol.AlterConfigsRequest {
	req := protocol.NewAlterConfigsRequest()
	for _, r := range alter(lines).Resources {
		one := protocol.AlterConfigsRequestAlterConfigsResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
		for _, c := range r.Configs {
			one.Configs = append(one.Configs, protocol.AlterConfigsRequestAlterableConfig{Name: c.Name, Value: c.Value})
		}
		req.Resources = append(req.Resources, one)
	}
	return req
}

func elect(kind int8, topic string, partitions ...int32) *protocol.ElectLeadersRequest {
	req := protocol.NewElectLeadersRequest()
	req.ElectionType = kind
	if topic != "" {
		req.TopicPartitions = []protocol.ElectLeadersRequestTopicPartitions{{Topic: topic, Partitions: partitions}}
	}
	return req
}

// features reads: name level type, one a line; type 1 is an upgrade, 2 and 3 are downgrades.
func features(validateOnly bool, lines string) *protocol.UpdateFeaturesRequest {
	req := protocol.NewUpdateFeaturesRequest()
	req.ValidateOnly = validateOnly
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		level, _ := strconv.Atoi(f[1])
		kind, _ := strconv.Atoi(f[2])
		req.FeatureUpdates = append(req.FeatureUpdates, protocol.UpdateFeaturesRequestFeatureUpdateKey{Feature: f[0], MaxVersionLevel: int16(level), UpgradeType: int8(kind)})
	}
	return req
}

func unregister(id int32) *protocol.UnregisterBrokerRequest {
	req := protocol.NewUnregisterBrokerRequest()
	req.BrokerId = id
	return req
}

// reassign reads: topic partition replicas, or cancel.
func reassign(lines string) *protocol.AlterPartitionReassignmentsRequest {
	req := protocol.NewAlterPartitionReassignmentsRequest()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		pid, _ := strconv.Atoi(f[1])
		one := protocol.AlterPartitionReassignmentsRequestReassignablePartition{PartitionIndex: int32(pid)}
		if f[2] != "cancel" {
			one.Replicas = ids(f[2])
		}
		req.Topics = append(req.Topics, protocol.AlterPartitionReassignmentsRequestReassignableTopic{
			Name:       f[0],
			Partitions: []protocol.AlterPartitionReassignmentsRequestReassignablePartition{one},
		})
	}
	return req
}
