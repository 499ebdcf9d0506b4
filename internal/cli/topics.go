package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/config"
)

// The actions of kafka-topics; exactly one must be given.
var topicActions = []string{"alter", "create", "describe", "list", "delete"}

// topicReports are the flags of --describe that show only partitions in trouble.
var topicReports = []string{"under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions",
	"unavailable-partitions"}

const topicsAboutConfigs = " (To alter topic configurations, the kafka-configs tool can be used.)"

func newTopics(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics (--create | --list | --describe | --alter | --delete) [flags]",
		Short: "Create, list, describe, grow and delete topics",
		Long: `Create, list, describe, grow and delete topics, as kafka-topics.sh does.

--topic names one topic for --create; elsewhere it is a regular expression that must match the whole name.`,
		Example: `  ottla topics --create --topic orders --partitions 3
  ottla topics --create --topic prices --config cleanup.policy=compact
  ottla topics --list
  ottla topics --describe --topic orders
  ottla topics --alter --topic orders --partitions 6
  ottla topics --delete --topic orders`,
		Annotations: map[string]string{dialectKey: string(jopt)},
		RunE:        func(cmd *cobra.Command, args []string) error { return runTopics(cmd.Context(), s, cmd) },
	}
	f := cmd.Flags()
	bootstrapFlags(cmd)
	versionFlag(cmd)
	f.Bool("create", false, "create a topic")
	f.Bool("list", false, "list the topics")
	f.Bool("describe", false, "show partitions, leaders, replicas and settings")
	f.Bool("alter", false, "add partitions to topics")
	f.Bool("delete", false, "delete topics")
	f.String("topic", "", "the topic's `name`; a regular expression, except with --create")
	f.String("topic-id", "", "describe the topic with this `id`")
	f.String("partitions", "", "the `number` of partitions; without it the cluster's default")
	f.String("replication-factor", "", "the `number` of copies of each partition; without it the cluster's default")
	f.String("replica-assignment", "", "the brokers of each partition, as `id:id,id:id`")
	f.StringArray("config", nil, "a setting of the new topic, `name=value`; may be repeated")
	f.StringArray("delete-config", nil, "no longer supported since Kafka 4.0")
	_ = f.MarkHidden("delete-config")
	f.Bool("if-exists", false, "do nothing, without an error, if the topic does not exist (alter, delete, describe)")
	f.Bool("if-not-exists", false, "do nothing, without an error, if the topic exists (create)")
	f.Bool("exclude-internal", false, "leave internal topics out (list, describe)")
	f.Bool("under-replicated-partitions", false, "describe only partitions whose replicas are not all in sync")
	f.Bool("under-min-isr-partitions", false, "describe only partitions with fewer in-sync replicas than min.insync.replicas")
	f.Bool("at-min-isr-partitions", false, "describe only partitions with just min.insync.replicas in-sync replicas")
	f.Bool("unavailable-partitions", false, "describe only partitions whose leader is not available")
	f.Bool("topics-with-overrides", false, "describe only topics with settings of their own")
	f.String("partition-size-limit-per-response", "", "the largest `number` of partitions in one answer of the broker (describe)")
	return cmd
}

func runTopics(ctx context.Context, s *streams, cmd *cobra.Command) error {
	if printedVersion(s, cmd) {
		return nil
	}
	if err := checkTopicFlags(s, cmd); err != nil {
		return err
	}
	bootstrap, ok := s.bootstrap(cmd)
	if !ok {
		return errors.New("--bootstrap-server must be specified")
	}
	props, err := commandConfig(cmd)
	if err != nil {
		return err
	}
	a, err := dialAdmin(s, bootstrap, props)
	if err != nil {
		return err
	}
	defer a.Close()
	t := &topics{admin: a, cmd: cmd}
	switch {
	case given(cmd, "create"):
		err = t.create(ctx)
	case given(cmd, "alter"):
		err = t.alter(ctx)
	case given(cmd, "list"):
		err = t.list(ctx)
	case given(cmd, "describe"):
		err = t.describe(ctx)
	case given(cmd, "delete"):
		err = t.delete(ctx)
	}
	if err != nil {
		fmt.Fprintf(s.out, "Error while executing topic command : %v\n", err)
		return exitError{1}
	}
	return nil
}

