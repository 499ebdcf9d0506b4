package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const formatterPackage = "org.apache.kafka.tools.consumer."

func newConsoleConsumer(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console-consumer (--topic NAME | --include REGEX) [flags]",
		Short: "Print the records of a topic",
		Long: `Print the records of a topic as they come, one line each, as kafka-console-consumer.sh does. Without
--from-beginning only records that are written from now on. Stop with ctrl-C.`,
		Example: `  ottla console-consumer --topic greetings --from-beginning
  ottla console-consumer --topic greetings --from-beginning --max-messages 1
  ottla console-consumer --topic prices --group reporting --formatter-property print.key=true
  ottla console-consumer --topic orders --partition 0 --offset 42`,
		Annotations: map[string]string{dialectKey: string(jopt)},
		RunE:        func(cmd *cobra.Command, args []string) error { return consoleConsumer(cmd.Context(), s, cmd) },
	}
	f := cmd.Flags()
	bootstrapFlags(cmd)
	versionFlag(cmd)
	f.String("topic", "", "the topic's `name`")
	f.String("include", "", "a `regular expression`; topics whose whole name matches are read")
	f.String("partition", "", "the `number` of the only partition to read, from its end unless --offset says otherwise")
	f.String("offset", "latest", "with --partition: where to begin, a `number`, earliest or latest")
	f.Bool("from-beginning", false, "begin with the oldest record, unless the group has a position already")
	f.String("group", "", "the consumer `group`; it shares the partitions and remembers its position")
	f.String("max-messages", "", "stop after this `number` of records")
	f.String("timeout-ms", "", "stop when no record came for this many `milliseconds`")
	f.String("isolation-level", "read_uncommitted", "a `level`: read_committed leaves out records of open and aborted transactions")
	f.String("formatter", formatterPackage+"DefaultMessageFormatter",
		"the `class` that prints records: DefaultMessageFormatter, LoggingMessageFormatter or NoOpMessageFormatter of "+
			strings.TrimSuffix(formatterPackage, "."))
	f.String("formatter-config", "", "a properties `file` for the formatter")
	f.StringArray("formatter-property", nil, "how records are printed, `key=value`; may be repeated:\n"+
		"  print.timestamp, print.key, print.offset, print.epoch, print.partition, print.headers, print.value: true or false\n"+
		"  key.separator, line.separator, headers.separator, null.literal: text\n"+
		"  key.deserializer, value.deserializer, headers.deserializer: a class of org.apache.kafka.common.serialization")
	f.String("key-deserializer", "", "the `class` that reads keys")
	f.String("value-deserializer", "", "the `class` that reads values")
	f.Bool("skip-message-on-error", false, "leave out a record that cannot be printed, instead of stopping")
	f.Bool("enable-systest-events", false, "say \"shutdown_complete\" at the end")
	f.StringArray("command-property", nil, "a setting of the consumer, `key=value`; may be repeated")
	f.StringArray("property", nil, "deprecated: use --formatter-property")
	f.StringArray("consumer-property", nil, "deprecated: use --command-property")
	f.String("consumer.config", "", "deprecated: use --command-config")
	for _, old := range []string{"property", "consumer-property", "consumer.config"} {
		_ = f.MarkHidden(old)
	}
	oneOf(cmd, "isolation-level", "read_uncommitted", "read_committed")
	oneOf(cmd, "formatter", formatterPackage+"DefaultMessageFormatter", formatterPackage+"LoggingMessageFormatter", formatterPackage+"NoOpMessageFormatter")
	return cmd
}

// consumeJob is what the flags of one run ask for.
type consumeJob struct {
	seeds       []string
	props       map[string]string
	topic       string
	include     string
	partition   int32      // -1: all
	offset      kgo.Offset // where to begin
	reset       kgo.Offset // where to go on when the position is not in the log
	group       string
	maxMessages int64 // -1: no end
	timeout     time.Duration
	skipErrors  bool
	print       func(w io.Writer, r *kgo.Record) error

	told map[string]bool // errors that were printed
}

