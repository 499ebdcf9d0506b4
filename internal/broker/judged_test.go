package broker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// To renew testdata/kafka.jsonl: run Apache Kafka 4.4.0 with the properties of world_test.go on a fresh folder with cluster id
// AAAAAAAAAAAAAAAAAAAAAQ, and this test with -kafka localhost:19092.
var kafka = flag.String("kafka", "", "address of an Apache Kafka whose answers become testdata/kafka.jsonl")

const judgedFile = "testdata/kafka.jsonl"

// question is one request of the comparison.
type question struct {
	name    string
	req     protocol.Request
	version int16
	settle  bool // wait until what it set off is done
}

// judgement is the answer of Apache Kafka to a question.
type judgement struct {
	Question string
	Answer   json.RawMessage
}

// TestJudgedByKafka puts questions to a broker whose answers Apache Kafka 4.4.0 has given before.
func TestJudgedByKafka(t *testing.T) {
	var out bytes.Buffer
	var judged []judgement
	if *kafka == "" {
		data, err := os.ReadFile(judgedFile)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var j judgement
			if err := json.Unmarshal(line, &j); err != nil {
				t.Fatal(err)
			}
			judged = append(judged, j)
		}
	}
	n := runNode(t)
	for i, q := range questions() {
		name := fmt.Sprintf("%s v%d", q.name, q.version)
		if *kafka != "" {
			answer, err := json.Marshal(judgedForm(askKafka(t, *kafka, q)))
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(judgement{name, answer})
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
			if q.settle {
				<-time.After(2 * time.Second)
			}
			continue
		}
		got := n.roundTrip(q.req, q.version, "PLAINTEXT", func(ctx *rpc.Context, respond func(protocol.Response)) { dispatch(n.broker, ctx, q.req, respond) })
		if q.settle {
			n.world.RunFor(2 * time.Second)
		}
		answer, err := json.MarshalIndent(judgedForm(got), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if i >= len(judged) || judged[i].Question != name {
			t.Fatalf("%s: question %d was not put to Kafka", name, i)
		}
		if err := json.Indent(&want, judged[i].Answer, "", " "); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(string(answer), "\n")); diff != "" {
			t.Errorf("%s (-Kafka +ours):\n%s", name, diff)
		}
	}
	if *kafka != "" {
		if err := os.WriteFile(judgedFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dispatch calls the handler of a request.
func dispatch(b *Broker, ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) {
	switch req := req.(type) {
	case *protocol.MetadataRequest:
		b.Metadata(ctx, req, func(r *protocol.MetadataResponse) { respond(r) })
	case *protocol.DescribeTopicPartitionsRequest:
		b.DescribeTopicPartitions(ctx, req, func(r *protocol.DescribeTopicPartitionsResponse) { respond(r) })
	case *protocol.DescribeClusterRequest:
		b.DescribeCluster(ctx, req, func(r *protocol.DescribeClusterResponse) { respond(r) })
	case *protocol.DescribeConfigsRequest:
		NewConfigs(b.cfg, b.Image).DescribeConfigs(ctx, req, func(r *protocol.DescribeConfigsResponse) { respond(r) })
	case *protocol.IncrementalAlterConfigsRequest:
		b.IncrementalAlterConfigs(ctx, req, func(r *protocol.IncrementalAlterConfigsResponse) { respond(r) })
	case *protocol.AlterConfigsRequest:
		b.AlterConfigs(ctx, req, func(r *protocol.AlterConfigsResponse) { respond(r) })
	case *protocol.FindCoordinatorRequest:
		b.FindCoordinator(ctx, req, func(r *protocol.FindCoordinatorResponse) { respond(r) })
	case *protocol.ListConfigResourcesRequest:
		b.ListConfigResources(ctx, req, func(r *protocol.ListConfigResourcesResponse) { respond(r) })
	case *protocol.InitProducerIdRequest:
		b.InitProducerId(ctx, req, func(r *protocol.InitProducerIdResponse) { respond(r) })
	case *protocol.ProduceRequest:
		b.Produce(ctx, req, func(r *protocol.ProduceResponse) { respond(r) })
	case *protocol.FetchRequest:
		b.Fetch(ctx, req, func(r *rpc.FetchReply) { respond(sentFetch(r, ctx.APIVersion)) })
	case *protocol.ListOffsetsRequest:
		b.ListOffsets(ctx, req, func(r *protocol.ListOffsetsResponse) { respond(r) })
	case *protocol.DeleteRecordsRequest:
		b.DeleteRecords(ctx, req, func(r *protocol.DeleteRecordsResponse) { respond(r) })
	case *protocol.OffsetForLeaderEpochRequest:
		b.OffsetForLeaderEpoch(ctx, req, func(r *protocol.OffsetForLeaderEpochResponse) { respond(r) })
	case *protocol.DescribeLogDirsRequest:
		b.DescribeLogDirs(ctx, req, func(r *protocol.DescribeLogDirsResponse) { respond(r) })
	case *protocol.DescribeProducersRequest:
		b.DescribeProducers(ctx, req, func(r *protocol.DescribeProducersResponse) { respond(r) })
	default:
		dispatchSecurity(b, ctx, req, respond)
	}
}

// sentFetch is the answer to Fetch with its records, as if it had been sent.
func sentFetch(r *rpc.FetchReply, version int16) *protocol.FetchResponse {
	var all []byte
	b, splits, err := r.Response.EncodeSplit(nil, nil, version, func(i int) int {
		if size := r.External[i].Size(); size > 0 {
			return int(size)
		}
		return -1
	})
	from := 0
	for _, s := range splits {
		part := r.External[s.Index]
		region := make([]byte, part.Length)
		if _, e := part.File.ReadAt(region, part.Offset); e != nil {
			err = e
		}
		all = append(append(all, b[from:s.At]...), region...)
		from = s.At
	}
	if err != nil {
		panic(err)
	}
	resp := protocol.NewFetchResponse()
	if err := resp.Decode(wire.NewDecoder(append(all, b[from:]...)), version); err != nil {
		panic(err)
	}
	r.Release()
	return resp
}

// judgedForm takes out of an answer what need not be the same: random ids, the order of sets, producer ids.
func judgedForm(resp protocol.Response) protocol.Response {
	random := func(id *uuid.UUID) {
		if !id.IsZero() && id[1] != 0 {
			*id = uuid.UUID{0xff}
		}
	}
	switch r := resp.(type) {
	case *protocol.MetadataResponse:
		slices.SortStableFunc(r.Topics, func(a, b protocol.MetadataResponseTopic) int {
			if a.Name == nil || b.Name == nil {
				return 0
			}
			return strings.Compare(*a.Name, *b.Name)
		})
		for i := range r.Topics {
			random(&r.Topics[i].TopicId)
		}
	case *protocol.DescribeTopicPartitionsResponse:
		for i := range r.Topics {
			random(&r.Topics[i].TopicId)
		}
	case *protocol.CreateTopicsResponse:
		for i := range r.Topics {
			random(&r.Topics[i].TopicId)
		}
	case *protocol.DescribeConfigsResponse:
		for i := range r.Results {
			slices.SortFunc(r.Results[i].Configs, func(a, b describedConfig) int { return strings.Compare(a.Name, b.Name) })
		}
	case *protocol.ListConfigResourcesResponse:
		slices.SortFunc(r.ConfigResources, func(a, b protocol.ListConfigResourcesResponseConfigResource) int {
			if a.ResourceType != b.ResourceType {
				return int(a.ResourceType) - int(b.ResourceType)
			}
			return strings.Compare(a.ResourceName, b.ResourceName)
		})
	case *protocol.InitProducerIdResponse:
		r.ProducerId = min(r.ProducerId, 0)
	default:
		sortSecurity(resp)
	}
	return resp
}

// askKafka puts a question to a running broker.
func askKafka(t *testing.T, addr string, q question) protocol.Response {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := protocol.NewRequestHeader()
	id := "test"
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = q.req.APIKey(), q.version, 1, &id
	b, err := h.Encode(make([]byte, 4), protocol.RequestHeaderVersion(q.req.APIKey(), q.version))
	if err == nil {
		b, err = q.req.Encode(b, q.version)
	}
	if err != nil {
		t.Fatalf("%s v%d: %v", q.name, q.version, err)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	var length [4]byte
	if _, err = c.Write(b); err == nil {
		_, err = io.ReadFull(c, length[:])
	}
	if err != nil {
		t.Fatalf("%s v%d: %v", q.name, q.version, err)
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatalf("%s v%d: %v", q.name, q.version, err)
	}
	skip := 4 // the correlation id
	if protocol.ResponseHeaderVersion(q.req.APIKey(), q.version) > 0 {
		skip++ // no tags
	}
	return decoded(t, body[skip:], q.req.APIKey(), q.version)
}
