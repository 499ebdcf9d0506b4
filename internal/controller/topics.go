package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Limits of one request.
const (
	// maxRecordsPerUserOp bounds what one request may write, as it is one batch: 10,000 PartitionRecords of a hundred
	// bytes are 1 MB of the 8 MB that a batch may have.
	maxRecordsPerUserOp = 10000
	// maxPartitionsPerOp is checked before anything is placed.
	maxPartitionsPerOp = 10000
)

type (
	createTopic  = protocol.CreateTopicsRequestCreatableTopic
	createResult = protocol.CreateTopicsResponseCreatableTopicResult
)

// createTopics works out the records of all topics of a request that can be created, and an answer for each.
func (m *replication) createTopics(req *protocol.CreateTopicsRequest, forwarded bool) (Result[*protocol.CreateTopicsResponse], error) {
	resp := protocol.NewCreateTopicsResponse()
	res := Result[*protocol.CreateTopicsResponse]{Response: resp, Atomic: true}
	total := int64(0)
	for _, t := range req.Topics {
		switch {
		case len(t.Assignments) > 0:
			total += int64(len(t.Assignments))
		case t.NumPartitions == -1:
			total += int64(m.defaults.partitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
		if total > maxPartitionsPerOp {
			return res, fail(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		}
	}
	var lines []string
	for i := range req.Topics {
		t := &req.Topics[i]
		records, result, err := m.createTopic(t, forwarded)
		if err != nil {
			result = createError(t.Name, err)
			lines = append(lines, fmt.Sprintf("%s: %s", t.Name, err))
		} else {
			lines = append(lines, t.Name+": SUCCESS")
			res.Records = append(res.Records, records...)
		}
		resp.Topics = append(resp.Topics, result)
		if len(res.Records) > maxRecordsPerUserOp {
			return res, errTooManyRecords
		}
	}
	what := "CreateTopics result(s): "
	if req.ValidateOnly {
		what = "Validate-only " + what
		res.Records = nil
	}
	m.log.Info(what + strings.Join(lines, ", "))
	return res, nil
}

// createError is the answer for a topic that is not created. Its list of settings is empty, not null.
func createError(name string, err error) createResult {
	r := protocol.NewCreateTopicsResponseCreatableTopicResult()
	r.Name = name
	r.ErrorCode, r.ErrorMessage = codeAndMessage(err)
	r.Configs = []protocol.CreateTopicsResponseCreatableTopicConfigs{}
	return r
}

// createTopic checks one topic in Kafka's order: name, existence, settings, assignment.
func (m *replication) createTopic(t *createTopic, forwarded bool) ([]metadata.Versioned, createResult, error) {
	fails := func(err error) ([]metadata.Versioned, createResult, error) { return nil, createResult{}, err }
	if m.byName.Has(t.Name) {
		return fails(fail(kerr.TopicAlreadyExists, "Topic '"+t.Name+"' already exists."))
	}
	if hasCollisionChars(t.Name) {
		if names, ok := m.collisions.Get(unifyCollisionChars(t.Name)); ok {
			for other := range names.All() {
				return fails(fail(kerr.InvalidTopicException, "Topic '"+t.Name+"' collides with existing topic: "+other))
			}
		}
	}
	if problem := topicNameProblem(t.Name); problem != "" {
		return fails(fail(kerr.InvalidTopicException, problem))
	}
	alterations, err := creationConfigs(t)
	if err != nil {
		return fails(err)
	}
	var configRecords []metadata.Versioned
	if len(alterations) > 0 {
		configRecords, err = m.configs.alterIncremental(resource{resourceTopic, t.Name}, alterations, true, forwarded)
		if err != nil {
			return fails(err)
		}
		configRecords = append(configRecords, m.configs.clearELR(configRecords)...)
	}
	partitions, err := m.newPartitions(t)
	if err != nil {
		return fails(err)
	}

	id := m.newUUID()
	rec := metadata.NewTopicRecord()
	rec.Name, rec.TopicId = t.Name, id
	records := make([]metadata.Versioned, 0, 1+len(configRecords)+len(partitions))
	records = append(records, metadata.Versioned{Record: rec})
	records = append(records, configRecords...)
	for i, p := range partitions {
		records = append(records, p.record(id, int32(i), m.features.version()))
	}

	result := protocol.NewCreateTopicsResponseCreatableTopicResult()
	result.Name, result.TopicId, result.ErrorMessage = t.Name, id, nil
	result.NumPartitions, result.ReplicationFactor = int32(len(partitions)), int16(len(partitions[0].replicas))
	result.Configs = m.describeNew(alterations)
	return records, result, nil
}

// creationConfigs are the settings in a request, the last of duplicates. None may be null.
func creationConfigs(t *createTopic) ([]alteration, error) {
	var out []alteration
	var nulls []string
	for _, c := range t.Configs {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		out = slices.DeleteFunc(out, func(a alteration) bool { return a.key == c.Name })
		out = append(out, alteration{key: c.Name, op: opSet, value: c.Value})
	}
	if len(nulls) > 0 {
		return nil, fail(kerr.InvalidConfig, "Null value not supported for topic configs: "+strings.Join(nulls, ","))
	}
	return out, nil
}

// describeNew are all effective settings of a topic that has the given ones, sorted by name.
func (m *replication) describeNew(own []alteration) []protocol.CreateTopicsResponseCreatableTopicConfigs {
	given := func(key string) (string, bool) {
		for _, a := range own {
			if a.key == key {
				return *a.value, true
			}
		}
		return "", false
	}
	defs := config.Defs(config.ScopeTopic)
	list := make([]protocol.CreateTopicsResponseCreatableTopicConfigs, 0, len(defs))
	for _, d := range defs {
		if _, ok := given(d.Name); d.Internal && !ok {
			continue
		}
		c := protocol.NewCreateTopicsResponseCreatableTopicConfigs()
		c.Name, c.IsSensitive = d.Name, d.Sensitive()
		c.Value, c.ConfigSource = m.configs.effective(d, given)
		if c.IsSensitive {
			c.Value = nil
		}
		list = append(list, c)
	}
	return list
}

// newPartitions places the partitions of a new topic, or takes them as assigned.
func (m *replication) newPartitions(t *createTopic) ([]*partition, error) {
	if len(t.Assignments) > 0 {
		return m.assignedPartitions(t)
	}
	if t.ReplicationFactor < -1 || t.ReplicationFactor == 0 {
		return nil, fail(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if t.NumPartitions < -1 || t.NumPartitions == 0 {
		return nil, fail(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	count, factor := t.NumPartitions, t.ReplicationFactor
	if count == -1 {
		count = m.defaults.partitions
	}
	if factor == -1 {
		factor = m.defaults.replication
	}
	prefix := fmt.Sprintf("Unable to replicate the partition %d time(s): ", factor)
	p := newPlacer(m.cluster.usable(), m.intn)
	if problem := p.check(int(factor)); problem != "" {
		return nil, fail(kerr.InvalidReplicationFactor, prefix+problem)
	}
	partitions := make([]*partition, 0, count)
	for range count {
		part, ok := m.newPartition(p.place(int(factor)))
		if !ok {
			return nil, fail(kerr.InvalidReplicationFactor, prefix+"All brokers are currently fenced or in controlled shutdown.")
		}
		partitions = append(partitions, part)
	}
	return partitions, nil
}

func (m *replication) assignedPartitions(t *createTopic) ([]*partition, error) {
	if t.ReplicationFactor != -1 {
		return nil, fail(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, fail(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byID := map[int32]*partition{}
	factor := -1
	for _, a := range t.Assignments {
		if byID[a.PartitionIndex] != nil {
			return nil, fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.PartitionIndex))
		}
		if err := m.checkAssignment(a.BrokerIds, factor); err != nil {
			return nil, err
		}
		factor = len(a.BrokerIds)
		p, ok := m.newPartition(a.BrokerIds)
		if !ok {
			return nil, errAllFenced(a.PartitionIndex)
		}
		byID[a.PartitionIndex] = p
	}
	partitions := make([]*partition, len(byID))
	for i := range partitions {
		p := byID[int32(i)]
		if p == nil {
			return nil, fail(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		partitions[i] = p
	}
	return partitions, nil
}

func errAllFenced(partition int32) error {
	return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition))
}

// checkAssignment checks replicas that somebody chose. factor is how many there must be; -1: any number.
func (m *replication) checkAssignment(replicas []int32, factor int) error {
	if len(replicas) == 0 {
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		b := m.cluster.broker(id)
		switch {
		case b == nil:
			return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", id))
		case !b.hasUncordonedDirs():
			return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but all its log directories are cordoned.", id))
		case i > 0 && id == sorted[i-1]:
			return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", id))
		}
	}
	if factor >= 0 && len(replicas) != factor {
		return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes a partition with %d replica(s), "+
			"but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor))
	}
	return nil
}

// newPartition is a partition with the given replicas; ok is false if none of them is live. The live ones are in sync,
// the first of them leads.
func (m *replication) newPartition(replicas []int32) (p *partition, ok bool) {
	p = &partition{replicas: replicas, directories: make([]uuid.UUID, len(replicas))}
	for i, id := range replicas {
		p.directories[i] = m.defaultDir(id)
		if m.cluster.isActive(id) {
			p.isr = append(p.isr, id)
		}
	}
	if len(p.isr) == 0 {
		return nil, false
	}
	p.leader = p.isr[0]
	return p, true
}

// createPartitions works out the records of more partitions for one topic.
func (m *replication) createPartitions(t *protocol.CreatePartitionsRequestCreatePartitionsTopic) ([]metadata.Versioned, error) {
	topic := m.topicByName(t.Name)
	if topic == nil {
		return nil, fail(kerr.UnknownTopicOrPartition, "")
	}
	have := int32(topic.partitions.Len())
	switch {
	case t.Count == have:
		return nil, fail(kerr.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", have))
	case t.Count < have:
		return nil, fail(kerr.InvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, t.Count))
	}
	additional := int(t.Count - have)
	if t.Assignments != nil && len(t.Assignments) != additional {
		return nil, fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", additional, len(t.Assignments)))
	}
	if additional > maxRecordsPerUserOp {
		return nil, errTooManyRecords
	}
	first, _ := topic.partitions.Get(0)
	if first == nil {
		return nil, fail(kerr.UnknownServerError, "Invalid state: topic "+t.Name+" appears to have no partitions.")
	}
	factor := len(first.replicas)
	var placer *placer
	if t.Assignments == nil {
		placer = newPlacer(m.cluster.usable(), m.intn)
		if problem := placer.check(factor); problem != "" {
			return nil, fail(kerr.InvalidReplicationFactor, problem)
		}
	}
	records := make([]metadata.Versioned, 0, additional)
	for i := range additional {
		id := have + int32(i)
		var replicas []int32
		if placer != nil {
			replicas = placer.place(factor)
		} else {
			replicas = t.Assignments[i].BrokerIds
			if err := m.checkAssignment(replicas, factor); err != nil {
				return nil, err
			}
		}
		p, ok := m.newPartition(replicas)
		switch {
		case !ok && placer == nil:
			return nil, errAllFenced(id)
		case !ok:
			return nil, fail(kerr.InvalidReplicationFactor, fmt.Sprintf("Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor))
		}
		records = append(records, p.record(topic.id, id, m.features.version()))
	}
	return records, nil
}