// checkTopicFlags refuses combinations in Kafka's order and words.
func checkTopicFlags(s *streams, cmd *cobra.Command) error {
	actions := 0
	for _, action := range topicActions {
		if given(cmd, action) {
			actions++
		}
	}
	if actions != 1 {
		return usageError{"Command must include exactly one action: --list, --describe, --create, --alter or --delete"}
	}
	if given(cmd, "delete-config") {
		fmt.Fprintln(s.err, "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in future releases.")
	}
	if _, ok := s.bootstrap(cmd); !ok {
		return errors.New("--bootstrap-server must be specified")
	}
	if given(cmd, "describe") && given(cmd, "if-exists") {
		if !given(cmd, "topic") && !given(cmd, "topic-id") {
			return usageError{"--topic or --topic-id is required to describe a topic"}
		}
		if given(cmd, "topic") && given(cmd, "topic-id") {
			fmt.Fprintln(s.out, "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID")
		}
	}
	if !given(cmd, "list") && !given(cmd, "describe") {
		if err := requireFlags(cmd, "topic"); err != nil {
			return err
		}
	}
	if given(cmd, "alter") {
		if given(cmd, "bootstrap-server") && given(cmd, "config") {
			return usageError{"Option combination \"[[bootstrap-server], [config]]\" can't be used with option \"[alter]\"" + topicsAboutConfigs}
		}
		if err := requireFlags(cmd, "partitions"); err != nil {
			return err
		}
	}
	// Which actions each flag goes with; a report refuses the other kind of report as well.
	allowed := []struct {
		flag    string
		actions []string
		refused []string
	}{
		{"config", []string{"alter", "create"}, nil},
		{"partitions", []string{"alter", "create"}, nil},
		{"replication-factor", []string{"create"}, nil},
		{"replica-assignment", []string{"alter", "create"}, nil},
		{"under-replicated-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"under-min-isr-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"at-min-isr-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"unavailable-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"topics-with-overrides", []string{"describe"}, topicReports},
		{"if-exists", []string{"alter", "delete", "describe"}, nil},
		{"if-not-exists", []string{"create"}, nil},
		{"exclude-internal", []string{"list", "describe"}, nil},
	}
	for _, rule := range allowed {
		for _, action := range topicActions {
			if !slices.Contains(rule.actions, action) {
				if err := refuseTogether(cmd, rule.flag, action); err != nil {
					return err
				}
			}
		}
		if err := refuseTogether(cmd, rule.flag, rule.refused...); err != nil {
			return err
		}
	}
	if given(cmd, "create") {
		return refuseTogether(cmd, "replica-assignment", "partitions", "replication-factor")
	}
	return nil
}

// topics is one run of the tool.
type topics struct {
	*admin
	cmd *cobra.Command
}

func (t *topics) flag(name string) string {
	value, _ := t.cmd.Flags().GetString(name)
	return value
}

// newTopic is what --create asks for; -1 is the cluster's default.
type newTopic struct {
	name        string
	partitions  int32
	replication int32 // -1: the cluster's default
	assignment  [][]int32
	configs     map[string]string
}

