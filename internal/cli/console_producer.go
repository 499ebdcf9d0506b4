package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const lineReaderClass = "org.apache.kafka.tools.LineMessageReader"

func newConsoleProducer(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console-producer --topic NAME [flags]",
		Short: "Write lines of text to a topic",
		Long: `Read lines from standard input and write each of them to a topic as one record, as
kafka-console-producer.sh does. At a terminal, type lines after the prompt and end with ctrl-D.`,
		Example: `  echo hello | ottla console-producer --topic greetings
  ottla console-producer --topic prices --reader-property parse.key=true --reader-property key.separator=: < prices.txt`,
		Annotations: map[string]string{dialectKey: string(jopt)},
		RunE:        func(cmd *cobra.Command, args []string) error { return consoleProducer(cmd.Context(), s, cmd) },
	}
	f := cmd.Flags()
	bootstrapFlags(cmd)
	versionFlag(cmd)
	f.String("topic", "", "the topic's `name` (required)")
	f.Bool("sync", false, "wait for the answer to each record before the next one")
	f.String("compression-codec", "", "the `codec`: none, gzip, snappy, lz4 or zstd; without a value gzip")
	optional(cmd, "compression-codec", "gzip")
	f.Int32("batch-size", 16384, "the most `bytes` of a batch of records")
	f.Int32("message-send-max-retries", 3, "the `number` of times that a record is sent again after an error that may pass")
	f.Int64("retry-backoff-ms", 100, "`milliseconds` to wait before sending again")
	f.Int64("timeout", 1000, "`milliseconds` that a record may wait for others to fill its batch;\nwithout this flag only a few")
	f.String("request-required-acks", "-1", "which `replicas` must have a record: -1 or all in-sync ones, 1 the leader, 0 nobody")
	f.Int32("request-timeout-ms", 1500, "`milliseconds` that the broker may take to answer")
	f.Int64("metadata-expiry-ms", 300000, "`milliseconds` after which partitions and leaders are asked for again")
	f.Int64("max-block-ms", 60000, "`milliseconds` to wait for a topic to exist, or for memory")
	f.Int64("max-memory-bytes", 33554432, "`bytes` of records that may wait to be sent")
	f.Int32("max-partition-memory-bytes", 16384, "deprecated: use --batch-size")
	f.Int32("socket-buffer-size", 102400, "`bytes`: taken, and left to the operating system")
	f.String("line-reader", lineReaderClass, "the `class` that reads lines; Kafka's own line reader is the only one")
	f.String("reader-config", "", "a properties `file` for the line reader")
	f.StringArray("reader-property", nil, "how lines are read, `key=value`; may be repeated:\n"+
		"  parse.key=true with key.separator (default tab): KEY<tab>VALUE\n"+
		"  parse.headers=true with headers.delimiter (tab), headers.separator (,), headers.key.separator (:): h1:v1,h2:v2<tab>VALUE\n"+
		"  null.marker: a key, value or header like this is null\n"+
		"  ignore.error=true: take a line without separator as a value")
	f.StringArray("command-property", nil, "a setting of the producer, `key=value`; may be repeated")
	f.StringArray("property", nil, "deprecated: use --reader-property")
	f.StringArray("producer-property", nil, "deprecated: use --command-property")
	f.String("producer.config", "", "deprecated: use --command-config")
	for _, old := range []string{"property", "producer-property", "producer.config", "max-partition-memory-bytes"} {
		_ = f.MarkHidden(old)
	}
	return cmd
}

// optional lets a flag stand without its value.
func optional(cmd *cobra.Command, name, without string) {
	flag := cmd.Flags().Lookup(name)
	flag.NoOptDefVal = without
	_ = cmd.Flags().SetAnnotation(name, optionalValue, []string{"true"})
}

// renamed is a flag that Kafka is about to remove, and the one that replaces it.
type renamed struct{ old, now string }

