package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/uuid"
)

// topicDescription is a topic as --describe shows it.
type topicDescription struct {
	name       string
	id         uuid.UUID
	partitions []partitionDescription
}

type partitionDescription struct {
	index, leader      int32
	replicas, isr      []int32
	elr, lastKnownELR  []int32
	noELR              bool // the cluster does not know eligible leader replicas
	adding, removing   []int32
	reassigning        bool
	reassignmentTarget []int32
}

// replicationFactor leaves out replicas that a running reassignment adds.
func (p *partitionDescription) replicationFactor() int {
	if !p.reassigning {
		return len(p.replicas)
	}
	for _, id := range p.replicas {
		if slices.Contains(p.adding, id) || slices.Contains(p.removing, id) {
			return len(p.reassignmentTarget) - len(p.adding)
		}
	}
	return len(p.replicas)
}

func (t *topics) describe(ctx context.Context) error {
	var names []string
	var err error
	if id := t.flag("topic-id"); id != "" {
		if names, err = t.nameOfID(ctx, id); err != nil {
			return err
		}
	}
	if names == nil {
		if names, err = t.existing(ctx); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	descriptions, err := t.describeTopics(ctx, names)
	if err != nil {
		return err
	}
	configs, err := t.describeConfigs(ctx, names)
	if err != nil {
		return err
	}
	live, err := t.liveBrokers(ctx)
	if err != nil {
		return err
	}
	if err := t.addReassignments(ctx, descriptions); err != nil {
		return err
	}
	report := false
	for _, name := range topicReports {
		report = report || given(t.cmd, name)
	}
	overrides := given(t.cmd, "topics-with-overrides")
	for i := range descriptions {
		d := &descriptions[i]
		if !report && (!overrides || configs[d.name].own()) {
			t.printTopic(d, configs[d.name])
		}
		if overrides {
			continue
		}
		for j := range d.partitions {
			p := &d.partitions[j]
			if !report || t.inTrouble(p, configs[d.name], live) {
				t.printPartition(d.name, p)
			}
		}
	}
	return nil
}

// inTrouble says whether one of the reports asked for shows the partition.
func (t *topics) inTrouble(p *partitionDescription, c topicConfigs, live []int32) bool {
	minISR, _ := strconv.Atoi(c.value("min.insync.replicas"))
	return given(t.cmd, "under-replicated-partitions") && p.replicationFactor() > len(p.isr) ||
		given(t.cmd, "under-min-isr-partitions") && (p.leader < 0 || len(p.isr) < minISR) ||
		given(t.cmd, "at-min-isr-partitions") && len(p.isr) == minISR ||
		given(t.cmd, "unavailable-partitions") && !slices.Contains(live, p.leader)
}

func (t *topics) printTopic(d *topicDescription, c topicConfigs) {
	out := "Topic: " + d.name
	if d.id != uuid.Zero {
		out += "\tTopicId: " + d.id.String()
	}
	factor := 0
	if len(d.partitions) > 0 {
		factor = d.partitions[0].replicationFactor()
	}
	fmt.Fprintf(t.s.out, "%s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n", out, len(d.partitions), factor, c)
}

func (t *topics) printPartition(topic string, p *partitionDescription) {
	leader := "none"
	if p.leader >= 0 {
		leader = strconv.Itoa(int(p.leader))
	}
	fmt.Fprintf(t.s.out, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s", topic, p.index, leader,
		joinIDs(p.replicas), joinIDs(p.isr))
	if p.reassigning {
		fmt.Fprintf(t.s.out, "\tAdding Replicas: %s\tRemoving Replicas: %s", joinIDs(p.adding), joinIDs(p.removing))
	}
	elr, last := joinIDs(p.elr), joinIDs(p.lastKnownELR)
	if p.noELR {
		elr, last = "N/A", "N/A"
	}
	fmt.Fprintf(t.s.out, "\tElr: %s\tLastKnownElr: %s\n", elr, last)
}

func joinIDs(ids []int32) string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.Itoa(int(id))
	}
	return strings.Join(text, ",")
}

