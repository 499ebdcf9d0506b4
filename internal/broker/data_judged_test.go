package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
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
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// To renew testdata/kafka_data.txt: as for kafka.jsonl, and this test with -kafka localhost:19092.
const dataJudgedFile = "testdata/kafka_data.txt"

// dataQuestion is one data request of the comparison.
type dataQuestion struct {
	name    string
	version int16
	req     func(s *dataStory) protocol.Request
	settle  bool
	// ours is what is done here instead, of what only the whole of a broker can do.
	ours func(n *testNode)
}

// dataStory is what a story of questions has brought so far.
type dataStory struct {
	now       int64 // ms
	topics    map[string]uuid.UUID
	session   int32
	producers []int64
	epoch     int16
}

// asker puts a request to a broker; nil is the answer that never came.
type asker func(protocol.Request, int16) protocol.Response

// TestDataJudgedByKafka puts data requests to a broker whose answers Apache Kafka 4.4.0 has given before.
func TestDataJudgedByKafka(t *testing.T) {
	s := &dataStory{topics: map[string]uuid.UUID{}}
	var got bytes.Buffer
	if *kafka != "" {
		s.now = time.Now().UnixMilli()
		s.tell(&got, nil, func(req protocol.Request, version int16) protocol.Response {
			return askKafkaData(t, *kafka, req, version)
		})
		if err := os.WriteFile(dataJudgedFile, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	n := runNode(t)
	s.now = n.node.Now().UnixMilli()
	s.tell(&got, n, func(req protocol.Request, version int16) protocol.Response {
		req, spoil := framed(t, req, version)
		return n.roundTrip(req, version, "PLAINTEXT", func(ctx *rpc.Context, respond func(protocol.Response)) {
			dispatch(n.broker, ctx, req, func(r protocol.Response) {
				respond(r)
				spoil()
			})
		})
	})
	want, err := os.ReadFile(dataJudgedFile)
	if err != nil {
		t.Fatal(err)
	}
	compareStories(t, string(want), got.String())
}

// framed is a request as the server gives it to handlers: it lies in a frame, which is theirs until they have responded.
func framed(t *testing.T, req protocol.Request, version int16) (protocol.Request, func()) {
	t.Helper()
	frame, err := req.Encode(nil, version)
	if err != nil {
		t.Fatal(err)
	}
	inFrame := protocol.NewRequest(req.APIKey())
	if err := inFrame.Decode(wire.NewDecoder(frame), version); err != nil {
		t.Fatal(err)
	}
	return inFrame, func() {
		for i := range frame {
			frame[i] = 0xdb
		}
	}
}

// compareStories compares answer by answer.
func compareStories(t *testing.T, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "## "), strings.Split(got, "## ")
	for i := range max(len(wants), len(gots)) {
		var w, g string
		if i < len(wants) {
			w = wants[i]
		}
		if i < len(gots) {
			g = gots[i]
		}
		if diff := cmp.Diff(strings.Split(w, "\n"), strings.Split(g, "\n")); diff != "" {
			t.Errorf("question %d (-Kafka +ours):\n%s", i, diff)
		}
	}
}

// tell puts all questions and writes down the answers.
func (s *dataStory) tell(out *bytes.Buffer, n *testNode, ask asker) {
	for _, q := range dataQuestions() {
		fmt.Fprintf(out, "## %s v%d\n", q.name, q.version)
		if n != nil && q.ours != nil {
			q.ours(n)
			fmt.Fprintln(out, "done")
			continue
		}
		resp := ask(q.req(s), q.version)
		switch {
		case q.ours != nil:
			s.note(resp)
			fmt.Fprintln(out, "done")
		case resp == nil:
			fmt.Fprintln(out, "no answer")
		default:
			s.note(resp)
			for _, line := range answerLines(resp) {
				fmt.Fprintln(out, line)
			}
		}
		switch {
		case !q.settle:
		case n != nil:
			n.world.RunFor(time.Second)
		default:
			<-time.After(time.Second)
		}
	}
}

// note remembers what later questions need.
func (s *dataStory) note(resp protocol.Response) {
	switch r := resp.(type) {
	case *protocol.MetadataResponse:
		for _, t := range r.Topics {
			s.topics[*t.Name] = t.TopicId
		}
	case *protocol.FetchResponse:
		if r.SessionId != 0 {
			s.session = r.SessionId
		}
	case *protocol.InitProducerIdResponse:
		if r.ErrorCode == 0 {
			s.producers, s.epoch = append(s.producers, r.ProducerId), r.ProducerEpoch
		}
	}
}

// askKafkaData is askKafka for requests that may not be answered.
func askKafkaData(t *testing.T, addr string, req protocol.Request, version int16) protocol.Response {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := protocol.NewRequestHeader()
	id := "test"
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = req.APIKey(), version, 1, &id
	b, err := h.Encode(make([]byte, 4), protocol.RequestHeaderVersion(req.APIKey(), version))
	if err == nil {
		b, err = req.Encode(b, version)
	}
	if err != nil {
		t.Fatalf("%T v%d: %v", req, version, err)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(in, body); err != nil {
		t.Fatal(err)
	}
	skip := 4 // the correlation id
	if protocol.ResponseHeaderVersion(req.APIKey(), version) > 0 {
		skip++ // no tags
	}
	return decoded(t, body[skip:], req.APIKey(), version)
}

// answerLines are an answer without what need not be the same, a line for each partition, sorted.
func answerLines(resp protocol.Response) []string {
	var lines []string
	add := func(topic string, partition int32, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%s-%d ", topic, partition)+fmt.Sprintf(format, args...))
	}
	switch r := resp.(type) {
	case *protocol.ProduceResponse:
		for _, t := range r.Responses {
			for _, p := range t.PartitionResponses {
				add(t.Name, p.Index, "error %d base %d time %s start %d%s%s leader %v", p.ErrorCode, p.BaseOffset, timeWord(p.LogAppendTimeMs), p.LogStartOffset,
					textWord(p.ErrorMessage), recordErrors(p.RecordErrors), p.CurrentLeader)
			}
		}
		for _, e := range r.NodeEndpoints {
			lines = append(lines, fmt.Sprintf("node %d %s", e.NodeId, e.Host))
		}
	case *protocol.FetchResponse:
		for _, t := range r.Responses {
			for _, p := range t.Partitions {
				add(t.Topic, p.PartitionIndex, "%s", fetchWords(&p))
			}
		}
		for _, e := range r.NodeEndpoints {
			lines = append(lines, fmt.Sprintf("node %d %s", e.NodeId, e.Host))
		}
		lines = append(lines, fmt.Sprintf("error %d session %t", r.ErrorCode, r.SessionId != 0))
	case *protocol.ListOffsetsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Name, p.PartitionIndex, "error %d timestamp %s offset %d epoch %d", p.ErrorCode, timeWord(p.Timestamp), p.Offset, p.LeaderEpoch)
			}
		}
	case *protocol.DeleteRecordsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Name, p.PartitionIndex, "error %d low %d", p.ErrorCode, p.LowWatermark)
			}
		}
	case *protocol.OffsetForLeaderEpochResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, "error %d epoch %d end %d", p.ErrorCode, p.LeaderEpoch, p.EndOffset)
			}
		}
	case *protocol.DescribeProducersResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Name, p.PartitionIndex, "error %d%s %s", p.ErrorCode, textWord(p.ErrorMessage), producerWords(p.ActiveProducers))
			}
		}
	case *protocol.DescribeLogDirsResponse:
		for _, d := range r.Results {
			lines = append(lines, fmt.Sprintf("error %d, of a directory %d, volume %t, cordoned %t", r.ErrorCode, d.ErrorCode, d.TotalBytes > d.UsableBytes, d.IsCordoned))
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					add(t.Name, p.PartitionIndex, "size %d lag %d future %t", p.PartitionSize, p.OffsetLag, p.IsFutureKey)
				}
			}
		}
	case *protocol.MetadataResponse:
		for _, t := range r.Topics {
			lines = append(lines, fmt.Sprintf("%s error %d", *t.Name, t.ErrorCode))
		}
	case *protocol.CreateTopicsResponse:
		for _, t := range r.Topics {
			lines = append(lines, fmt.Sprintf("%s error %d", t.Name, t.ErrorCode))
		}
	default:
		lines = append(lines, "answered")
	}
	slices.Sort(lines)
	return lines
}

