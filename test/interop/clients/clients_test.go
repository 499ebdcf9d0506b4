//go:build interop

package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// records is how many records each client writes with each codec.
const records = 2000

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func key(i int) string   { return fmt.Sprintf("key-%d", i) }
func value(i int) string { return fmt.Sprintf("value-%d-%0*d", i, i%200, 0) }

// received checks that records come in order, each once.
type received struct {
	t *testing.T
	n int
}

func (r *received) add(k, v []byte) {
	if string(k) != key(r.n) || string(v) != value(r.n) {
		r.t.Fatalf("record %d is %s = %.30s", r.n, k, v)
	}
	r.n++
}

func node(t *testing.T) *servertest.Cluster {
	t.Helper()
	c := servertest.New(t)
	c.Format(t)
	c.Start(t)
	return c
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestFranzGo(t *testing.T) {
	c := node(t)
	adm, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer adm.Close()
	admin := kadm.NewClient(adm)
	compression := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for _, codec := range codecs {
		topic := "franz-" + codec
		if _, err := admin.CreateTopic(deadline(t), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		p, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(compression[codec]))
		if err != nil {
			t.Fatal(err)
		}
		var rs []*kgo.Record
		for i := range records {
			rs = append(rs, &kgo.Record{Key: []byte(key(i)), Value: []byte(value(i))})
		}
		if err := p.ProduceSync(deadline(t), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		p.Close()
		got := &received{t: t}
		g, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("franz-"+codec), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		if err != nil {
			t.Fatal(err)
		}
		for got.n < records {
			f := g.PollFetches(deadline(t))
			if err := f.Err(); err != nil {
				t.Fatal(err)
			}
			f.EachRecord(func(r *kgo.Record) { got.add(r.Key, r.Value) })
		}
		if err := g.CommitUncommittedOffsets(deadline(t)); err != nil {
			t.Fatal(err)
		}
		g.Close()
		offsets, err := admin.FetchOffsets(deadline(t), "franz-"+codec)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := offsets.Lookup(topic, 0); !ok || o.At != records {
			t.Errorf("committed offset: %+v", o)
		}
	}
	lags, err := admin.Lag(deadline(t), "franz-none")
	if err != nil || lags["franz-none"].Lag.Total() != 0 {
		t.Errorf("lag: %v %v", lags, err)
	}
	if _, err := admin.DeleteTopic(deadline(t), "franz-none"); err != nil {
		t.Error(err)
	}
	if md, err := admin.Metadata(deadline(t)); err != nil || md.Controller != 1 || md.Topics.Has("franz-none") {
		t.Errorf("metadata: %+v %v", md, err)
	}
}

func TestSarama(t *testing.T) {
	c := node(t)
	compression := map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}
	for _, codec := range codecs {
		topic := "sarama-" + codec
		cfg := sarama.NewConfig()
		cfg.Version = sarama.V3_6_0_0
		cfg.Producer.Return.Successes, cfg.Producer.RequiredAcks, cfg.Producer.Compression = true, sarama.WaitForAll, compression[codec]
		cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, 1
		cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
		admin, err := sarama.NewClusterAdmin([]string{c.Bootstrap}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
			t.Fatal(err)
		}
		p, err := sarama.NewSyncProducer([]string{c.Bootstrap}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var ms []*sarama.ProducerMessage
		for i := range records {
			ms = append(ms, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(key(i)), Value: sarama.StringEncoder(value(i))})
		}
		if err := p.SendMessages(ms); err != nil {
			t.Fatal(err)
		}
		g, err := sarama.NewConsumerGroup([]string{c.Bootstrap}, topic, cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := &received{t: t}
		ctx, cancel := context.WithCancel(deadline(t))
		if err := g.Consume(ctx, []string{topic}, saramaHandler{got, cancel}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		if got.n != records {
			t.Errorf("%s: %d records", codec, got.n)
		}
		if err := errors.Join(g.Close(), p.Close(), admin.Close()); err != nil {
			t.Error(err)
		}
	}
}

type saramaHandler struct {
	got  *received
	done func()
}

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h saramaHandler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for m := range c.Messages() {
		h.got.add(m.Key, m.Value)
		s.MarkMessage(m, "")
		if h.got.n == records {
			h.done()
			return nil
		}
	}
	return nil
}

func TestKafkaGo(t *testing.T) {
	c := node(t)
	compression := map[string]kafkago.Compression{"gzip": kafkago.Gzip, "snappy": kafkago.Snappy, "lz4": kafkago.Lz4, "zstd": kafkago.Zstd}
	for _, codec := range codecs {
		topic := "kafkago-" + codec
		cl := &kafkago.Client{Addr: kafkago.TCP(c.Bootstrap)}
		if _, err := cl.CreateTopics(deadline(t), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}}); err != nil {
			t.Fatal(err)
		}
		w := &kafkago.Writer{Addr: kafkago.TCP(c.Bootstrap), Topic: topic, RequiredAcks: kafkago.RequireAll, Compression: compression[codec], BatchTimeout: time.Millisecond}
		var ms []kafkago.Message
		for i := range records {
			ms = append(ms, kafkago.Message{Key: []byte(key(i)), Value: []byte(value(i))})
		}
		if err := w.WriteMessages(deadline(t), ms...); err != nil {
			t.Fatal(err)
		}
		r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{c.Bootstrap}, Topic: topic, GroupID: topic, StartOffset: kafkago.FirstOffset, MaxWait: 100 * time.Millisecond})
		got := &received{t: t}
		for got.n < records {
			m, err := r.ReadMessage(deadline(t))
			if errors.Is(err, io.EOF) || err != nil {
				t.Fatal(err)
			}
			got.add(m.Key, m.Value)
		}
		if err := errors.Join(w.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
}