// nameOfID finds the topic with an id; nil, without an error, for the zero id, which means that --topic counts.
func (t *topics) nameOfID(ctx context.Context, text string) ([]string, error) {
	id, err := parseTopicID(text)
	if err != nil || id == uuid.Zero {
		return nil, err
	}
	all, err := t.metadata(ctx)
	if err != nil {
		return nil, err
	}
	for _, topic := range all {
		if topic.TopicID == id && topic.Topic != nil && !(topic.IsInternal && given(t.cmd, "exclude-internal")) {
			return []string{*topic.Topic}, nil
		}
	}
	if !given(t.cmd, "if-exists") {
		return nil, fmt.Errorf("TopicId '%s' does not exist as expected", id) //nolint:staticcheck // Kafka's words
	}
	return []string{}, nil
}

// describeTopics asks for partitions by DescribeTopicPartitions, a page at a time, or by Metadata where the
// cluster is older than that. The answer is sorted by name.
func (t *topics) describeTopics(ctx context.Context, names []string) ([]topicDescription, error) {
	limit := int32(2000)
	if text := t.flag("partition-size-limit-per-response"); text != "" {
		var err error
		if limit, err = parseInt32("partition-size-limit-per-response", text); err != nil {
			return nil, err
		}
	}
	found := map[string]*topicDescription{}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range names {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	for {
		answer, err := t.ask(ctx, "describeTopics", req)
		if errors.Is(err, kerr.UnsupportedVersion) {
			return t.describeByMetadata(ctx, names)
		}
		if err != nil {
			return nil, err
		}
		page := answer.(*kmsg.DescribeTopicPartitionsResponse)
		for _, at := range page.Topics {
			if err := answerError(at.ErrorCode, nil); err != nil {
				return nil, err
			}
			name := *at.Topic
			d := found[name]
			if d == nil {
				d = &topicDescription{name: name, id: at.TopicID}
				found[name] = d
			}
			for _, ap := range at.Partitions {
				d.partitions = append(d.partitions, partitionDescription{
					index: ap.Partition, leader: ap.LeaderID, replicas: ap.Replicas, isr: ap.ISR,
					elr: ap.EligibleLeaderReplicas, lastKnownELR: ap.LastKnownELR,
				})
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = page.NextCursor.Topic, page.NextCursor.Partition
		req.Cursor = &cursor
		req.Topics = slices.DeleteFunc(req.Topics, func(rt kmsg.DescribeTopicPartitionsRequestTopic) bool {
			return rt.Topic < cursor.Topic
		})
	}
	return sortDescriptions(found), nil
}

func (t *topics) describeByMetadata(ctx context.Context, names []string) ([]topicDescription, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
	}
	answer, err := t.ask(ctx, "describeTopics", req)
	if err != nil {
		return nil, err
	}
	found := map[string]*topicDescription{}
	for _, at := range answer.(*kmsg.MetadataResponse).Topics {
		if err := answerError(at.ErrorCode, nil); err != nil {
			return nil, err
		}
		d := &topicDescription{name: *at.Topic, id: at.TopicID}
		for _, ap := range at.Partitions {
			d.partitions = append(d.partitions, partitionDescription{
				index: ap.Partition, leader: ap.Leader, replicas: ap.Replicas, isr: ap.ISR, noELR: true,
			})
		}
		found[d.name] = d
	}
	return sortDescriptions(found), nil
}

func sortDescriptions(found map[string]*topicDescription) []topicDescription {
	var all []topicDescription
	for _, name := range sortedKeys(found) {
		d := found[name]
		slices.SortFunc(d.partitions, func(a, b partitionDescription) int { return cmp.Compare(a.index, b.index) })
		all = append(all, *d)
	}
	return all
}

// topicConfigs are the settings of a topic in the order of the broker's answer.
type topicConfigs []kmsg.DescribeConfigsResponseResourceConfig

// own says whether a setting comes from anywhere but the defaults.
func (c topicConfigs) own() bool {
	return slices.ContainsFunc(c, func(e kmsg.DescribeConfigsResponseResourceConfig) bool {
		return e.Source != kmsg.ConfigSourceDefaultConfig
	})
}

func (c topicConfigs) value(name string) string {
	for _, e := range c {
		if e.Name == name && e.Value != nil {
			return *e.Value
		}
	}
	return ""
}

func (c topicConfigs) String() string {
	var set []string
	for _, e := range c {
		if e.Source != kmsg.ConfigSourceDefaultConfig {
			value := "null"
			if e.Value != nil {
				value = *e.Value
			}
			set = append(set, e.Name+"="+value)
		}
	}
	return strings.Join(set, ",")
}

func (t *topics) describeConfigs(ctx context.Context, names []string) (map[string]topicConfigs, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, r)
	}
	answer, err := t.ask(ctx, "describeConfigs", req)
	if err != nil {
		return nil, err
	}
	configs := map[string]topicConfigs{}
	for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		if err := answerError(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		configs[r.ResourceName] = r.Configs
	}
	return configs, nil
}

