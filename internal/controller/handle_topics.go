package controller

import (
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

func millis(ms int32) time.Duration { return time.Duration(max(ms, 1)) * time.Millisecond }

// forwarded reports whether a request came by a broker, which has looked at it before.
func (c *Controller) forwarded(ctx *rpc.Context) bool {
	return ctx.Forwarded || !slices.Contains(c.cfg.Node.ControllerListeners, ctx.Listener)
}

// CreateTopics is key 19, versions 2–7. v4: -1 counts are defaults (KIP-464). v5: settings in the answer (KIP-525). v7:
// topic ids (KIP-516).
// Path: repeated and forbidden names → topics.go createTopics → records → stable → answer.
// Errors of a topic, first found: 36 exists, 17 name or collision, 40 settings, 42 assignment beside counts, 39, 38, 37.
// Of the request: 44 above 10,000 partitions, 41, 7.
func (c *Controller) CreateTopics(ctx *rpc.Context, req *protocol.CreateTopicsRequest, respond func(*protocol.CreateTopicsResponse)) {
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Name]++
	}
	effective := *req
	effective.Topics = nil
	var refused []createResult
	for i := range req.Topics {
		name := req.Topics[i].Name
		switch {
		case count[name] > 1:
			refused = append(refused, createError(name, fail(kerr.InvalidRequest, "Duplicate topic name.")))
			count[name] = -1
		case count[name] < 0: // told already
		case name == clusterMetadataTopic:
			refused = append(refused, createError(name, fail(kerr.InvalidRequest, "Creation of internal topic "+clusterMetadataTopic+" is prohibited.")))
		default:
			effective.Topics = append(effective.Topics, req.Topics[i])
		}
	}
	forwarded := c.forwarded(ctx)
	appendWrite(c, "createTopics", millis(req.TimeoutMs), func() (Result[*protocol.CreateTopicsResponse], error) {
		return c.state.replication.createTopics(&effective, forwarded)
	}, nil, func(resp *protocol.CreateTopicsResponse, err error) {
		if err != nil {
			resp = protocol.NewCreateTopicsResponse()
			for i := range effective.Topics {
				resp.Topics = append(resp.Topics, createError(effective.Topics[i].Name, err))
			}
		}
		resp.Topics = append(resp.Topics, refused...)
		respond(resp)
	})
}

type deleteResult = protocol.DeleteTopicsResponseDeletableTopicResult

// DeleteTopics is key 20, versions 1–6. v5: messages. v6: by id (KIP-516).
// Path: names and ids that cannot be meant → topic ids → a RemoveTopicRecord each → stable → answer.
// Errors of a topic: 42 repeated, both or neither of name and id, 3 unknown name, 100 unknown id; 73 where deletion is off.
func (c *Controller) DeleteTopics(ctx *rpc.Context, req *protocol.DeleteTopicsRequest, respond func(*protocol.DeleteTopicsResponse)) {
	asked := make([]protocol.DeleteTopicsRequestDeleteTopicState, 0, len(req.Topics)+len(req.TopicNames))
	for i := range req.TopicNames {
		asked = append(asked, protocol.DeleteTopicsRequestDeleteTopicState{Name: &req.TopicNames[i]})
	}
	asked = append(asked, req.Topics...)
	failAll := func(err error) {
		resp := protocol.NewDeleteTopicsResponse()
		for _, t := range asked {
			resp.Responses = append(resp.Responses, deleteAnswer(t.Name, t.TopicId, err))
		}
		respond(resp)
	}
	if !c.cfg.DeleteTopics {
		if ctx.APIVersion < 3 {
			failAll(fail(kerr.InvalidRequest, "This version does not support topic deletion."))
		} else {
			failAll(fail(kerr.TopicDeletionDisabled, ""))
		}
		return
	}
	appendWrite(c, "deleteTopics", millis(req.TimeoutMs), func() (Result[*protocol.DeleteTopicsResponse], error) {
		return c.state.replication.deleteTopics(asked)
	}, nil, func(resp *protocol.DeleteTopicsResponse, err error) {
		if err != nil {
			failAll(err)
			return
		}
		respond(resp)
	})
}

func deleteAnswer(name *string, id uuid.UUID, err error) deleteResult {
	r := protocol.NewDeleteTopicsResponseDeletableTopicResult()
	r.Name, r.TopicId = name, id
	r.ErrorCode, r.ErrorMessage = codeAndMessage(err)
	return r
}