// renamedFlags refuses a flag beside the one that replaced it, and warns of old ones in the given words.
func renamedFlags(s *streams, cmd *cobra.Command, oldFirst bool, warning string, flags ...renamed) error {
	for _, r := range flags {
		if given(cmd, r.old) && given(cmd, r.now) {
			a, b := r.now, r.old
			if oldFirst {
				a, b = b, a
			}
			return usagef("Options --%s and --%s cannot be specified together.", a, b)
		}
	}
	for _, r := range flags {
		if given(cmd, r.old) {
			fmt.Fprintf(s.out, warning, r.old, r.now)
		}
	}
	return nil
}

// joined are the properties of a file flag, under those of a key=value flag; each may have an old name.
func joined(cmd *cobra.Command, fileFlags, pairFlags []string) (map[string]string, error) {
	props := map[string]string{}
	for _, name := range fileFlags {
		if file, _ := cmd.Flags().GetString(name); file != "" {
			more, err := readProperties(file)
			if err != nil {
				return nil, err
			}
			for k, v := range more {
				props[k] = v
			}
		}
	}
	for _, name := range pairFlags {
		pairs, _ := cmd.Flags().GetStringArray(name)
		for k, v := range keyValues(pairs) {
			props[k] = v
		}
	}
	return props, nil
}

func consoleProducer(ctx context.Context, s *streams, cmd *cobra.Command) error {
	if printedVersion(s, cmd) {
		return nil
	}
	if err := requireFlags(cmd, "topic"); err != nil {
		return err
	}
	err := renamedFlags(s, cmd, false, "Warning: --%s is deprecated and will be removed in a future version. Use --%s instead.\n",
		renamed{"producer-property", "command-property"}, renamed{"producer.config", "command-config"}, renamed{"property", "reader-property"})
	if err != nil {
		return err
	}
	if given(cmd, "max-partition-memory-bytes") {
		fmt.Fprintln(s.out, "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use --batch-size instead.")
	}
	bootstrap, ok := s.bootstrap(cmd)
	if !ok {
		return usageError{"Error while validating the bootstrap address\n"}
	}
	seeds, err := parseBootstrap(bootstrap)
	if err != nil {
		return usageError{"Please provide valid host:port like host1:9091,host2:9092\n"}
	}
	topic, _ := cmd.Flags().GetString("topic")
	reader, err := consoleReader(s, cmd, topic)
	if err != nil {
		return err
	}
	props, err := joined(cmd, []string{"producer.config", "command-config"}, []string{"producer-property", "command-property"})
	if err != nil {
		return err
	}
	opts, err := producerOptions(cmd, seeds, props)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(opts, kgo.WithHooks(&outage{w: s.err, now: time.Now}))...)
	if err != nil {
		return err
	}
	defer client.Close()
	patience, _ := strconv.ParseInt(fromFlag(cmd, props, "max-block-ms", "max.block.ms"), 10, 64) // producerOptions has found it good
	awaitBroker(ctx, client, time.Duration(patience)*time.Millisecond)
	sync, _ := cmd.Flags().GetBool("sync")
	return produceLines(ctx, s, client, reader, sync)
}

func consoleReader(s *streams, cmd *cobra.Command, topic string) (*lineReader, error) {
	if class, _ := cmd.Flags().GetString("line-reader"); class != lineReaderClass {
		return nil, fmt.Errorf("%s: no such line reader; there is only %s", class, lineReaderClass)
	}
	props, err := joined(cmd, []string{"reader-config"}, []string{"property", "reader-property"})
	if err != nil {
		return nil, err
	}
	reader, err := newLineReader(topic, props, s.in)
	if err == nil && isTerminal(s.in) && isTerminal(s.out) {
		reader.prompt = s.out
	}
	return reader, err
}

// isTerminal says whether a stream is a character device.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// fromFlag is a setting's text: a flag that was given counts more than a property, a property more than a flag's default.
func fromFlag(cmd *cobra.Command, props map[string]string, flag, prop string) string {
	f := cmd.Flags().Lookup(flag)
	if p, ok := props[prop]; ok && !f.Changed {
		return p
	}
	return f.Value.String()
}

