package broker

import (
	"slices"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// What a principal may do where nobody is denied anything: bit n stands for operation n.
const (
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
)

// Metadata is key 3, versions 0–13. v1: null for all topics (v0: an empty list), controller, racks. v4: whether to create topics. v5: offline
// replicas. v7: leader epochs. v8: authorized operations (KIP-430), those of the cluster to v10. v10: topic ids (KIP-516), v12: topics by
// id. v13: an error of the whole answer. Path: one image → topics → brokers that have the listener the request came in on.
// Errors of a topic: 3 unknown, or being created; 17 illegal name; 100 unknown id. Of a partition: 5 no leader, 72 (v6+, else 5) the
// leader lacks the listener, 9 (v0) a replica does. Of the request: 42 without name or with an id before v12, -1 with neither from then on.
func (b *Broker) Metadata(ctx *rpc.Context, req *protocol.MetadataRequest, respond func(*protocol.MetadataResponse)) {
	resp := protocol.NewMetadataResponse()
	all := req.Topics == nil || ctx.APIVersion == 0 && len(req.Topics) == 0
	if !all && ctx.APIVersion < 12 {
		for _, t := range req.Topics {
			if t.Name == nil || !t.TopicId.IsZero() {
				respond(invalidMetadata(req, kerr.InvalidRequest))
				return
			}
		}
	}
	if slices.ContainsFunc(req.Topics, func(t protocol.MetadataRequestTopic) bool { return t.Name == nil && t.TopicId.IsZero() }) {
		respond(invalidMetadata(req, kerr.UnknownServerError)) // Kafka stumbles over it
		return
	}
	img := b.Image()
	v := &topicView{img: img, listener: ctx.Listener, version: ctx.APIVersion}
	switch {
	case all:
		for t := range img.Topics.All() {
			resp.Topics = append(resp.Topics, v.topic(t))
		}
	default:
		b.metadataTopics(ctx, req, v, resp)
	}
	if ctx.APIVersion >= 8 && req.IncludeTopicAuthorizedOperations {
		for i := range resp.Topics {
			resp.Topics[i].TopicAuthorizedOperations = topicOperations
		}
	}
	if ctx.APIVersion >= 8 && ctx.APIVersion <= 10 && req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for _, n := range aliveNodes(img, ctx.Listener) {
		resp.Brokers = append(resp.Brokers, protocol.MetadataResponseBroker{NodeId: n.id, Host: n.host, Port: n.port, Rack: n.rack})
	}
	resp.ClusterId = &b.clusterID
	resp.ControllerId = b.someBroker(img)
	respond(resp)
}

// metadataTopics answers for the topics that a request names: by id if any id is given, else by name.
func (b *Broker) metadataTopics(ctx *rpc.Context, req *protocol.MetadataRequest, v *topicView, resp *protocol.MetadataResponse) {
	if slices.ContainsFunc(req.Topics, func(t protocol.MetadataRequestTopic) bool { return !t.TopicId.IsZero() }) {
		seen := map[uuid.UUID]bool{uuid.Zero: true}
		for _, t := range req.Topics {
			if seen[t.TopicId] {
				continue
			}
			seen[t.TopicId] = true
			if topic := v.img.Topics.ByID(t.TopicId); topic != nil {
				resp.Topics = append(resp.Topics, v.topic(topic))
				continue
			}
			unknown := protocol.NewMetadataResponseTopic()
			unknown.ErrorCode, unknown.TopicId, unknown.Name = kerr.UnknownTopicId.Code, t.TopicId, nil
			resp.Topics = append(resp.Topics, unknown)
		}
		return
	}
	create := b.cfg.Bool("auto.create.topics.enable") && (req.AllowAutoTopicCreation || ctx.APIVersion < 4)
	var missing []string
	seen := map[string]bool{}
	for _, t := range req.Topics {
		if t.Name == nil || seen[*t.Name] {
			continue
		}
		name := *t.Name
		seen[name] = true
		if topic := v.img.Topics.ByName(name); topic != nil {
			resp.Topics = append(resp.Topics, v.topic(topic))
			continue
		}
		unknown := protocol.NewMetadataResponseTopic()
		unknown.Name, unknown.IsInternal = &name, internalTopic(name)
		if legalTopicName(name) {
			unknown.ErrorCode = kerr.UnknownTopicOrPartition.Code
			missing = append(missing, name)
		} else {
			unknown.ErrorCode = kerr.InvalidTopicException.Code
		}
		resp.Topics = append(resp.Topics, unknown)
	}
	if create && len(missing) > 0 {
		b.createTopics(ctx, missing...)
	}
}

// invalidMetadata refuses a request as a whole.
func invalidMetadata(req *protocol.MetadataRequest, e *kerr.Error) *protocol.MetadataResponse {
	resp := protocol.NewMetadataResponse()
	resp.ErrorCode = e.Code
	for _, t := range req.Topics {
		r := protocol.NewMetadataResponseTopic()
		// In most of the versions concerned a name cannot be null in the answer.
		empty := ""
		if r.Name = t.Name; r.Name == nil {
			r.Name = &empty
		}
		r.TopicId, r.ErrorCode = t.TopicId, e.Code
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

// node is a broker as clients of one listener reach it.
type node struct {
	id     int32
	host   string
	port   int32
	rack   *string
	fenced bool
}

// aliveNodes are the brokers that are not fenced and have a listener, sorted by id.
func aliveNodes(img *image.Image, listener string) []node {
	var nodes []node
	for broker := range img.Cluster.Brokers() {
		if n, ok := reachable(broker, listener); ok && !n.fenced {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func reachable(broker *image.Broker, listener string) (node, bool) {
	if broker == nil {
		return node{}, false
	}
	e, ok := broker.Endpoint(listener)
	return node{broker.ID, e.Host, int32(e.Port), broker.Rack, broker.Fenced}, ok
}

// someBroker is what clients are told for the controller, who is not theirs to talk to: any broker forwards what is for it. -1 if there
// is no unfenced broker.
func (b *Broker) someBroker(img *image.Image) int32 {
	var ids []int32
	for broker := range img.Cluster.Brokers() {
		if !broker.Fenced {
			ids = append(ids, broker.ID)
		}
	}
	if len(ids) == 0 {
		return -1
	}
	return ids[b.env.Rand().IntN(len(ids))]
}

// topicView shows topics of an image as clients of one listener, with one version of Metadata, see them.
type topicView struct {
	img      *image.Image
	listener string
	version  int16
}

func (v *topicView) topic(t *image.Topic) protocol.MetadataResponseTopic {
	r := protocol.NewMetadataResponseTopic()
	r.Name, r.TopicId, r.IsInternal = &t.Name, t.ID, internalTopic(t.Name)
	r.Partitions = make([]protocol.MetadataResponsePartition, len(t.Partitions))
	for id, p := range t.Partitions {
		v.partition(&r.Partitions[id], int32(id), p)
	}
	return r
}

func (v *topicView) partition(r *protocol.MetadataResponsePartition, id int32, p *image.Partition) {
	r.SetDefaults()
	r.PartitionIndex, r.LeaderEpoch = id, p.LeaderEpoch
	r.ReplicaNodes, r.IsrNodes = p.Replicas, p.ISR
	if v.version == 0 {
		// The oldest clients cannot live with a replica that is not among the brokers.
		r.ReplicaNodes, r.IsrNodes = v.online(p.Replicas), v.online(p.ISR)
	}
	r.OfflineReplicas = v.offline(p)
	leader := v.img.Cluster.Broker(p.Leader)
	_, ok := reachable(leader, v.listener)
	switch {
	case !ok && leader != nil && v.version >= 6:
		r.LeaderId, r.ErrorCode = image.NoLeader, kerr.ListenerNotFound.Code
	case !ok:
		r.LeaderId, r.ErrorCode = image.NoLeader, kerr.LeaderNotAvailable.Code
	case len(r.ReplicaNodes) < len(p.Replicas) || len(r.IsrNodes) < len(p.ISR):
		r.LeaderId, r.ErrorCode = p.Leader, kerr.ReplicaNotAvailable.Code
	default:
		r.LeaderId = p.Leader
	}
}

// online are the replicas on brokers that clients can reach.
func (v *topicView) online(replicas []int32) []int32 {
	var out []int32
	for _, id := range replicas {
		if n, ok := reachable(v.img.Cluster.Broker(id), v.listener); ok && !n.fenced {
			out = append(out, id)
		}
	}
	return out
}

// offline are the replicas that cannot be read from: the broker is gone, fenced or has no such listener, or the log directory failed.
func (v *topicView) offline(p *image.Partition) []int32 {
	var out []int32
	for _, id := range p.Replicas {
		broker := v.img.Cluster.Broker(id)
		if n, ok := reachable(broker, v.listener); !ok || n.fenced || !onlineDir(broker, p.Directory(id)) {
			out = append(out, id)
		}
	}
	return out
}

// onlineDir reports whether a replica's directory works, as far as anybody knows.
func onlineDir(b *image.Broker, dir uuid.UUID) bool {
	return len(b.Directories) == 0 || slices.Contains(b.Directories, dir) || dir == uuid.DirUnassigned || dir == uuid.DirMigrating
}