func consoleConsumer(ctx context.Context, s *streams, cmd *cobra.Command) error {
	if printedVersion(s, cmd) {
		return nil
	}
	job, err := parseConsumeJob(s, cmd)
	if err != nil {
		return err
	}
	opts, err := job.options()
	if err != nil {
		return err
	}
	if job.maxMessages, err = limit(cmd, "max-messages"); err != nil {
		fmt.Fprintln(s.err, "Processed a total of 0 messages")
		return err
	}
	err = job.run(ctx, s, opts)
	if given(cmd, "enable-systest-events") {
		fmt.Fprintln(s.out, "shutdown_complete")
	}
	return err
}

// limit is the number of a flag, -1 when it was not given or is negative.
func limit(cmd *cobra.Command, name string) (int64, error) {
	if !given(cmd, name) {
		return -1, nil
	}
	value, _ := cmd.Flags().GetString(name)
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("Cannot parse argument '%s' of option %s", value, name) //nolint:staticcheck // Kafka's words
	}
	return max(n, -1), nil
}

// parseConsumeJob reads the flags, and refuses what Kafka refuses in its order.
func parseConsumeJob(s *streams, cmd *cobra.Command) (*consumeJob, error) {
	flag := func(name string) string { v, _ := cmd.Flags().GetString(name); return v }
	job := &consumeJob{topic: flag("topic"), include: flag("include"), partition: -1}
	err := renamedFlags(s, cmd, true, "Option --%s is deprecated and will be removed in a future version. Use --%s instead.\n",
		renamed{"consumer-property", "command-property"}, renamed{"property", "formatter-property"},
		renamed{"consumer.config", "command-config"})
	if err != nil {
		return nil, err
	}
	if given(cmd, "partition") {
		switch {
		case !given(cmd, "topic"):
			return nil, usageError{"The topic is required when partition is specified."}
		case given(cmd, "from-beginning") && given(cmd, "offset"):
			return nil, usageError{"Options from-beginning and offset cannot be specified together."}
		}
		if job.partition, err = parseInt32("partition", flag("partition")); err != nil {
			return nil, err
		}
	} else if given(cmd, "offset") {
		return nil, usageError{"The partition is required when offset is specified."}
	}
	if given(cmd, "topic") == given(cmd, "include") {
		return nil, usageError{"Exactly one of the following arguments is required: [topic], [include]"}
	}
	bootstrap, ok := s.bootstrap(cmd)
	if !ok {
		return nil, requireFlags(cmd, "bootstrap-server")
	}
	if job.seeds, err = parseBootstrap(bootstrap); err != nil {
		return nil, err
	}
	if job.props, err = joined(cmd, []string{"consumer.config", "command-config"}, nil); err != nil {
		return nil, err
	}
	pairs, err := joined(cmd, nil, []string{"consumer-property", "command-property"})
	if err != nil {
		return nil, err
	}
	if job.group, err = consumerGroup(cmd, job.props["group.id"], pairs["group.id"]); err != nil {
		return nil, err
	}
	for k, v := range pairs {
		job.props[k] = v
	}
	if reset := job.props["auto.offset.reset"]; reset != "" && reset != "earliest" && given(cmd, "from-beginning") {
		fmt.Fprintf(s.err, "Can't simultaneously specify --from-beginning and 'auto.offset.reset=%s', please remove one option\n", reset)
		return nil, exitError{1}
	}
	if given(cmd, "from-beginning") {
		job.props["auto.offset.reset"] = "earliest"
	}
	if level := flag("isolation-level"); given(cmd, "isolation-level") || job.props["isolation.level"] == "" {
		job.props["isolation.level"] = level
	}
	if job.offset, err = startOffset(cmd, job.props["auto.offset.reset"]); err != nil {
		return nil, err
	}
	job.reset = kgo.NewOffset().AtEnd()
	if job.props["auto.offset.reset"] == "earliest" {
		job.reset = kgo.NewOffset().AtStart()
	}
	if ms, err := limit(cmd, "timeout-ms"); err != nil {
		return nil, err
	} else if job.timeout = math.MaxInt64; ms >= 0 {
		job.timeout = time.Duration(ms) * time.Millisecond
	}
	job.skipErrors = given(cmd, "skip-message-on-error")
	job.print, err = recordPrinter(cmd)
	return job, err
}