// parse reads the flags that --create and --alter share.
func (t *topics) parse() (newTopic, error) {
	topic := newTopic{name: t.flag("topic"), partitions: -1, replication: -1, configs: map[string]string{}}
	var err error
	if given(t.cmd, "partitions") {
		if topic.partitions, err = parseInt32("partitions", t.flag("partitions")); err != nil {
			return topic, err
		}
	}
	if given(t.cmd, "replication-factor") {
		if topic.replication, err = parseInt32("replication-factor", t.flag("replication-factor")); err != nil {
			return topic, err
		}
	}
	if topic.assignment, err = parseAssignment(t.flag("replica-assignment")); err != nil {
		return topic, err
	}
	configs, _ := t.cmd.Flags().GetStringArray("config")
	for _, c := range configs {
		name, value, ok := strings.Cut(c, "=")
		if !ok || strings.TrimSpace(value) == "" || strings.Contains(value, "=") {
			return topic, errors.New(`requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".`)
		}
		topic.configs[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return topic, checkTopicConfigs(topic.configs)
}

// checkTopicConfigs says what no broker of Kafka 4.4 would take.
func checkTopicConfigs(configs map[string]string) error {
	names := sortedKeys(configs)
	for _, name := range names {
		if config.Lookup(config.ScopeTopic, name) == nil {
			return fmt.Errorf("Unknown topic config name: %s", name) //nolint:staticcheck // Kafka's words
		}
	}
	for _, name := range names {
		if _, err := config.Lookup(config.ScopeTopic, name).Parse(configs[name]); err != nil {
			return err
		}
	}
	return nil
}

// bounds says what is wrong with the size of a new topic.
func (t *topics) bounds(topic newTopic) error {
	switch {
	case given(t.cmd, "replication-factor") && (topic.replication < 1 || topic.replication > math.MaxInt16):
		return fmt.Errorf("The replication factor must be between 1 and %d inclusive", math.MaxInt16) //nolint:staticcheck // Kafka's words
	case given(t.cmd, "partitions") && topic.partitions < 1:
		return errors.New("The partitions must be greater than 0") //nolint:staticcheck // Kafka's words
	}
	return nil
}

// parseAssignment reads broker:broker,broker:broker: the replicas of partition 0, of partition 1 and so on.
func parseAssignment(list string) ([][]int32, error) {
	if list == "" {
		return nil, nil
	}
	var assignment [][]int32
	for i, part := range strings.Split(list, ",") {
		var brokers []int32
		var twice []string
		for _, text := range strings.Split(part, ":") {
			id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("For input string: %q", strings.TrimSpace(text)) //nolint:staticcheck // Kafka's words
			}
			if slices.Contains(brokers, int32(id)) {
				twice = append(twice, text)
			}
			brokers = append(brokers, int32(id))
		}
		if len(twice) > 0 {
			return nil, fmt.Errorf("Partition replica lists may not contain duplicate entries: %s", strings.Join(twice, ",")) //nolint:staticcheck // Kafka's words
		}
		if i > 0 && len(brokers) != len(assignment[0]) {
			return nil, fmt.Errorf("Partition %d has different replication factor: %v", i, brokers) //nolint:staticcheck // Kafka's words
		}
		assignment = append(assignment, brokers)
	}
	return assignment, nil
}

func (t *topics) create(ctx context.Context) error {
	topic, err := t.parse()
	if err != nil {
		return err
	}
	if strings.ContainsAny(topic.name, "._") {
		fmt.Fprintln(t.s.out, "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "+
			"collide. To avoid issues it is best to use either, but not both.")
	}
	if err := t.bounds(topic); err != nil {
		return err
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic.name, topic.partitions, int16(topic.replication)
	for i, replicas := range topic.assignment {
		ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		ra.Partition, ra.Replicas = int32(i), replicas
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	}
	for _, name := range sortedKeys(topic.configs) {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, kmsg.StringPtr(topic.configs[name])
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	answer, err := t.ask(ctx, "createTopics", req)
	if err != nil {
		return err
	}
	for _, at := range answer.(*kmsg.CreateTopicsResponse).Topics {
		err := answerError(at.ErrorCode, at.ErrorMessage)
		if at.ErrorCode == kerr.TopicAlreadyExists.Code && given(t.cmd, "if-not-exists") {
			return nil
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(t.s.out, "Created topic %s.\n", topic.name)
	return nil
}

func (t *topics) list(ctx context.Context) error {
	names, err := t.names(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(t.s.out, strings.Join(names, "\n"))
	return nil
}

func (t *topics) alter(ctx context.Context) error {
	topic, err := t.parse()
	if err != nil {
		return err
	}
	names, err := t.existing(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 30000
	var counts map[string]int
	if topic.assignment != nil {
		descriptions, err := t.describeTopics(ctx, names)
		if err != nil {
			return err
		}
		counts = map[string]int{}
		for _, d := range descriptions {
			counts[d.name] = len(d.partitions)
		}
	}
	for _, name := range names {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = name, topic.partitions
		if topic.assignment != nil {
			rt.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			for _, replicas := range topic.assignment[min(counts[name], len(topic.assignment)):] {
				rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
			}
		}
		req.Topics = append(req.Topics, rt)
	}
	answer, err := t.ask(ctx, "createPartitions", req)
	if err != nil {
		return err
	}
	for _, at := range answer.(*kmsg.CreatePartitionsResponse).Topics {
		if err := answerError(at.ErrorCode, at.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (t *topics) delete(ctx context.Context) error {
	names, err := t.existing(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 30000
	for _, name := range names {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		req.TopicNames = append(req.TopicNames, name)
	}
	answer, err := t.ask(ctx, "deleteTopics", req)
	if err != nil {
		return err
	}
	for _, at := range answer.(*kmsg.DeleteTopicsResponse).Topics {
		if err := answerError(at.ErrorCode, at.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// existing is names, and an error when --topic matches nothing and --if-exists was not given.
func (t *topics) existing(ctx context.Context) ([]string, error) {
	names, err := t.names(ctx)
	if err == nil && len(names) == 0 && t.flag("topic") != "" && !given(t.cmd, "if-exists") {
		return nil, fmt.Errorf("Topic '%s' does not exist as expected", t.flag("topic")) //nolint:staticcheck // Kafka's words
	}
	return names, err
}

// names are the topics that --topic and --exclude-internal let through, sorted.
func (t *topics) names(ctx context.Context) ([]string, error) {
	match := func(string) bool { return true }
	if given(t.cmd, "topic") {
		re, err := topicPattern(t.flag("topic"))
		if err != nil {
			return nil, err
		}
		match = re.MatchString
	}
	all, err := t.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, topic := range all {
		if topic.Topic == nil || topic.IsInternal && given(t.cmd, "exclude-internal") {
			continue
		}
		if match(*topic.Topic) {
			names = append(names, *topic.Topic)
		}
	}
	slices.Sort(names)
	return names, nil
}

// metadata is what the cluster says about all topics.
func (t *topics) metadata(ctx context.Context) ([]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	req.AllowAutoTopicCreation = true
	answer, err := t.ask(ctx, "listTopics", req)
	if err != nil {
		return nil, err
	}
	return answer.(*kmsg.MetadataResponse).Topics, nil
}

// topicPattern reads --topic as Kafka does: a comma means or, blanks and quotes do not count, the whole name
// must match.
func topicPattern(raw string) (*regexp.Regexp, error) {
	expr := strings.NewReplacer(",", "|", " ", "", `"`, "", "'", "").Replace(strings.TrimSpace(raw))
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("%s is an invalid regex.", expr) //nolint:staticcheck // Kafka's words
	}
	return re, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