// deleteTopics answers each topic that a request names, those that are deleted last.
func (m *replication) deleteTopics(asked []protocol.DeleteTopicsRequestDeleteTopicState) (Result[*protocol.DeleteTopicsResponse], error) {
	resp := protocol.NewDeleteTopicsResponse()
	res := Result[*protocol.DeleteTopicsResponse]{Response: resp, Atomic: true}
	names, ids := map[string]int{}, map[uuid.UUID]int{}
	for _, t := range asked {
		switch {
		case t.Name != nil && t.TopicId == uuid.Zero:
			names[*t.Name]++
		case t.Name == nil && t.TopicId != uuid.Zero:
			ids[t.TopicId]++
		}
	}
	say := func(name *string, id uuid.UUID, err error) {
		resp.Responses = append(resp.Responses, deleteAnswer(name, id, err))
	}
	var doomed []*topic
	taken := map[uuid.UUID]bool{}
	for _, t := range asked {
		if t.Name != nil {
			continue
		}
		found, ok := m.topics.Get(t.TopicId)
		switch {
		case t.TopicId == uuid.Zero:
			say(nil, uuid.Zero, fail(kerr.InvalidRequest, "Neither topic name nor id were specified."))
		case ids[t.TopicId] > 1:
			say(nil, t.TopicId, fail(kerr.InvalidRequest, "Duplicate topic id."))
			ids[t.TopicId] = -1
		case ids[t.TopicId] < 0: // told already
		case !ok:
			say(nil, t.TopicId, fail(kerr.UnknownTopicId, textUnknownTopicID))
		default:
			doomed, taken[t.TopicId] = append(doomed, found), true
		}
	}
	for _, t := range asked {
		if t.Name == nil {
			continue
		}
		found := m.topicByName(*t.Name)
		switch {
		case t.TopicId != uuid.Zero:
			say(t.Name, t.TopicId, fail(kerr.InvalidRequest, "You may not specify both topic name and topic id."))
		case names[*t.Name] > 1:
			say(t.Name, uuid.Zero, fail(kerr.InvalidRequest, "Duplicate topic name."))
			names[*t.Name] = -1
		case names[*t.Name] < 0: // told already
		case found == nil:
			say(t.Name, uuid.Zero, fail(kerr.UnknownTopicOrPartition, textUnknownTopic))
		case taken[found.id] || ids[found.id] != 0: // then it is not deleted at all
			say(t.Name, found.id, fail(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied."))
			doomed = slices.DeleteFunc(doomed, func(t *topic) bool { return t.id == found.id })
		default:
			doomed, taken[found.id] = append(doomed, found), true
		}
	}
	for _, t := range doomed {
		rec := metadata.NewRemoveTopicRecord()
		rec.TopicId = t.id
		res.Records = append(res.Records, metadata.Versioned{Record: rec})
		say(&t.name, t.id, nil)
		m.log.Info("DeleteTopics result(s): {id: " + t.id.String() + ", name: " + t.name + ", result: SUCCESS}")
	}
	if len(res.Records) > maxRecordsPerUserOp {
		return res, errTooManyRecords
	}
	return res, nil
}

type createPartitionsResult = protocol.CreatePartitionsResponseCreatePartitionsTopicResult

// CreatePartitions is key 37, versions 0–3.
// Path: repeated names → topics.go createPartitions → PartitionRecords → stable → answer.
// Errors of a topic: 42 repeated, 3 unknown, 37 no increase, 39 assignment, 38 placement. Of the request: 44, 41, 7.
func (c *Controller) CreatePartitions(_ *rpc.Context, req *protocol.CreatePartitionsRequest, respond func(*protocol.CreatePartitionsResponse)) {
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Name]++
	}
	resp := protocol.NewCreatePartitionsResponse()
	var topics []*protocol.CreatePartitionsRequestCreatePartitionsTopic
	say := func(name string, err error) {
		r := createPartitionsResult{Name: name}
		r.ErrorCode, r.ErrorMessage = codeAndMessage(err)
		resp.Results = append(resp.Results, r)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case count[t.Name] > 1:
			say(t.Name, fail(kerr.InvalidRequest, "Duplicate topic name."))
			count[t.Name] = -1
		case count[t.Name] == 1:
			topics = append(topics, t)
		}
	}
	errs := make([]error, len(topics))
	appendWrite(c, "createPartitions", millis(req.TimeoutMs), func() (Result[struct{}], error) {
		records, err := c.state.replication.createAllPartitions(topics, errs)
		if req.ValidateOnly {
			records = nil
		}
		return Result[struct{}]{Records: records, Atomic: true}, err
	}, nil, func(_ struct{}, err error) {
		for i, t := range topics {
			if err != nil {
				errs[i] = err
			}
			say(t.Name, errs[i])
		}
		respond(resp)
	})
}

// createAllPartitions works out the records of those topics of a request that can have more partitions; errs gets why
// the others cannot.
func (m *replication) createAllPartitions(topics []*protocol.CreatePartitionsRequestCreatePartitionsTopic, errs []error) ([]metadata.Versioned, error) {
	total := int64(0)
	for _, t := range topics {
		if found := m.topicByName(t.Name); found != nil && t.Count >= 0 {
			total += max(0, int64(t.Count)-int64(found.partitions.Len()))
		}
		if total > maxPartitionsPerOp {
			return nil, fail(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
		}
	}
	var records []metadata.Versioned
	for i, t := range topics {
		more, err := m.createPartitions(t)
		errs[i] = err
		if records = append(records, more...); len(records) > maxRecordsPerUserOp {
			return nil, errTooManyRecords
		}
	}
	return records, nil
}
