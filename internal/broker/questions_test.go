package broker

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

type (
	alterResource = protocol.IncrementalAlterConfigsRequestAlterConfigsResource
	alterConfig   = protocol.IncrementalAlterConfigsRequestAlterableConfig
)

func text(s string) *string { return &s }

// questions are asked in this order, each of a broker that the ones before have changed.
func questions() []question {
	var all []question
	all = append(all, setupQuestions()...)
	all = append(all, metadataQuestions()...)
	all = append(all, partitionQuestions()...)
	all = append(all, clusterQuestions()...)
	all = append(all, coordinatorQuestions()...)
	all = append(all, describeQuestions()...)
	all = append(all, alterQuestions()...)
	return append(all, securityQuestions()...)
}

func setupQuestions() []question {
	create := protocol.NewCreateTopicsRequest()
	topic := protocol.NewCreateTopicsRequestCreatableTopic()
	topic.Name, topic.NumPartitions, topic.ReplicationFactor = "orders", 3, 1
	topic.Configs = []protocol.CreateTopicsRequestCreatableTopicConfig{{Name: "retention.ms", Value: text("1234567")}}
	create.Topics = append(create.Topics, topic)
	alter := protocol.NewIncrementalAlterConfigsRequest()
	alter.Resources = []alterResource{
		{ResourceType: 4, ResourceName: "", Configs: []alterConfig{{Name: "log.retention.ms", Value: text("777777")}}},
		{ResourceType: 4, ResourceName: "1", Configs: []alterConfig{{Name: "log.segment.bytes", Value: text("9999999")}, {Name: "num.io.threads", Value: text("9")}}},
		{ResourceType: 32, ResourceName: "g", Configs: []alterConfig{{Name: "consumer.session.timeout.ms", Value: text("46000")}, {Name: "share.auto.offset.reset", Value: text("earliest")}}},
		{ResourceType: 16, ResourceName: "m", Configs: []alterConfig{{Name: "interval.ms", Value: text("1000")}}},
	}
	find := protocol.NewFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"grp"}
	return []question{
		{"create", create, 7, true},
		{"alter", alter, 1, true},
		{"first find", find, 4, true}, // creates __consumer_offsets
	}
}

func metadataQuestions() []question {
	var all []question
	names := func(names ...*string) []protocol.MetadataRequestTopic {
		topics := []protocol.MetadataRequestTopic{}
		for _, name := range names {
			topics = append(topics, protocol.MetadataRequestTopic{Name: name})
		}
		return topics
	}
	ask := func(name string, version int16, settle bool, topics []protocol.MetadataRequestTopic, change ...func(*protocol.MetadataRequest)) {
		r := protocol.NewMetadataRequest()
		r.Topics = topics
		if version >= 4 {
			r.AllowAutoTopicCreation = false
		}
		for _, c := range change {
			c(r)
		}
		all = append(all, question{name, r, version, settle})
	}
	for v := int16(0); v <= 13; v++ {
		ask("metadata", v, false, names(text("orders"), text("__consumer_offsets"), text("orders"), text("no pe"), text("..")), func(r *protocol.MetadataRequest) {
			r.IncludeTopicAuthorizedOperations = v >= 8
			r.IncludeClusterAuthorizedOperations = v >= 8 && v <= 10
		})
		if v > 0 {
			ask("metadata of all", v, false, nil)
		}
		ask("metadata of none", v, false, names())
		ask("metadata unknown", v, v < 4, names(text(fmt.Sprintf("unknown%d", v)))) // v0-3 create
		ask("metadata unknown again", v, false, names(text(fmt.Sprintf("unknown%d", v))))
	}
	allow := func(r *protocol.MetadataRequest) { r.AllowAutoTopicCreation = true }
	ask("metadata create", 9, true, names(text("auto"), text("no pe")), allow)
	ask("metadata created", 9, false, names(text("auto"), text("no pe")), allow)
	ask("metadata create internal", 9, true, names(text("__transaction_state")), allow)
	ask("metadata created internal", 9, false, names(text("__transaction_state")), allow)
	ask("metadata by id", 12, false, []protocol.MetadataRequestTopic{{TopicId: uuid.UUID{1}}, {Name: text("orders")}, {TopicId: uuid.UUID{1}}})
	ask("metadata by id", 10, false, []protocol.MetadataRequestTopic{{TopicId: uuid.UUID{1}, Name: text("a")}})
	ask("metadata without name", 11, false, names(nil))
	ask("metadata without name", 12, false, names(nil))
	return all
}

