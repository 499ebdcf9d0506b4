package server

import (
	"github.com/ottla-io/ottla/internal/broker"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
)

// Kind is the kind of a listener: who is behind it.
type Kind int8

// The kinds of listeners.
const (
	OnBroker Kind = iota
	OnController
)

// row is an API on a kind of listener: the versions that are served, and the handler.
type row struct {
	key, min, max int16
	kind          Kind
	handler       handler
}

// apis is the table. ApiVersions answers from it; the versions are those of Apache Kafka 4.4.0.
var apis = []row{
	{protocol.KeyProduce, 3, 13, OnBroker, typedPooled((*broker.Broker).Produce)},                                    // broker/handle_produce.go
	{protocol.KeyFetch, 4, 18, OnBroker, fetch((*broker.Broker).Fetch)},                                              // broker/handle_fetch.go
	{protocol.KeyListOffsets, 1, 11, OnBroker, typed((*broker.Broker).ListOffsets)},                                  // broker/handle_list_offsets.go
	{protocol.KeyMetadata, 0, 13, OnBroker, typed((*broker.Broker).Metadata)},                                        // broker/handle_metadata.go
	{protocol.KeyOffsetCommit, 2, 10, OnBroker, typed((*group.Service).OffsetCommit)},                                // coordinator/group/handle_offset_commit.go
	{protocol.KeyOffsetFetch, 1, 10, OnBroker, typed((*group.Service).OffsetFetch)},                                  // coordinator/group/handle_offset_fetch.go
	{protocol.KeyFindCoordinator, 0, 6, OnBroker, typed((*broker.Broker).FindCoordinator)},                           // broker/handle_find_coordinator.go
	{protocol.KeyJoinGroup, 0, 9, OnBroker, typed((*group.Service).JoinGroup)},                                       // coordinator/group/handle_join_group.go
	{protocol.KeyHeartbeat, 0, 4, OnBroker, typed((*group.Service).Heartbeat)},                                       // coordinator/group/handle_heartbeat.go
	{protocol.KeyLeaveGroup, 0, 5, OnBroker, typed((*group.Service).LeaveGroup)},                                     // coordinator/group/handle_leave_group.go
	{protocol.KeySyncGroup, 0, 5, OnBroker, typed((*group.Service).SyncGroup)},                                       // coordinator/group/handle_sync_group.go
	{protocol.KeyDescribeGroups, 0, 6, OnBroker, typed((*group.Service).DescribeGroups)},                             // coordinator/group/handle_groups.go
	{protocol.KeyListGroups, 0, 5, OnBroker, typed((*group.Service).ListGroups)},                                     // coordinator/group/handle_groups.go
	{protocol.KeySaslHandshake, 0, 1, OnBroker, typed((*sasl).Handshake)},                                            // server/sasl.go
	{protocol.KeyApiVersions, 0, 5, OnBroker, typed((*versions).answer)},                                             // server/api_versions.go
	{protocol.KeyCreateTopics, 2, 7, OnBroker, forward},                                                              // broker/forward.go, controller/handle_topics.go
	{protocol.KeyDeleteTopics, 1, 6, OnBroker, forward},                                                              // controller/handle_topics.go
	{protocol.KeyDeleteRecords, 0, 2, OnBroker, typed((*broker.Broker).DeleteRecords)},                               // broker/handle_delete_records.go
	{protocol.KeyInitProducerId, 0, 5, OnBroker, typed((*broker.Broker).InitProducerId)},                             // broker/handle_init_producer_id.go
	{protocol.KeyOffsetForLeaderEpoch, 2, 4, OnBroker, typed((*broker.Broker).OffsetForLeaderEpoch)},                 // broker/handle_offset_for_leader_epoch.go
	{protocol.KeyDescribeAcls, 1, 3, OnBroker, typed((*broker.Broker).DescribeAcls)},                                 // broker/handle_describe_acls.go
	{protocol.KeyCreateAcls, 1, 3, OnBroker, forward},                                                                // controller/handle_security.go
	{protocol.KeyDeleteAcls, 1, 3, OnBroker, forward},                                                                // controller/handle_security.go
	{protocol.KeyDescribeConfigs, 1, 4, OnBroker, typed((*broker.Configs).DescribeConfigs)},                          // broker/handle_describe_configs.go
	{protocol.KeyAlterConfigs, 0, 2, OnBroker, typed((*broker.Broker).AlterConfigs)},                                 // broker/handle_alter_configs.go
	{protocol.KeyDescribeLogDirs, 1, 5, OnBroker, typed((*broker.Broker).DescribeLogDirs)},                           // broker/handle_describe_log_dirs.go
	{protocol.KeySaslAuthenticate, 0, 2, OnBroker, typed((*sasl).Authenticate)},                                      // server/sasl.go
	{protocol.KeyCreatePartitions, 0, 3, OnBroker, forward},                                                          // controller/handle_topics.go
	{protocol.KeyCreateDelegationToken, 1, 3, OnBroker, typed((*broker.Broker).CreateDelegationToken)},               // broker/handle_delegation_tokens.go
	{protocol.KeyRenewDelegationToken, 1, 2, OnBroker, typed((*broker.Broker).RenewDelegationToken)},                 // broker/handle_delegation_tokens.go
	{protocol.KeyExpireDelegationToken, 1, 2, OnBroker, typed((*broker.Broker).ExpireDelegationToken)},               // broker/handle_delegation_tokens.go
	{protocol.KeyDescribeDelegationToken, 1, 3, OnBroker, typed((*broker.Broker).DescribeDelegationToken)},           // broker/handle_delegation_tokens.go
	{protocol.KeyDeleteGroups, 0, 3, OnBroker, typed((*group.Service).DeleteGroups)},                                 // coordinator/group/handle_groups.go
	{protocol.KeyElectLeaders, 0, 2, OnBroker, forward},                                                              // controller/handle_partitions.go
	{protocol.KeyIncrementalAlterConfigs, 0, 1, OnBroker, typed((*broker.Broker).IncrementalAlterConfigs)},           // broker/handle_alter_configs.go
	{protocol.KeyAlterPartitionReassignments, 0, 1, OnBroker, forward},                                               // controller/handle_partitions.go
	{protocol.KeyListPartitionReassignments, 0, 0, OnBroker, forward},                                                // controller/handle_partitions.go
	{protocol.KeyOffsetDelete, 0, 0, OnBroker, typed((*group.Service).OffsetDelete)},                                 // coordinator/group/handle_offset_delete.go
	{protocol.KeyDescribeClientQuotas, 0, 1, OnBroker, typed((*broker.Broker).DescribeClientQuotas)},                 // broker/handle_describe_client_quotas.go
	{protocol.KeyAlterClientQuotas, 0, 1, OnBroker, forward},                                                         // controller/handle_security.go
	{protocol.KeyDescribeUserScramCredentials, 0, 0, OnBroker, typed((*broker.Broker).DescribeUserScramCredentials)}, // broker/handle_describe_user_scram_credentials.go
	{protocol.KeyAlterUserScramCredentials, 0, 0, OnBroker, forward},                                                 // controller/handle_security.go
	{protocol.KeyDescribeQuorum, 0, 2, OnBroker, forward},                                                            // raft/describe.go
	{protocol.KeyUpdateFeatures, 0, 2, OnBroker, forward},                                                            // controller/handle_nodes.go
	{protocol.KeyDescribeCluster, 0, 2, OnBroker, typed((*broker.Broker).DescribeCluster)},                           // broker/handle_describe_cluster.go
	{protocol.KeyDescribeProducers, 0, 0, OnBroker, typed((*broker.Broker).DescribeProducers)},                       // broker/handle_describe_producers.go
	{protocol.KeyUnregisterBroker, 0, 0, OnBroker, forward},                                                          // controller/handle_nodes.go
	{protocol.KeyListConfigResources, 0, 1, OnBroker, typed((*broker.Broker).ListConfigResources)},                   // broker/handle_list_config_resources.go
	{protocol.KeyDescribeTopicPartitions, 0, 0, OnBroker, typed((*broker.Broker).DescribeTopicPartitions)},           // broker/handle_describe_topic_partitions.go
	{protocol.KeyUnregisterController, 0, 0, OnBroker, forward},                                                      // controller/handle_nodes.go
	{protocol.KeyAddRaftVoter, 0, 1, OnBroker, forward},                                                              // raft/membership.go
	{protocol.KeyRemoveRaftVoter, 0, 0, OnBroker, forward},                                                           // raft/membership.go

	{protocol.KeyFetch, 4, 18, OnController, fetch((*raft.Quorum).Fetch)},                                                      // raft/fetch.go
	{protocol.KeySaslHandshake, 0, 1, OnController, typed((*sasl).Handshake)},                                                  // server/sasl.go
	{protocol.KeyApiVersions, 0, 5, OnController, typed((*versions).answer)},                                                   // server/api_versions.go
	{protocol.KeyCreateTopics, 2, 7, OnController, typed((*controller.Controller).CreateTopics)},                               // controller/handle_topics.go
	{protocol.KeyDeleteTopics, 1, 6, OnController, typed((*controller.Controller).DeleteTopics)},                               // controller/handle_topics.go
	{protocol.KeyDescribeAcls, 1, 3, OnController, typed((*controller.Controller).DescribeAcls)},                               // controller/handle_security.go
	{protocol.KeyCreateAcls, 1, 3, OnController, typed((*controller.Controller).CreateAcls)},                                   // controller/handle_security.go
	{protocol.KeyDeleteAcls, 1, 3, OnController, typed((*controller.Controller).DeleteAcls)},                                   // controller/handle_security.go
	{protocol.KeyDescribeConfigs, 1, 4, OnController, typed((*broker.Configs).DescribeConfigs)},                                // broker/handle_describe_configs.go
	{protocol.KeyAlterConfigs, 0, 2, OnController, typed((*controller.Controller).AlterConfigs)},                               // controller/handle_configs.go
	{protocol.KeySaslAuthenticate, 0, 2, OnController, typed((*sasl).Authenticate)},                                            // server/sasl.go
	{protocol.KeyCreatePartitions, 0, 3, OnController, typed((*controller.Controller).CreatePartitions)},                       // controller/handle_topics.go
	{protocol.KeyCreateDelegationToken, 1, 3, OnController, typed((*controller.Controller).CreateDelegationToken)},             // controller/handle_security.go
	{protocol.KeyRenewDelegationToken, 1, 2, OnController, typed((*controller.Controller).RenewDelegationToken)},               // controller/handle_security.go
	{protocol.KeyExpireDelegationToken, 1, 2, OnController, typed((*controller.Controller).ExpireDelegationToken)},             // controller/handle_security.go
	{protocol.KeyElectLeaders, 0, 2, OnController, typed((*controller.Controller).ElectLeaders)},                               // controller/handle_partitions.go
	{protocol.KeyIncrementalAlterConfigs, 0, 1, OnController, typed((*controller.Controller).IncrementalAlterConfigs)},         // controller/handle_configs.go
	{protocol.KeyAlterPartitionReassignments, 0, 1, OnController, typed((*controller.Controller).AlterPartitionReassignments)}, // controller/handle_partitions.go
	{protocol.KeyListPartitionReassignments, 0, 0, OnController, typed((*controller.Controller).ListPartitionReassignments)},   // controller/handle_partitions.go
	{protocol.KeyAlterClientQuotas, 0, 1, OnController, typed((*controller.Controller).AlterClientQuotas)},                     // controller/handle_security.go
	{protocol.KeyAlterUserScramCredentials, 0, 0, OnController, typed((*controller.Controller).AlterUserScramCredentials)},     // controller/handle_security.go
	{protocol.KeyVote, 0, 2, OnController, typed((*raft.Quorum).Vote)},                                                         // raft/vote.go
	{protocol.KeyBeginQuorumEpoch, 0, 1, OnController, typed((*raft.Quorum).BeginQuorumEpoch)},                                 // raft/epoch.go
	{protocol.KeyEndQuorumEpoch, 0, 1, OnController, typed((*raft.Quorum).EndQuorumEpoch)},                                     // raft/epoch.go
	{protocol.KeyDescribeQuorum, 0, 2, OnController, typed((*raft.Quorum).DescribeQuorum)},                                     // raft/describe.go
	{protocol.KeyAlterPartition, 2, 3, OnController, typed((*controller.Controller).AlterPartition)},                           // controller/handle_partitions.go
	{protocol.KeyUpdateFeatures, 0, 2, OnController, typed((*controller.Controller).UpdateFeatures)},                           // controller/handle_nodes.go
	{protocol.KeyEnvelope, 0, 0, OnController, typed((*envelopes).Open)},                                                       // server/envelope.go
	{protocol.KeyFetchSnapshot, 0, 1, OnController, typed((*raft.Quorum).FetchSnapshot)},                                       // raft/fetch_snapshot.go
	{protocol.KeyDescribeCluster, 0, 2, OnController, typed((*controller.Controller).DescribeCluster)},                         // controller/handle_nodes.go
	{protocol.KeyBrokerRegistration, 0, 4, OnController, typed((*controller.Controller).BrokerRegistration)},                   // controller/handle_nodes.go
	{protocol.KeyBrokerHeartbeat, 0, 2, OnController, typed((*controller.Controller).BrokerHeartbeat)},                         // controller/handle_nodes.go
	{protocol.KeyUnregisterBroker, 0, 0, OnController, typed((*controller.Controller).UnregisterBroker)},                       // controller/handle_nodes.go
	{protocol.KeyAllocateProducerIds, 0, 0, OnController, typed((*controller.Controller).AllocateProducerIds)},                 // controller/handle_nodes.go
	{protocol.KeyControllerRegistration, 0, 0, OnController, typed((*controller.Controller).ControllerRegistration)},           // controller/handle_nodes.go
	{protocol.KeyAssignReplicasToDirs, 0, 0, OnController, typed((*controller.Controller).AssignReplicasToDirs)},               // controller/handle_partitions.go
	{protocol.KeyUnregisterController, 0, 0, OnController, typed((*controller.Controller).UnregisterController)},               // controller/handle_nodes.go
	{protocol.KeyAddRaftVoter, 0, 1, OnController, typed((*raft.Quorum).AddRaftVoter)},                                         // raft/membership.go
	{protocol.KeyRemoveRaftVoter, 0, 0, OnController, typed((*raft.Quorum).RemoveRaftVoter)},                                   // raft/membership.go
	{protocol.KeyUpdateRaftVoter, 0, 0, OnController, typed((*raft.Quorum).UpdateRaftVoter)},                                   // raft/voter_update.go
}

// forward hands a request to the active controller.
var forward = generic((*broker.Broker).Forward)

// Targets are what the handlers of a node are methods of. Those of roles that it does not have are nil.
type Targets struct {
	Broker     *broker.Broker
	Groups     *group.Service
	Controller *controller.Controller
	Quorum     *raft.Quorum
	Configs    *broker.Configs

	versions  *versions
	sasl      *sasl
	envelopes *envelopes // nil without a controller
}

// targetOf finds the target of a type; false if the node has none.
func targetOf[T any](t *Targets) (T, bool) {
	var none T
	for _, v := range []any{t.Broker, t.Groups, t.Controller, t.Quorum, t.Configs, t.versions, t.sasl, t.envelopes} {
		if target, ok := v.(T); ok {
			return target, any(target) != any(none)
		}
	}
	return none, false
}

// bind makes the table of a kind of listener, by key.
func bind(t *Targets, kind Kind) map[int16]*api {
	out := map[int16]*api{}
	for _, r := range apis {
		if r.kind != kind {
			continue
		}
		if makeCall := r.handler.bind(t); makeCall != nil {
			out[r.key] = &api{key: r.key, min: r.min, max: r.max, name: protocol.Lookup(r.key).Name, make: makeCall}
		}
	}
	return out
}