// consumerGroup is the group that flag, file and properties agree on.
func consumerGroup(cmd *cobra.Command, fromFile, fromPair string) (string, error) {
	flag, _ := cmd.Flags().GetString("group")
	var ids []string
	for _, id := range []string{flag, fromFile, fromPair} {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	switch {
	case len(ids) > 1:
		return "", usagef("The group ids provided in different places (directly using '--group', via '--consumer-property', "+
			"or via '--consumer.config') do not match. Detected group ids: '%s'", strings.Join(ids, "', '"))
	case len(ids) == 1 && given(cmd, "partition"):
		return "", usageError{"Options group and partition cannot be specified together."}
	case len(ids) == 1:
		return ids[0], nil
	}
	return "", nil
}

func startOffset(cmd *cobra.Command, reset string) (kgo.Offset, error) {
	text, _ := cmd.Flags().GetString("offset")
	if !given(cmd, "offset") {
		switch reset {
		case "earliest":
			return kgo.NewOffset().AtStart(), nil
		case "", "latest":
			return kgo.NewOffset().AtEnd(), nil
		}
		return kgo.Offset{}, fmt.Errorf("Invalid value %s for configuration auto.offset.reset", reset) //nolint:staticcheck // Kafka's words
	}
	switch strings.ToLower(text) {
	case "earliest":
		return kgo.NewOffset().AtStart(), nil
	case "latest":
		return kgo.NewOffset().AtEnd(), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return kgo.Offset{}, usagef("The provided offset value '%s' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.", text)
	}
	return kgo.NewOffset().At(n), nil
}

// recordPrinter is the formatter that --formatter and its properties choose.
func recordPrinter(cmd *cobra.Command) (func(io.Writer, *kgo.Record) error, error) {
	props, err := joined(cmd, []string{"formatter-config"}, nil)
	if err != nil {
		return nil, err
	}
	for flag, key := range map[string]string{"key-deserializer": "key.deserializer", "value-deserializer": "value.deserializer"} {
		if class, _ := cmd.Flags().GetString(flag); class != "" {
			props[key] = class
		}
	}
	pairs, err := joined(cmd, nil, []string{"property", "formatter-property"})
	if err != nil {
		return nil, err
	}
	for k, v := range pairs {
		props[k] = v
	}
	class, _ := cmd.Flags().GetString("formatter")
	switch strings.TrimPrefix(class, formatterPackage) {
	case "NoOpMessageFormatter":
		return func(io.Writer, *kgo.Record) error { return nil }, nil
	case "DefaultMessageFormatter", "LoggingMessageFormatter":
		f, err := newRecordFormat(props)
		if err != nil {
			return nil, usageError{err.Error()}
		}
		return f.write, nil
	}
	return nil, usageError{class}
}

// options are those of the client.
func (j *consumeJob) options() ([]kgo.Opt, error) {
	if j.props["client.id"] == "" {
		j.props["client.id"] = "console-consumer"
	}
	opts, err := clientOptions(j.seeds, j.props)
	if err != nil {
		return nil, err
	}
	switch level := j.props["isolation.level"]; level {
	case "read_committed":
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	case "read_uncommitted":
	default:
		return nil, fmt.Errorf("Invalid value %s for configuration isolation.level: String must be one of: read_committed, read_uncommitted", level) //nolint:staticcheck // Kafka's words
	}
	opts = append(opts, kgo.FetchMaxWait(500*time.Millisecond), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeStartOffset(j.offset), kgo.ConsumeResetOffset(j.reset))
	switch {
	case j.partition >= 0:
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: {j.partition: j.offset}}))
	case j.topic != "":
		opts = append(opts, kgo.ConsumeTopics(j.topic))
	default:
		if _, err := topicPattern(j.include); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(`^(?:`+j.include+`)$`))
	}
	if j.group != "" {
		// Only what was printed is committed: the rest goes to the next run.
		opts = append(opts, kgo.ConsumerGroup(j.group), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
	}
	return opts, nil
}