func partitionQuestions() []question {
	var all []question
	ask := func(limit int32, cursor *protocol.DescribeTopicPartitionsRequestCursor, topics ...string) {
		r := protocol.NewDescribeTopicPartitionsRequest()
		r.ResponsePartitionLimit, r.Cursor = limit, cursor
		for _, t := range topics {
			r.Topics = append(r.Topics, protocol.DescribeTopicPartitionsRequestTopicRequest{Name: t})
		}
		all = append(all, question{fmt.Sprintf("partitions %d of %v from %v", limit, topics, cursor), r, 0, false})
	}
	at := func(t string, p int32) *protocol.DescribeTopicPartitionsRequestCursor {
		return &protocol.DescribeTopicPartitionsRequestCursor{TopicName: t, PartitionIndex: p}
	}
	ask(2, nil, "orders", "nope", "no pe", "orders")
	ask(2, at("orders", 2), "orders", "zz", "a")
	ask(3, nil, "orders", "zz")
	ask(3, nil, "orders", "zz", "__consumer_offsets")
	ask(0, at("orders", 9), "orders")
	ask(0, at("x", 1), "orders")
	ask(0, at("orders", -1), "orders")
	ask(0, at("orders", -1))
	ask(1, at("b", 5))
	ask(2000, at("orders", 1))
	return all
}

func clusterQuestions() []question {
	var all []question
	for v := int16(0); v <= 2; v++ {
		for _, kind := range []int8{1, 2, 7} {
			if v == 0 && kind != 1 {
				continue
			}
			r := protocol.NewDescribeClusterRequest()
			r.EndpointType, r.IncludeClusterAuthorizedOperations, r.IncludeFencedBrokers = kind, v > 0, v == 2
			all = append(all, question{fmt.Sprint("cluster by type ", kind), r, v, false})
		}
	}
	list := func(version int16, types ...int8) {
		r := protocol.NewListConfigResourcesRequest()
		r.ResourceTypes = types
		all = append(all, question{fmt.Sprint("list resources ", types), r, version, false})
	}
	list(0)
	list(1)
	list(1, 3)
	list(1, 32, 4)
	list(1, 16, 16)
	init := func(version int16, settle bool, transactional *string, id int64, epoch int16) {
		r := protocol.NewInitProducerIdRequest()
		r.TransactionalId, r.ProducerId, r.ProducerEpoch, r.TransactionTimeoutMs = transactional, id, epoch, 1000
		all = append(all, question{fmt.Sprintf("producer id (%v, %d, %d)", transactional != nil, id, epoch), r, version, settle})
	}
	init(5, false, nil, 5, -1)
	init(5, false, nil, -1, 5)
	init(5, false, text(""), -1, -1)
	return all
}

func coordinatorQuestions() []question {
	var all []question
	for v := int16(0); v <= 6; v++ {
		for kind := int8(0); kind <= 3; kind++ {
			// Kafka has coordinators of transactions and of share groups, where we have none.
			if v == 0 && kind > 0 || kind == 1 || v == 6 && kind == 2 {
				continue
			}
			r := protocol.NewFindCoordinatorRequest()
			if r.KeyType = kind; v < 4 {
				r.Key = "grp"
			} else {
				r.CoordinatorKeys = []string{"grp", "g2"}
			}
			all = append(all, question{fmt.Sprint("find coordinator of type ", kind), r, v, false})
		}
	}
	return all
}

func describeQuestions() []question {
	var all []question
	ask := func(kind int8, name string, keys ...string) {
		for _, v := range []int16{1, 4} {
			r := protocol.NewDescribeConfigsRequest()
			r.IncludeSynonyms = v == 4
			r.Resources = []protocol.DescribeConfigsRequestDescribeConfigsResource{{ResourceType: kind, ResourceName: name, ConfigurationKeys: keys}}
			all = append(all, question{fmt.Sprintf("configs of %d %q %v", kind, name, keys), r, v, false})
		}
	}
	ask(2, "orders")
	ask(2, "orders", "retention.ms", "nope", "segment.ms")
	ask(2, "__consumer_offsets", "cleanup.policy", "segment.bytes", "compression.type")
	ask(2, "a b")
	ask(2, "nope")
	ask(2, "")
	ask(4, "1")
	ask(4, "1", "log.retention.ms", "log.roll.hours", "log.dirs")
	ask(4, "")
	ask(4, "99")
	ask(4, "abc")
	ask(32, "g")
	ask(32, "")
	ask(32, "other", "consumer.session.timeout.ms")
	ask(16, "m")
	ask(16, "other")
	ask(16, "")
	ask(8, "")
	ask(8, "99")
	ask(8, "abc")
	ask(3, "orders")
	ask(77, "orders")
	return all
}