func (t *topics) liveBrokers(ctx context.Context) ([]int32, error) {
	answer, err := t.ask(ctx, "listNodes", kmsg.NewPtrDescribeClusterRequest())
	if err != nil {
		return nil, err
	}
	cluster := answer.(*kmsg.DescribeClusterResponse)
	if err := answerError(cluster.ErrorCode, cluster.ErrorMessage); err != nil {
		return nil, err
	}
	var ids []int32
	for _, b := range cluster.Brokers {
		ids = append(ids, b.NodeID)
	}
	return ids, nil
}

// addReassignments notes which partitions are on the move. A cluster that cannot say so has none.
func (t *topics) addReassignments(ctx context.Context, descriptions []topicDescription) error {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 30000
	where := map[string]*topicDescription{}
	for i := range descriptions {
		d := &descriptions[i]
		where[d.name] = d
		rt := kmsg.NewListPartitionReassignmentsRequestTopic()
		rt.Topic = d.name
		for _, p := range d.partitions {
			rt.Partitions = append(rt.Partitions, p.index)
		}
		req.Topics = append(req.Topics, rt)
	}
	answer, err := t.ask(ctx, "listPartitionReassignments", req)
	if errors.Is(err, kerr.UnsupportedVersion) {
		return nil
	}
	if err != nil {
		return err
	}
	list := answer.(*kmsg.ListPartitionReassignmentsResponse)
	if list.ErrorCode == kerr.ClusterAuthorizationFailed.Code || list.ErrorCode == kerr.UnsupportedVersion.Code {
		return nil
	}
	if err := answerError(list.ErrorCode, list.ErrorMessage); err != nil {
		return err
	}
	for _, at := range list.Topics {
		d := where[at.Topic]
		if d == nil {
			continue
		}
		for _, ap := range at.Partitions {
			for i := range d.partitions {
				if p := &d.partitions[i]; p.index == ap.Partition {
					p.reassigning, p.adding, p.removing = true, ap.AddingReplicas, ap.RemovingReplicas
					p.reassignmentTarget = ap.Replicas
				}
			}
		}
	}
	return nil
}

// parseTopicID reads a topic id; the errors are those of Kafka's tools.
func parseTopicID(text string) (uuid.UUID, error) {
	if len(text) > 24 {
		return uuid.Zero, fmt.Errorf("Input string with prefix `%s` is too long to be decoded as a base64 UUID", text[:24]) //nolint:staticcheck // Kafka's words
	}
	id, err := uuid.Parse(text)
	if err != nil {
		b, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
		return uuid.Zero, fmt.Errorf("Input string `%s` decoded as %d bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID", text, len(b)) //nolint:staticcheck // Kafka's words
	}
	return id, nil
}
