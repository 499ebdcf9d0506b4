package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// history makes random records that fit the state which the records before them lead to.
type history struct {
	r       *rand.Rand
	topics  []*metadata.TopicRecord
	size    map[uuid.UUID]int32 // partitions
	brokers map[int32]int64     // epoch by id
	seq     int
}

func newHistory(seed uint64) *history {
	return &history{r: rand.New(rand.NewPCG(seed, 1)), size: map[uuid.UUID]int32{}, brokers: map[int32]int64{}}
}

func (h *history) id() uuid.UUID {
	var u uuid.UUID
	for i := range u {
		u[i] = byte(h.r.Uint32())
	}
	return u
}

func (h *history) ids() []int32 {
	var out []int32
	for range h.r.IntN(4) {
		out = append(out, int32(h.r.IntN(5)))
	}
	return out
}

func (h *history) broker() (int32, int64, bool) {
	for id := range int32(5) {
		if epoch, ok := h.brokers[(id+int32(h.seq))%5]; ok {
			return (id + int32(h.seq)) % 5, epoch, true
		}
	}
	return 0, 0, false
}

func (h *history) topic() *metadata.TopicRecord { return h.topics[h.r.IntN(len(h.topics))] }

func text(s string) *string { return &s }

// next returns a few records that belong together.
func (h *history) next() []metadata.Record {
	h.seq++
	if len(h.topics) == 0 || h.r.IntN(6) == 0 {
		t := &metadata.TopicRecord{Name: fmt.Sprintf("t%d", h.r.IntN(40)), TopicId: h.id()}
		if slices.ContainsFunc(h.topics, func(o *metadata.TopicRecord) bool { return o.Name == t.Name }) {
			return []metadata.Record{&metadata.NoOpRecord{}}
		}
		h.topics = append(h.topics, t)
		return []metadata.Record{t, h.partition(t), h.partition(t)}
	}
	t := h.topic()
	value := text(fmt.Sprint(h.r.IntN(3)))
	if h.r.IntN(3) == 0 {
		value = nil
	}
	switch h.r.IntN(18) {
	case 0:
		h.topics = slices.DeleteFunc(h.topics, func(o *metadata.TopicRecord) bool { return o == t })
		delete(h.size, t.TopicId)
		return []metadata.Record{&metadata.RemoveTopicRecord{TopicId: t.TopicId}}
	case 1:
		return []metadata.Record{h.partition(t)}
	case 2, 3, 4, 5:
		c := &metadata.PartitionChangeRecord{}
		c.SetDefaults()
		c.TopicId, c.PartitionId = t.TopicId, int32(h.r.IntN(int(h.size[t.TopicId])))
		if h.r.IntN(2) == 0 {
			c.Isr = append([]int32{}, h.ids()...)
		}
		if h.r.IntN(2) == 0 {
			c.Leader = int32(h.r.IntN(5)) - 1
		}
		switch h.r.IntN(5) {
		case 0:
			c.Replicas = append([]int32{1}, h.ids()...)
			for range c.Replicas {
				c.Directories = append(c.Directories, h.id())
			}
		case 1:
			c.EligibleLeaderReplicas, c.LastKnownElr = append([]int32{}, h.ids()...), append([]int32{}, h.ids()...)
		case 2:
			c.AddingReplicas, c.RemovingReplicas, c.LeaderRecoveryState = append([]int32{}, h.ids()...), append([]int32{}, h.ids()...), int8(h.r.IntN(2))
		}
		return []metadata.Record{c}
	case 6:
		name := t.Name
		if h.r.IntN(2) == 0 {
			name = ""
		}
		return []metadata.Record{&metadata.ClearElrRecord{TopicName: name}}
	case 7:
		return []metadata.Record{&metadata.ConfigRecord{ResourceType: ResourceTopic, ResourceName: t.Name, Name: fmt.Sprintf("k%d", h.r.IntN(4)), Value: value}}
	case 8:
		return []metadata.Record{&metadata.ConfigRecord{ResourceType: ResourceBroker, ResourceName: "", Name: "k", Value: value}}
	case 9:
		id := int32(h.r.IntN(5))
		h.brokers[id] = int64(h.seq)
		b := &metadata.RegisterBrokerRecord{
			BrokerId: id, BrokerEpoch: int64(h.seq), IncarnationId: h.id(), Fenced: true, LogDirs: []uuid.UUID{h.id()}, Rack: value,
			EndPoints: []metadata.RegisterBrokerRecordBrokerEndpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092}},
			Features:  []metadata.RegisterBrokerRecordBrokerFeature{{Name: metadata.FeatureMetadata, MinSupportedVersion: 7, MaxSupportedVersion: 33}},
		}
		return []metadata.Record{b}
	case 10, 11:
		id, epoch, ok := h.broker()
		if !ok {
			return nil
		}
		switch h.r.IntN(5) {
		case 0:
			delete(h.brokers, id)
			return []metadata.Record{&metadata.UnregisterBrokerRecord{BrokerId: id, BrokerEpoch: epoch}}
		case 1:
			return []metadata.Record{&metadata.FenceBrokerRecord{Id: id, Epoch: epoch}}
		case 2:
			return []metadata.Record{&metadata.UnfenceBrokerRecord{Id: id, Epoch: epoch}}
		}
		return []metadata.Record{
			&metadata.BrokerRegistrationChangeRecord{BrokerId: id, BrokerEpoch: epoch, Fenced: int8(h.r.IntN(3)) - 1, InControlledShutdown: int8(h.r.IntN(2))},
			&metadata.BrokerRegistrationChangeRecord{BrokerId: id, BrokerEpoch: epoch, CordonedLogDirs: []uuid.UUID{}},
		}
	case 12:
		return []metadata.Record{&metadata.FeatureLevelRecord{Name: metadata.FeatureGroup, FeatureLevel: int16(h.r.IntN(2))}}
	case 13:
		return []metadata.Record{&metadata.ClientQuotaRecord{
			Entity: []metadata.ClientQuotaRecordEntityData{{EntityType: "user", EntityName: value}, {EntityType: "client-id", EntityName: text("c")}},
			Key:    "producer_byte_rate", Value: float64(h.r.IntN(3)), Remove: h.r.IntN(3) == 0,
		}}
	case 14:
		return []metadata.Record{&metadata.ProducerIdsRecord{BrokerId: 1, BrokerEpoch: 2, NextProducerId: int64(h.seq) * 1000}}
	case 15:
		acl := &metadata.AccessControlEntryRecord{Id: h.id(), ResourceType: 2, ResourceName: t.Name, PatternType: 3, Principal: "User:a", Host: "*", Operation: 3, PermissionType: 3}
		out := []metadata.Record{acl}
		if h.r.IntN(2) == 0 {
			out = append(out, &metadata.RemoveAccessControlEntryRecord{Id: acl.Id})
		}
		return out
	case 16:
		user := &metadata.UserScramCredentialRecord{Name: fmt.Sprint(h.r.IntN(3)), Mechanism: 1, Salt: []byte{1}, StoredKey: []byte{2}, ServerKey: []byte{3}, Iterations: int32(4096 + h.seq)}
		out := []metadata.Record{user}
		if h.r.IntN(2) == 0 {
			out = append(out, &metadata.RemoveUserScramCredentialRecord{Name: user.Name, Mechanism: 1})
		}
		return out
	}
	token := &metadata.DelegationTokenRecord{Owner: "User:a", Requester: "User:b", Renewers: []string{"User:c"}, TokenId: fmt.Sprint(h.seq), MaxTimestamp: 5}
	ctrl := &metadata.RegisterControllerRecord{
		ControllerId: int32(h.r.IntN(3)), IncarnationId: h.id(), EndPoints: []metadata.RegisterControllerRecordControllerEndpoint{{Name: "CONTROLLER", Host: "h", Port: 1}},
		Features: []metadata.RegisterControllerRecordControllerFeature{{Name: metadata.FeatureKRaft, MaxSupportedVersion: 1}},
	}
	out := []metadata.Record{token, ctrl}
	if h.r.IntN(2) == 0 {
		out = append(out, &metadata.RemoveDelegationTokenRecord{TokenId: token.TokenId}, &metadata.UnregisterControllerRecord{ControllerId: ctrl.ControllerId})
	}
	return out
}

func (h *history) partition(t *metadata.TopicRecord) *metadata.PartitionRecord {
	p := &metadata.PartitionRecord{PartitionId: h.size[t.TopicId], TopicId: t.TopicId, Replicas: append([]int32{1}, h.ids()...), Isr: []int32{1}, Leader: 1}
	for range p.Replicas {
		p.Directories = append(p.Directories, h.id())
	}
	h.size[t.TopicId]++
	return p
}

// roundTrip is a record as it comes back from the log.
func roundTrip(t testing.TB, rec metadata.Record) metadata.Record {
	t.Helper()
	b, err := metadata.AppendRecord(nil, rec, metadata.LatestVersion.RecordVersion(rec))
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := metadata.ParseRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