// producerOptions are the client's options.
func producerOptions(cmd *cobra.Command, seeds []string, props map[string]string) ([]kgo.Opt, error) {
	if props["client.id"] == "" {
		props["client.id"] = "console-producer"
	}
	opts, err := clientOptions(seeds, props)
	if err != nil {
		return nil, err
	}
	flags := cmd.Flags()
	value := func(flag, prop string) string { return fromFlag(cmd, props, flag, prop) }
	var problems []error
	number := func(flag, prop string) int64 {
		n, err := strconv.ParseInt(value(flag, prop), 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("Invalid value %s for configuration %s: Not a number of type INT", value(flag, prop), prop)) //nolint:staticcheck // Kafka's words
		}
		return n
	}
	millis := func(flag, prop string) time.Duration { return time.Duration(number(flag, prop)) * time.Millisecond }

	codec := "none"
	if c, _ := flags.GetString("compression-codec"); c != "" {
		codec = c
	}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	compression, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("Invalid value %s for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd", codec) //nolint:staticcheck // Kafka's words
	}
	switch acks := value("request-required-acks", "acks"); acks {
	case "-1", "all":
		if props["enable.idempotence"] == "false" {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("Invalid value %s for configuration acks: String must be one of: all, -1, 0, 1", acks) //nolint:staticcheck // Kafka's words
	}
	linger := 5 * time.Millisecond
	if _, ok := props["linger.ms"]; ok || given(cmd, "timeout") {
		linger = millis("timeout", "linger.ms")
	}
	batch := number("batch-size", "batch.size")
	if given(cmd, "max-partition-memory-bytes") {
		batch = number("max-partition-memory-bytes", "batch.size")
	}
	opts = append(opts,
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerLinger(linger),
		kgo.ProducerBatchMaxBytes(int32(max(batch, 1<<20))), // one record may be as large as the broker takes
		kgo.RecordRetries(int(max(number("message-send-max-retries", "retries"), 0))),
		kgo.MaxBufferedBytes(int(max(number("max-memory-bytes", "buffer.memory"), 1<<20))),
		kgo.MetadataMaxAge(max(millis("metadata-expiry-ms", "metadata.max.age.ms"), time.Second)),
		kgo.ProduceRequestTimeout(max(millis("request-timeout-ms", "request.timeout.ms"), 100*time.Millisecond)),
		kgo.RecordDeliveryTimeout(max(millis("max-block-ms", "max.block.ms"), time.Second)),
		kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(20),
	)
	return opts, errors.Join(problems...)
}

// produceLines sends what the reader gives. A record that cannot be sent is reported; it ends the tool only with
// --sync, as in Kafka.
func produceLines(ctx context.Context, s *streams, client *kgo.Client, reader *lineReader, sync bool) error {
	report := func(rec *kgo.Record, err error) {
		if err != nil {
			fmt.Fprintf(s.err, "Error when sending message to topic %s with key: %s, value: %s with error: %v\n",
				rec.Topic, sizeOf(rec.Key), sizeOf(rec.Value), produceError(err))
		}
	}
	var stopped atomic.Bool
	stop := context.AfterFunc(ctx, func() { stopped.Store(true) })
	defer stop()
	// A signal ends the reading, what was read is still sent.
	sending := context.WithoutCancel(ctx)
	lines := make(chan *kgo.Record)
	failed := make(chan error, 1)
	go func() {
		defer close(lines)
		for !stopped.Load() {
			rec, err := reader.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed <- err
				}
				return
			}
			lines <- rec
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return client.Flush(sending)
		case rec, ok := <-lines:
			if !ok {
				if err := client.Flush(sending); err != nil {
					return err
				}
				select {
				case err := <-failed:
					return err
				default:
					return nil
				}
			}
			if !sync {
				client.Produce(sending, rec, report)
				continue
			}
			if err := client.ProduceSync(sending, rec).FirstErr(); err != nil {
				return produceError(err)
			}
		}
	}
}

// produceError is a client's error with the description of the protocol error inside it, if there is one.
func produceError(err error) error {
	var protocolErr *kerr.Error
	if errors.As(err, &protocolErr) {
		return fmt.Errorf("%s (%s)", protocolErr.Description, protocolErr.Message)
	}
	return err
}

func sizeOf(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(b))
}
