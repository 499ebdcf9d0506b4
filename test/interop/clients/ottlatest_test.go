package clients

import (
	"testing"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/ottla-io/ottla/ottlatest"
)

// A test with sarama.
func TestExampleSarama(t *testing.T) {
	c := ottlatest.Start(t, ottlatest.Topic("orders", 1))

	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(c.Addrs(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder("one coffee")}); err != nil {
		t.Fatal(err)
	}
	consumer, err := sarama.NewConsumer(c.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition("orders", 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer partition.Close()
	if m := <-partition.Messages(); string(m.Value) != "one coffee" {
		t.Fatalf("read %q", m.Value)
	}
}

// A test with kafka-go.
func TestExampleKafkaGo(t *testing.T) {
	c := ottlatest.Start(t, ottlatest.Topic("orders", 1))

	writer := &kafkago.Writer{Addr: kafkago.TCP(c.Addrs()...), Topic: "orders", RequiredAcks: kafkago.RequireAll, BatchSize: 1}
	defer writer.Close()
	if err := writer.WriteMessages(t.Context(), kafkago.Message{Value: []byte("one coffee")}); err != nil {
		t.Fatal(err)
	}
	reader := kafkago.NewReader(kafkago.ReaderConfig{Brokers: c.Addrs(), Topic: "orders", GroupID: "baristas", StartOffset: kafkago.FirstOffset})
	defer reader.Close()
	m, err := reader.ReadMessage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Value) != "one coffee" {
		t.Fatalf("read %q", m.Value)
	}
}