func alterQuestions() []question {
	var all []question
	ask := func(what string, resources ...alterResource) {
		r := protocol.NewIncrementalAlterConfigsRequest()
		r.Resources, r.ValidateOnly = resources, true
		all = append(all, question{"alter " + what, r, 1, false})
	}
	set := func(kind int8, resource, name, value string) alterResource {
		return alterResource{ResourceType: kind, ResourceName: resource, Configs: []alterConfig{{Name: name, Value: &value}}}
	}
	op := func(kind int8, resource, name string, op int8, value *string) alterResource {
		return alterResource{ResourceType: kind, ResourceName: resource, Configs: []alterConfig{{Name: name, ConfigOperation: op, Value: value}}}
	}
	ask("another broker", set(4, "99", "num.io.threads", "5"))
	ask("a broker without number", set(4, "abc", "num.io.threads", "5"))
	ask("what is fixed", set(4, "1", "log.dirs", "5"))
	ask("what is fixed, for all", set(4, "", "log.dirs", "5"))
	ask("no number", set(4, "1", "log.retention.ms", "abc"))
	ask("too small", set(4, "1", "num.io.threads", "0"))
	ask("unknown", set(4, "1", "unknown.thing", "0"))
	ask("delete unknown", op(4, "1", "unknown.thing", opDelete, nil))
	ask("append to unknown", op(4, "1", "unknown.thing", opAppend, text("a")))
	ask("append to a number", op(4, "1", "num.io.threads", opAppend, text("1")))
	ask("subtract from a number", op(4, "1", "num.io.threads", opSubtract, text("1")))
	ask("unknown operation", op(4, "1", "num.io.threads", 9, text("1")))
	ask("null", op(4, "1", "num.io.threads", opSet, nil))
	ask("a key twice", alterResource{ResourceType: 4, ResourceName: "1", Configs: []alterConfig{{Name: "num.io.threads", Value: text("8")}, {Name: "num.io.threads", Value: text("9")}}})
	ask("a resource twice", set(4, "1", "num.io.threads", "8"), alterResource{ResourceType: 4, ResourceName: "1"})
	ask("append", op(4, "1", "log.cleanup.policy", opAppend, text("compact")))
	ask("append what cannot be", op(4, "1", "log.cleanup.policy", opAppend, text("bad")))
	ask("one listener for all brokers", set(4, "", "listener.name.ext.ssl.keystore.type", "JKS"))
	ask("all listeners of a broker", set(4, "1", "ssl.keystore.type", "JKS"))
	ask("two, one fixed", alterResource{ResourceType: 4, ResourceName: "1", Configs: []alterConfig{{Name: "log.segment.bytes", Value: text("5")}, {Name: "log.dirs", Value: text("5")}}})
	ask("the minimum in sync of one broker", set(4, "1", "min.insync.replicas", "1"))
	ask("the minimum in sync to 0", set(4, "", "min.insync.replicas", "0"))
	ask("an unknown logger", set(8, "1", "no.such.logger", "DEBUG"))
	ask("another broker's logger", set(8, "99", "kafka", "DEBUG"))
	ask("an unknown type", alterResource{ResourceType: 3, ResourceName: "x"})
	ask("an impossible type", alterResource{ResourceType: 77, ResourceName: "x"})
	ask("several", set(2, "orders", "retention.ms", "x"), alterResource{ResourceType: 4, ResourceName: "99"}, set(2, "orders2", "retention.ms", "5"))
	legacy := protocol.NewAlterConfigsRequest()
	legacy.ValidateOnly = true
	legacySet := func(kind int8, resource, name, value string) protocol.AlterConfigsRequestAlterConfigsResource {
		return protocol.AlterConfigsRequestAlterConfigsResource{ResourceType: kind, ResourceName: resource, Configs: []protocol.AlterConfigsRequestAlterableConfig{{Name: name, Value: &value}}}
	}
	legacy.Resources = []protocol.AlterConfigsRequestAlterConfigsResource{
		legacySet(4, "99", "num.io.threads", "5"), legacySet(8, "1", "root", "DEBUG"), legacySet(2, "orders", "retention.ms", "5000"), legacySet(4, "1", "log.dirs", "5000"),
	}
	return append(all, question{"alter the older way", legacy, 2, false})
}