// run prints records until a limit is reached, the output is gone, or ctx ends.
func (j *consumeJob) run(ctx context.Context, s *streams, opts []kgo.Opt) (err error) {
	count := int64(0)
	defer func() { fmt.Fprintf(s.err, "Processed a total of %d messages\n", count) }()
	if j.maxMessages == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(opts, kgo.WithHooks(&outage{w: s.err, now: time.Now}))...)
	if err != nil {
		return err
	}
	defer func() {
		if j.group != "" && j.props["enable.auto.commit"] != "false" {
			commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			if cerr := client.CommitMarkedOffsets(commit); cerr != nil && err == nil {
				fmt.Fprintf(s.err, "commit offsets of group %s: %v\n", j.group, cerr)
			}
			cancel()
		}
		client.CloseAllowingRebalance()
	}()
	out := bufio.NewWriterSize(s.out, 1<<16)
	for {
		fetches, err := j.poll(ctx, s, client)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			fmt.Fprintf(s.err, "no record came within %v, stopping\n", j.timeout)
			return nil
		case err != nil && ctx.Err() == nil: // an exit code of 0 then, as Kafka's
			fmt.Fprintf(s.err, "Error processing message, terminating consumer process: %v\n", err)
			return nil
		case err != nil:
			return nil
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			rec := iter.Next()
			count++
			if err := j.print(out, rec); err != nil {
				if !j.skipErrors {
					out.Flush()
					return err
				}
				fmt.Fprintf(s.err, "%s-%d offset %d: %v, skipping\n", rec.Topic, rec.Partition, rec.Offset, err)
			}
			client.MarkCommitRecords(rec)
			if count == j.maxMessages {
				break
			}
		}
		if out.Flush() != nil {
			fmt.Fprintln(s.err, "Unable to write to standard out, closing consumer.")
			return nil
		}
		if count == j.maxMessages {
			return nil
		}
		client.AllowRebalance()
	}
}

// poll waits for records, at most for the job's timeout. Errors that may pass are told once and waited for, all others
// are returned.
func (j *consumeJob) poll(ctx context.Context, s *streams, client *kgo.Client) (kgo.Fetches, error) {
	if j.timeout != math.MaxInt64 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.timeout)
		defer cancel()
	}
	for {
		fetches := client.PollFetches(ctx)
		if fetches.NumRecords() > 0 {
			return fetches, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, fe := range fetches.Errors() {
			if final(fe.Err) {
				return nil, produceError(fe.Err)
			}
			j.tell(s, fmt.Sprintf("%s-%d: %v", fe.Topic, fe.Partition, produceError(fe.Err)))
		}
		client.AllowRebalance()
	}
}

// hopeless are the answers that stay the same however often one asks. Others that kerr calls not retriable belong to
// rebalances, after which a group goes on.
var hopeless = []*kerr.Error{
	kerr.InvalidTopicException, kerr.InvalidGroupID, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.FencedInstanceID, kerr.InconsistentGroupProtocol, kerr.GroupMaxSizeReached, kerr.UnsupportedVersion,
}

// final says whether it helps nothing to ask again.
func final(err error) bool {
	return slices.ContainsFunc(hopeless, func(e *kerr.Error) bool { return errors.Is(err, e) })
}

// tell prints a line that was not printed before.
func (j *consumeJob) tell(s *streams, line string) {
	if j.told == nil {
		j.told = map[string]bool{}
	}
	if !j.told[line] {
		j.told[line] = true
		fmt.Fprintln(s.err, line)
	}
}