func fetchWords(p *protocol.FetchResponsePartitionData) string {
	var b strings.Builder
	fmt.Fprintf(&b, "error %d high %d stable %d start %d", p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
	if p.AbortedTransactions == nil {
		b.WriteString(" aborted null")
	} else {
		b.WriteString(" aborted [")
		for _, a := range p.AbortedTransactions {
			fmt.Fprintf(&b, " from %d", a.FirstOffset)
		}
		b.WriteString("]")
	}
	fmt.Fprintf(&b, " preferred %d leader %v diverging %v records", p.PreferredReadReplica, p.CurrentLeader, p.DivergingEpoch)
	rest := p.Records
	if rest == nil {
		return b.String() + " null"
	}
	for len(rest) > 0 {
		batch, next, err := record.Next(rest)
		if errors.Is(err, record.ErrShort) {
			break // Kafka cuts the last batch where the bytes end, we leave it out
		}
		if err != nil {
			return b.String() + err.Error()
		}
		rest = next
		fmt.Fprintf(&b, " [%d-%d epoch %d of %d", batch.BaseOffset(), batch.LastOffset(), batch.LeaderEpoch(), batch.Count())
		if batch.TimestampType() == record.LogAppendTime {
			b.WriteString(" appended")
		}
		if batch.IsControl() {
			b.WriteString(" control")
		}
		if err := batch.CheckCRC(); err != nil {
			b.WriteString(" " + err.Error())
		}
		b.WriteString("]")
	}
	return b.String()
}

func producerWords(ps []protocol.DescribeProducersResponseProducerState) string {
	var out []string
	for _, p := range ps {
		id := fmt.Sprint(p.ProducerId)
		if p.ProducerId < 7000 || p.ProducerId > 8000 {
			id = "drawn"
		}
		out = append(out, fmt.Sprintf("%s epoch %d sequence %d time %s coordinator %d transaction %d", id, p.ProducerEpoch, p.LastSequence, timeWord(p.LastTimestamp),
			p.CoordinatorEpoch, p.CurrentTxnStartOffset))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// timeWord is a time, without its value if that is the broker's.
func timeWord(ms int64) string {
	if ms > 1<<40 {
		return "now"
	}
	return fmt.Sprint(ms)
}

func textWord(s *string) string {
	if s == nil {
		return ""
	}
	return " text"
}

func recordErrors(errs []protocol.ProduceResponseBatchIndexAndErrorMessage) string {
	var out string
	for _, e := range errs {
		out += fmt.Sprintf(" record %d%s", e.BatchIndex, textWord(e.BatchIndexErrorMessage))
	}
	return out
}
