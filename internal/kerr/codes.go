package kerr

// The error codes of Kafka 4.4.
var (
	UnknownServerError                     = &Error{-1, "UNKNOWN_SERVER_ERROR", false}
	OffsetOutOfRange                       = &Error{1, "OFFSET_OUT_OF_RANGE", false}
	CorruptMessage                         = &Error{2, "CORRUPT_MESSAGE", true}
	UnknownTopicOrPartition                = &Error{3, "UNKNOWN_TOPIC_OR_PARTITION", true}
	InvalidFetchSize                       = &Error{4, "INVALID_FETCH_SIZE", false}
	LeaderNotAvailable                     = &Error{5, "LEADER_NOT_AVAILABLE", true}
	NotLeaderOrFollower                    = &Error{6, "NOT_LEADER_OR_FOLLOWER", true}
	RequestTimedOut                        = &Error{7, "REQUEST_TIMED_OUT", true}
	BrokerNotAvailable                     = &Error{8, "BROKER_NOT_AVAILABLE", false}
	ReplicaNotAvailable                    = &Error{9, "REPLICA_NOT_AVAILABLE", true}
	MessageTooLarge                        = &Error{10, "MESSAGE_TOO_LARGE", false}
	StaleControllerEpoch                   = &Error{11, "STALE_CONTROLLER_EPOCH", false}
	OffsetMetadataTooLarge                 = &Error{12, "OFFSET_METADATA_TOO_LARGE", false}
	NetworkException                       = &Error{13, "NETWORK_EXCEPTION", true}
	CoordinatorLoadInProgress              = &Error{14, "COORDINATOR_LOAD_IN_PROGRESS", true}
	CoordinatorNotAvailable                = &Error{15, "COORDINATOR_NOT_AVAILABLE", true}
	NotCoordinator                         = &Error{16, "NOT_COORDINATOR", true}
	InvalidTopicException                  = &Error{17, "INVALID_TOPIC_EXCEPTION", false}
	RecordListTooLarge                     = &Error{18, "RECORD_LIST_TOO_LARGE", false}
	NotEnoughReplicas                      = &Error{19, "NOT_ENOUGH_REPLICAS", true}
	NotEnoughReplicasAfterAppend           = &Error{20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", true}
	InvalidRequiredAcks                    = &Error{21, "INVALID_REQUIRED_ACKS", false}
	IllegalGeneration                      = &Error{22, "ILLEGAL_GENERATION", false}
	InconsistentGroupProtocol              = &Error{23, "INCONSISTENT_GROUP_PROTOCOL", false}
	InvalidGroupId                         = &Error{24, "INVALID_GROUP_ID", false}
	UnknownMemberId                        = &Error{25, "UNKNOWN_MEMBER_ID", false}
	InvalidSessionTimeout                  = &Error{26, "INVALID_SESSION_TIMEOUT", false}
	RebalanceInProgress                    = &Error{27, "REBALANCE_IN_PROGRESS", false}
	InvalidCommitOffsetSize                = &Error{28, "INVALID_COMMIT_OFFSET_SIZE", false}
	TopicAuthorizationFailed               = &Error{29, "TOPIC_AUTHORIZATION_FAILED", false}
	GroupAuthorizationFailed               = &Error{30, "GROUP_AUTHORIZATION_FAILED", false}
	ClusterAuthorizationFailed             = &Error{31, "CLUSTER_AUTHORIZATION_FAILED", false}
	InvalidTimestamp                       = &Error{32, "INVALID_TIMESTAMP", false}
	UnsupportedSaslMechanism               = &Error{33, "UNSUPPORTED_SASL_MECHANISM", false}
	IllegalSaslState                       = &Error{34, "ILLEGAL_SASL_STATE", false}
	UnsupportedVersion                     = &Error{35, "UNSUPPORTED_VERSION", false}
	TopicAlreadyExists                     = &Error{36, "TOPIC_ALREADY_EXISTS", false}
	InvalidPartitions                      = &Error{37, "INVALID_PARTITIONS", false}
	InvalidReplicationFactor               = &Error{38, "INVALID_REPLICATION_FACTOR", false}
	InvalidReplicaAssignment               = &Error{39, "INVALID_REPLICA_ASSIGNMENT", false}
	InvalidConfig                          = &Error{40, "INVALID_CONFIG", false}
	NotController                          = &Error{41, "NOT_CONTROLLER", true}
	InvalidRequest                         = &Error{42, "INVALID_REQUEST", false}
	UnsupportedForMessageFormat            = &Error{43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", false}
	PolicyViolation                        = &Error{44, "POLICY_VIOLATION", false}
	OutOfOrderSequenceNumber               = &Error{45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false}
	DuplicateSequenceNumber                = &Error{46, "DUPLICATE_SEQUENCE_NUMBER", false}
	InvalidProducerEpoch                   = &Error{47, "INVALID_PRODUCER_EPOCH", false}
	InvalidTxnState                        = &Error{48, "INVALID_TXN_STATE", false}
	InvalidProducerIdMapping               = &Error{49, "INVALID_PRODUCER_ID_MAPPING", false}
	InvalidTransactionTimeout              = &Error{50, "INVALID_TRANSACTION_TIMEOUT", false}
	ConcurrentTransactions                 = &Error{51, "CONCURRENT_TRANSACTIONS", true}
	TransactionCoordinatorFenced           = &Error{52, "TRANSACTION_COORDINATOR_FENCED", false}
	TransactionalIdAuthorizationFailed     = &Error{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false}
	SecurityDisabled                       = &Error{54, "SECURITY_DISABLED", false}
	OperationNotAttempted                  = &Error{55, "OPERATION_NOT_ATTEMPTED", false}
	KafkaStorageError                      = &Error{56, "KAFKA_STORAGE_ERROR", true}
	LogDirNotFound                         = &Error{57, "LOG_DIR_NOT_FOUND", false}
	SaslAuthenticationFailed               = &Error{58, "SASL_AUTHENTICATION_FAILED", false}
	UnknownProducerId                      = &Error{59, "UNKNOWN_PRODUCER_ID", false}
	ReassignmentInProgress                 = &Error{60, "REASSIGNMENT_IN_PROGRESS", false}
	DelegationTokenAuthDisabled            = &Error{61, "DELEGATION_TOKEN_AUTH_DISABLED", false}
	DelegationTokenNotFound                = &Error{62, "DELEGATION_TOKEN_NOT_FOUND", false}
	DelegationTokenOwnerMismatch           = &Error{63, "DELEGATION_TOKEN_OWNER_MISMATCH", false}
	DelegationTokenRequestNotAllowed       = &Error{64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", false}
	DelegationTokenAuthorizationFailed     = &Error{65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", false}
	DelegationTokenExpired                 = &Error{66, "DELEGATION_TOKEN_EXPIRED", false}
	InvalidPrincipalType                   = &Error{67, "INVALID_PRINCIPAL_TYPE", false}
	NonEmptyGroup                          = &Error{68, "NON_EMPTY_GROUP", false}
	GroupIdNotFound                        = &Error{69, "GROUP_ID_NOT_FOUND", false}
	FetchSessionIdNotFound                 = &Error{70, "FETCH_SESSION_ID_NOT_FOUND", true}
	InvalidFetchSessionEpoch               = &Error{71, "INVALID_FETCH_SESSION_EPOCH", true}
	ListenerNotFound                       = &Error{72, "LISTENER_NOT_FOUND", true}
	TopicDeletionDisabled                  = &Error{73, "TOPIC_DELETION_DISABLED", false}
	FencedLeaderEpoch                      = &Error{74, "FENCED_LEADER_EPOCH", true}
	UnknownLeaderEpoch                     = &Error{75, "UNKNOWN_LEADER_EPOCH", true}
	UnsupportedCompressionType             = &Error{76, "UNSUPPORTED_COMPRESSION_TYPE", false}
	StaleBrokerEpoch                       = &Error{77, "STALE_BROKER_EPOCH", false}
	OffsetNotAvailable                     = &Error{78, "OFFSET_NOT_AVAILABLE", true}
	MemberIdRequired                       = &Error{79, "MEMBER_ID_REQUIRED", false}
	PreferredLeaderNotAvailable            = &Error{80, "PREFERRED_LEADER_NOT_AVAILABLE", true}
	GroupMaxSizeReached                    = &Error{81, "GROUP_MAX_SIZE_REACHED", false}
	FencedInstanceId                       = &Error{82, "FENCED_INSTANCE_ID", false}
	EligibleLeadersNotAvailable            = &Error{83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", true}
	ElectionNotNeeded                      = &Error{84, "ELECTION_NOT_NEEDED", true}
	NoReassignmentInProgress               = &Error{85, "NO_REASSIGNMENT_IN_PROGRESS", false}
	GroupSubscribedToTopic                 = &Error{86, "GROUP_SUBSCRIBED_TO_TOPIC", false}
	InvalidRecord                          = &Error{87, "INVALID_RECORD", false}
	UnstableOffsetCommit                   = &Error{88, "UNSTABLE_OFFSET_COMMIT", true}
	ThrottlingQuotaExceeded                = &Error{89, "THROTTLING_QUOTA_EXCEEDED", true}
	ProducerFenced                         = &Error{90, "PRODUCER_FENCED", false}
	ResourceNotFound                       = &Error{91, "RESOURCE_NOT_FOUND", false}
	DuplicateResource                      = &Error{92, "DUPLICATE_RESOURCE", false}
	UnacceptableCredential                 = &Error{93, "UNACCEPTABLE_CREDENTIAL", false}
	InconsistentVoterSet                   = &Error{94, "INCONSISTENT_VOTER_SET", false}
	InvalidUpdateVersion                   = &Error{95, "INVALID_UPDATE_VERSION", false}
	FeatureUpdateFailed                    = &Error{96, "FEATURE_UPDATE_FAILED", false}
	PrincipalDeserializationFailure        = &Error{97, "PRINCIPAL_DESERIALIZATION_FAILURE", false}
	SnapshotNotFound                       = &Error{98, "SNAPSHOT_NOT_FOUND", false}
	PositionOutOfRange                     = &Error{99, "POSITION_OUT_OF_RANGE", false}
	UnknownTopicId                         = &Error{100, "UNKNOWN_TOPIC_ID", true}
	DuplicateBrokerRegistration            = &Error{101, "DUPLICATE_BROKER_REGISTRATION", false}
	BrokerIdNotRegistered                  = &Error{102, "BROKER_ID_NOT_REGISTERED", false}
	InconsistentTopicId                    = &Error{103, "INCONSISTENT_TOPIC_ID", true}
	InconsistentClusterId                  = &Error{104, "INCONSISTENT_CLUSTER_ID", false}
	TransactionalIdNotFound                = &Error{105, "TRANSACTIONAL_ID_NOT_FOUND", false}
	FetchSessionTopicIdError               = &Error{106, "FETCH_SESSION_TOPIC_ID_ERROR", true}
	IneligibleReplica                      = &Error{107, "INELIGIBLE_REPLICA", false}
	NewLeaderElected                       = &Error{108, "NEW_LEADER_ELECTED", false}
	OffsetMovedToTieredStorage             = &Error{109, "OFFSET_MOVED_TO_TIERED_STORAGE", false}
	FencedMemberEpoch                      = &Error{110, "FENCED_MEMBER_EPOCH", false}
	UnreleasedInstanceId                   = &Error{111, "UNRELEASED_INSTANCE_ID", false}
	UnsupportedAssignor                    = &Error{112, "UNSUPPORTED_ASSIGNOR", false}
	StaleMemberEpoch                       = &Error{113, "STALE_MEMBER_EPOCH", false}
	MismatchedEndpointType                 = &Error{114, "MISMATCHED_ENDPOINT_TYPE", false}
	UnsupportedEndpointType                = &Error{115, "UNSUPPORTED_ENDPOINT_TYPE", false}
	UnknownControllerId                    = &Error{116, "UNKNOWN_CONTROLLER_ID", false}
	UnknownSubscriptionId                  = &Error{117, "UNKNOWN_SUBSCRIPTION_ID", false}
	TelemetryTooLarge                      = &Error{118, "TELEMETRY_TOO_LARGE", false}
	InvalidRegistration                    = &Error{119, "INVALID_REGISTRATION", false}
	TransactionAbortable                   = &Error{120, "TRANSACTION_ABORTABLE", false}
	InvalidRecordState                     = &Error{121, "INVALID_RECORD_STATE", false}
	ShareSessionNotFound                   = &Error{122, "SHARE_SESSION_NOT_FOUND", true}
	InvalidShareSessionEpoch               = &Error{123, "INVALID_SHARE_SESSION_EPOCH", true}
	FencedStateEpoch                       = &Error{124, "FENCED_STATE_EPOCH", false}
	InvalidVoterKey                        = &Error{125, "INVALID_VOTER_KEY", false}
	DuplicateVoter                         = &Error{126, "DUPLICATE_VOTER", false}
	VoterNotFound                          = &Error{127, "VOTER_NOT_FOUND", false}
	InvalidRegularExpression               = &Error{128, "INVALID_REGULAR_EXPRESSION", false}
	RebootstrapRequired                    = &Error{129, "REBOOTSTRAP_REQUIRED", false}
	StreamsInvalidTopology                 = &Error{130, "STREAMS_INVALID_TOPOLOGY", false}
	StreamsInvalidTopologyEpoch            = &Error{131, "STREAMS_INVALID_TOPOLOGY_EPOCH", false}
	StreamsTopologyFenced                  = &Error{132, "STREAMS_TOPOLOGY_FENCED", false}
	ShareSessionLimitReached               = &Error{133, "SHARE_SESSION_LIMIT_REACHED", true}
	GroupDeletionFailed                    = &Error{134, "GROUP_DELETION_FAILED", false}
	StreamsTopologyDescriptionUpdateFailed = &Error{135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", false}
	ControllerIdNotRegistered              = &Error{136, "CONTROLLER_ID_NOT_REGISTERED", false}
)

// table holds the errors by code, from code 1 on.
var table = [...]*Error{
	OffsetOutOfRange,
	CorruptMessage,
	UnknownTopicOrPartition,
	InvalidFetchSize,
	LeaderNotAvailable,
	NotLeaderOrFollower,
	RequestTimedOut,
	BrokerNotAvailable,
	ReplicaNotAvailable,
	MessageTooLarge,
	StaleControllerEpoch,
	OffsetMetadataTooLarge,
	NetworkException,
	CoordinatorLoadInProgress,
	CoordinatorNotAvailable,
	NotCoordinator,
	InvalidTopicException,
	RecordListTooLarge,
	NotEnoughReplicas,
	NotEnoughReplicasAfterAppend,
	InvalidRequiredAcks,
	IllegalGeneration,
	InconsistentGroupProtocol,
	InvalidGroupId,
	UnknownMemberId,
	InvalidSessionTimeout,
	RebalanceInProgress,
	InvalidCommitOffsetSize,
	TopicAuthorizationFailed,
	GroupAuthorizationFailed,
	ClusterAuthorizationFailed,
	InvalidTimestamp,
	UnsupportedSaslMechanism,
	IllegalSaslState,
	UnsupportedVersion,
	TopicAlreadyExists,
	InvalidPartitions,
	InvalidReplicationFactor,
	InvalidReplicaAssignment,
	InvalidConfig,
	NotController,
	InvalidRequest,
	UnsupportedForMessageFormat,
	PolicyViolation,
	OutOfOrderSequenceNumber,
	DuplicateSequenceNumber,
	InvalidProducerEpoch,
	InvalidTxnState,
	InvalidProducerIdMapping,
	InvalidTransactionTimeout,
	ConcurrentTransactions,
	TransactionCoordinatorFenced,
	TransactionalIdAuthorizationFailed,
	SecurityDisabled,
	OperationNotAttempted,
	KafkaStorageError,
	LogDirNotFound,
	SaslAuthenticationFailed,
	UnknownProducerId,
	ReassignmentInProgress,
	DelegationTokenAuthDisabled,
	DelegationTokenNotFound,
	DelegationTokenOwnerMismatch,
	DelegationTokenRequestNotAllowed,
	DelegationTokenAuthorizationFailed,
	DelegationTokenExpired,
	InvalidPrincipalType,
	NonEmptyGroup,
	GroupIdNotFound,
	FetchSessionIdNotFound,
	InvalidFetchSessionEpoch,
	ListenerNotFound,
	TopicDeletionDisabled,
	FencedLeaderEpoch,
	UnknownLeaderEpoch,
	UnsupportedCompressionType,
	StaleBrokerEpoch,
	OffsetNotAvailable,
	MemberIdRequired,
	PreferredLeaderNotAvailable,
	GroupMaxSizeReached,
	FencedInstanceId,
	EligibleLeadersNotAvailable,
	ElectionNotNeeded,
	NoReassignmentInProgress,
	GroupSubscribedToTopic,
	InvalidRecord,
	UnstableOffsetCommit,
	ThrottlingQuotaExceeded,
	ProducerFenced,
	ResourceNotFound,
	DuplicateResource,
	UnacceptableCredential,
	InconsistentVoterSet,
	InvalidUpdateVersion,
	FeatureUpdateFailed,
	PrincipalDeserializationFailure,
	SnapshotNotFound,
	PositionOutOfRange,
	UnknownTopicId,
	DuplicateBrokerRegistration,
	BrokerIdNotRegistered,
	InconsistentTopicId,
	InconsistentClusterId,
	TransactionalIdNotFound,
	FetchSessionTopicIdError,
	IneligibleReplica,
	NewLeaderElected,
	OffsetMovedToTieredStorage,
	FencedMemberEpoch,
	UnreleasedInstanceId,
	UnsupportedAssignor,
	StaleMemberEpoch,
	MismatchedEndpointType,
	UnsupportedEndpointType,
	UnknownControllerId,
	UnknownSubscriptionId,
	TelemetryTooLarge,
	InvalidRegistration,
	TransactionAbortable,
	InvalidRecordState,
	ShareSessionNotFound,
	InvalidShareSessionEpoch,
	FencedStateEpoch,
	InvalidVoterKey,
	DuplicateVoter,
	VoterNotFound,
	InvalidRegularExpression,
	RebootstrapRequired,
	StreamsInvalidTopology,
	StreamsInvalidTopologyEpoch,
	StreamsTopologyFenced,
	ShareSessionLimitReached,
	GroupDeletionFailed,
	StreamsTopologyDescriptionUpdateFailed,
	ControllerIdNotRegistered,
}
