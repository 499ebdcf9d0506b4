package broker

import (
	"strconv"
	"strings"
	"sync"

	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Internal topics besides __consumer_offsets.
const (
	transactionTopic = "__transaction_state"
	shareTopic       = "__share_group_state"
)

// internalTopic reports whether a topic is one of the brokers' own.
func internalTopic(name string) bool {
	return name == group.OffsetsTopic || name == transactionTopic || name == shareTopic
}

// maxTopicName is the length a topic's name may have, so that a folder's name can hold it with a partition and a suffix.
const maxTopicName = 249

// legalTopicName reports whether a topic may have a name.
func legalTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}) < 0
}

// creations are the topics that the broker has asked the controller to create by itself, so that many clients that ask for a
// topic at once lead to one request.
type creations struct {
	mu       sync.Mutex
	inFlight map[string]struct{}
}

// createTopics asks for the creation of topics with legal names, and does not wait for it: clients ask again until they are there.
// ctx is the request that wants them, nil if the broker does.
func (b *Broker) createTopics(ctx *rpc.Context, names ...string) {
	req := protocol.NewCreateTopicsRequest()
	req.TimeoutMs = int32(b.cfg.Int("request.timeout.ms"))
	b.creations.mu.Lock()
	for _, name := range names {
		if _, ok := b.creations.inFlight[name]; !ok {
			b.creations.inFlight[name] = struct{}{}
			req.Topics = append(req.Topics, b.creatableTopic(name))
		}
	}
	b.creations.mu.Unlock()
	if len(req.Topics) == 0 {
		return
	}
	asked := make([]string, len(req.Topics))
	for i := range req.Topics {
		asked[i] = req.Topics[i].Name
	}
	b.env.Logger().Info("Sent auto-creation request for Set(" + strings.Join(asked, ", ") + ") to the active controller.")
	b.ctrl.Send(ctx, req, 7, func(resp protocol.Response, err error) {
		b.creations.mu.Lock()
		for _, name := range asked {
			delete(b.creations.inFlight, name)
		}
		b.creations.mu.Unlock()
		if err != nil {
			b.env.Logger().Debug("Auto topic creation failed.", "topics", asked, "err", err)
			return
		}
		if r, ok := resp.(*protocol.CreateTopicsResponse); ok {
			for _, t := range r.Topics {
				b.env.Logger().Debug("Auto topic creation completed.", "topic", t.Name, "errorCode", t.ErrorCode)
			}
		}
	})
}

// creatableTopic is a topic as the broker creates it by itself.
func (b *Broker) creatableTopic(name string) protocol.CreateTopicsRequestCreatableTopic {
	t := protocol.NewCreateTopicsRequestCreatableTopic()
	t.Name = name
	layers := b.Image().Configs.Layers(b.cfg)
	number := func(key string) int64 {
		v, _ := layers.Lookup(key)
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	set := func(key, value string) {
		t.Configs = append(t.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: key, Value: &value})
	}
	switch name {
	case group.OffsetsTopic:
		t.NumPartitions, t.ReplicationFactor = int32(number("offsets.topic.num.partitions")), int16(number("offsets.topic.replication.factor"))
		set("cleanup.policy", "compact")
		set("segment.bytes", strconv.FormatInt(number("offsets.topic.segment.bytes"), 10))
		set("compression.type", "producer")
	case transactionTopic:
		t.NumPartitions, t.ReplicationFactor = int32(number("transaction.state.log.num.partitions")), int16(number("transaction.state.log.replication.factor"))
		set("unclean.leader.election.enable", "false")
		set("compression.type", "uncompressed")
		set("cleanup.policy", "compact")
		set("min.insync.replicas", strconv.FormatInt(number("transaction.state.log.min.isr"), 10))
		set("segment.bytes", strconv.FormatInt(number("transaction.state.log.segment.bytes"), 10))
	case shareTopic:
		t.NumPartitions, t.ReplicationFactor = int32(number("share.coordinator.state.topic.num.partitions")), int16(number("share.coordinator.state.topic.replication.factor"))
		set("cleanup.policy", "delete")
		set("compression.type", "producer")
		set("segment.bytes", strconv.FormatInt(number("share.coordinator.state.topic.segment.bytes"), 10))
		set("retention.ms", "-1")
		set("min.insync.replicas", strconv.FormatInt(number("share.coordinator.state.topic.min.isr"), 10))
	default:
		t.NumPartitions, t.ReplicationFactor = int32(number("num.partitions")), int16(number("default.replication.factor"))
	}
	return t
}
