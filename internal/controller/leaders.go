package controller

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// none stands for "no broker" in brokerEvent.
const none int32 = -1

// maxElections is how many leaders one run of a periodic task may change; it goes on at once.
const maxElections = 1000

// brokerEvent says what happened to brokers that partitions have to be worked out for. The registrations still show
// the state before it.
type brokerEvent struct {
	context string // for the log
	removed int32  // leaves ISRs and may not lead
	added   int32  // may lead although it is fenced still
	unclean int32  // went down without saying so: leaves ISRs and ELRs, may not lead
}

// updateLeaders works out the changes of partitions that an event leads to.
func (m *replication) updateLeaders(e brokerEvent, partitions []topicPartition) []metadata.Versioned {
	active := func(id int32) bool {
		return id != e.removed && id != e.unclean && (id == e.added || m.cluster.isActive(id))
	}
	var records []metadata.Versioned
	for _, tp := range partitions {
		t, p := m.find(tp)
		if p == nil {
			panic(fmt.Sprintf("controller: partition %s-%d is indexed but not there", tp.topicID, tp.partition))
		}
		c := m.newChange(p, t, tp.partition)
		c.acceptable = m.leaderAcceptor(p, active)
		if m.configs.uncleanElection(t.name) {
			c.elect = electUnclean
		}
		if e.unclean != none {
			c.unclean = []int32{e.unclean}
		}
		c.targetISR = without(p.isr, e.removed, e.unclean)
		if v, ok := c.record(); ok {
			records = append(records, v)
		}
	}
	if len(records) > 0 {
		m.log.Info(fmt.Sprintf("%s: changing %d partition(s)", e.context, len(records)))
	}
	return records
}

func event(context string) brokerEvent { return brokerEvent{context, none, none, none} }

// brokerFenced: the partitions change first, the registration last.
func (m *replication) brokerFenced(id int32) []metadata.Versioned {
	e := event("handleBrokerFenced")
	e.removed = id
	return append(m.updateLeaders(e, m.inISR.list(id)), m.registrationChange(id, func(r *metadata.BrokerRegistrationChangeRecord) { r.Fenced = 1 }))
}

func (m *replication) brokerUnregistered(id int32, epoch int64) []metadata.Versioned {
	e := event("handleBrokerUnregistered")
	e.removed = id
	records := m.updateLeaders(e, m.inISR.list(id))
	records = append(records, m.updateLeaders(e, m.inELR.list(id))...)
	rec := metadata.NewUnregisterBrokerRecord()
	rec.BrokerId, rec.BrokerEpoch = id, epoch
	return append(records, metadata.Versioned{Record: rec})
}

// brokerUnfenced: the registration first, then partitions without leader that the broker may lead.
func (m *replication) brokerUnfenced(id int32) []metadata.Versioned {
	e := event("handleBrokerUnfenced")
	e.added = id
	records := []metadata.Versioned{m.registrationChange(id, func(r *metadata.BrokerRegistrationChangeRecord) { r.Fenced = -1 })}
	return append(records, m.updateLeaders(e, listSet(m.leaderless))...)
}

func (m *replication) brokerInControlledShutdown(id int32) []metadata.Versioned {
	var records []metadata.Versioned
	if b := m.cluster.broker(id); b != nil && !b.inControlledShutdown {
		records = append(records, m.registrationChange(id, func(r *metadata.BrokerRegistrationChangeRecord) { r.InControlledShutdown = 1 }))
	}
	e := event(fmt.Sprintf("enterControlledShutdown[%d]", id))
	e.removed = id
	return append(records, m.updateLeaders(e, m.inISR.list(id))...)
}

// brokerShutdown cleans up behind the last incarnation of a broker that registers anew. If it did not stop cleanly it
// may have lost the tail of its logs, so it is neither in sync nor eligible.
func (m *replication) brokerShutdown(id int32, clean bool) []metadata.Versioned {
	if !m.features.elrEnabled() || clean {
		e := event("handleBrokerShutdown")
		e.removed = id
		return m.updateLeaders(e, m.inISR.list(id))
	}
	e := event("handleBrokerUncleanShutdown")
	e.unclean = id
	records := m.updateLeaders(e, m.inISR.list(id))
	return append(records, m.updateLeaders(e, m.inELR.list(id))...)
}

// directoriesOffline takes partitions away from directories that failed.
func (m *replication) directoriesOffline(id int32, offline []uuid.UUID) []metadata.Versioned {
	b := m.cluster.broker(id)
	var lost, left []uuid.UUID
	for _, dir := range b.dirs {
		if contains(offline, dir) {
			lost = append(lost, dir)
		} else {
			left = append(left, dir)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	var records []metadata.Versioned
	for _, dir := range lost {
		e := event(fmt.Sprintf("handleDirectoriesOffline[%d:%s]", id, dir))
		e.removed = id
		records = append(records, m.updateLeaders(e, m.inDir.list(dir))...)
	}
	m.log.Warn(fmt.Sprintf("Directories %s in broker %d marked offline, remaining directories: %s", listText(lost), id, listText(left)))
	return append(records, m.registrationChange(id, func(r *metadata.BrokerRegistrationChangeRecord) { r.LogDirs = left }))
}

func contains(list []uuid.UUID, dir uuid.UUID) bool {
	for _, d := range list {
		if d == dir {
			return true
		}
	}
	return false
}

// directoriesCordoned notes which directories take no new partitions. nil: the broker did not say.
func (m *replication) directoriesCordoned(id int32, cordoned []uuid.UUID) []metadata.Versioned {
	if cordoned == nil || !m.cluster.broker(id).cordonChanged(cordoned) {
		return nil
	}
	return []metadata.Versioned{m.registrationChange(id, func(r *metadata.BrokerRegistrationChangeRecord) { r.CordonedLogDirs = cordoned })}
}

// registrationChange is a record with just one thing changed, which decides its version.
func (m *replication) registrationChange(id int32, set func(r *metadata.BrokerRegistrationChangeRecord)) metadata.Versioned {
	rec := metadata.NewBrokerRegistrationChangeRecord()
	rec.BrokerId, rec.BrokerEpoch = id, m.cluster.broker(id).epoch
	set(rec)
	return metadata.Versioned{Record: rec, Version: m.features.version().RecordVersion(rec)}
}

// electLeader elects one partition's leader for somebody who asked.
func (m *replication) electLeader(name string, id int32, e election) (metadata.Versioned, error) {
	t := m.topicByName(name)
	if t == nil {
		return metadata.Versioned{}, fail(kerr.UnknownTopicOrPartition, "No such topic as "+name)
	}
	p, ok := t.partitions.Get(id)
	if !ok {
		return metadata.Versioned{}, fail(kerr.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", name, id))
	}
	if e == electPreferred && p.hasPreferredLeader() || e == electUnclean && p.hasLeader() {
		return metadata.Versioned{}, fail(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	c := m.newChange(p, t, id)
	c.elect = e
	v, ok := c.record()
	switch {
	case ok:
		return v, nil
	case e == electPreferred:
		return metadata.Versioned{}, fail(kerr.PreferredLeaderNotAvailable, "The preferred leader was not available.")
	}
	return metadata.Versioned{}, fail(kerr.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
}

// electLeaders answers a whole request. Null partitions mean all; of those, the ones that need nothing are left out.
func (m *replication) electLeaders(req *protocol.ElectLeadersRequest) (Result[*protocol.ElectLeadersResponse], error) {
	resp := protocol.NewElectLeadersResponse()
	res := Result[*protocol.ElectLeadersResponse]{Response: resp}
	e := electPreferred
	switch req.ElectionType {
	case 0:
	case 1:
		e = electUnclean
	default:
		return res, fail(kerr.InvalidRequest, fmt.Sprintf("Unknown election type %d", req.ElectionType))
	}
	run := func(name string, ids []int32, all bool) error {
		r := protocol.ElectLeadersResponseReplicaElectionResult{Topic: name}
		for _, id := range ids {
			v, err := m.electLeader(name, id, e)
			if err == nil {
				if res.Records = append(res.Records, v); len(res.Records) > maxRecordsPerUserOp {
					return errTooManyRecords
				}
			}
			one := protocol.ElectLeadersResponsePartitionResult{PartitionId: id}
			one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
			if !all || one.ErrorCode != kerr.ElectionNotNeeded.Code {
				r.PartitionResult = append(r.PartitionResult, one)
			}
		}
		resp.ReplicaElectionResults = append(resp.ReplicaElectionResults, r)
		return nil
	}
	if req.TopicPartitions != nil {
		for _, t := range req.TopicPartitions {
			if err := run(t.Topic, t.Partitions, false); err != nil {
				return res, err
			}
		}
		return res, nil
	}
	for name := range m.byName.All() {
		t := m.topicByName(name)
		ids := make([]int32, 0, t.partitions.Len())
		for id := range t.partitions.All() {
			ids = append(ids, id)
		}
		if err := run(name, ids, true); err != nil {
			return res, err
		}
	}
	return res, nil
}

// balanceLeaders gives leadership back to preferred replicas that can have it. again is true if there may be more.
func (m *replication) balanceLeaders() (records []metadata.Versioned, again bool) {
	for tp := range m.imbalanced.All() {
		if len(records) >= maxElections {
			return records, true
		}
		t, p := m.find(tp)
		c := m.newChange(p, t, tp.partition)
		c.elect = electPreferred
		if v, ok := c.record(); ok {
			records = append(records, v)
		}
	}
	return records, false
}

// electUncleanly finds leaders for partitions whose topics allow them to be behind.
func (m *replication) electUncleanly() (records []metadata.Versioned, again bool) {
	for tp := range m.leaderless.All() {
		if len(records) >= maxElections {
			return records, true
		}
		t, p := m.find(tp)
		if !m.configs.uncleanElection(t.name) {
			continue
		}
		where := fmt.Sprintf("offline partition %s-%d. (isr: %s, replicaSet: %s, partitionEpoch: %d, leaderEpoch: %d)",
			t.name, tp.partition, listText(p.isr), listText(p.replicas), p.partitionEpoch, p.leaderEpoch)
		v, err := m.electLeader(t.name, tp.partition, electUnclean)
		if err != nil {
			m.log.Warn("Cannot trigger unclean leader election for " + where + " " + err.Error())
			continue
		}
		m.log.Info("Triggering unclean leader election for " + where)
		records = append(records, v)
	}
	return records, false
}

// heartbeat moves a broker through its states as it asks for.
func (m *replication) heartbeat(req *protocol.BrokerHeartbeatRequest) (Result[*protocol.BrokerHeartbeatResponse], brokerState, error) {
	res := Result[*protocol.BrokerHeartbeatResponse]{}
	id := req.BrokerId
	registered, ok := m.cluster.registered.Get(id)
	if !ok {
		return res, 0, fail(kerr.StaleBrokerEpoch, fmt.Sprintf("Receive a heartbeat from broker %d before registration", id))
	}
	if err := m.cluster.checkEpoch(id, req.BrokerEpoch); err != nil {
		return res, 0, err
	}
	beats := m.cluster.heartbeats
	now, next := beats.next(id, wish{req.WantFence, req.WantShutDown, req.CurrentMetadataOffset}, registered,
		func() bool { return m.led.has(id) })
	if now != next {
		switch next {
		case stateFenced, stateShutdownNow:
			res.Records = m.brokerFenced(id)
		case stateUnfenced:
			res.Records = m.brokerUnfenced(id)
		case stateControlledShutdown:
			res.Records = m.brokerInControlledShutdown(id)
		}
	}
	beats.touch(id, next.fenced(), req.CurrentMetadataOffset)
	if next == stateShutdownNow {
		// Unlike Kafka, whose broker has to wait for the end of its session when it is started again at once.
		beats.tracker.forget(brokerEpoch{id, req.BrokerEpoch})
	}
	if m.features.version().DirectoryAssignment() {
		res.Records = append(res.Records, m.directoriesOffline(id, req.OfflineLogDirs)...)
	}
	if m.features.version().CordonedLogDirs() {
		res.Records = append(res.Records, m.directoriesCordoned(id, req.CordonedLogDirs)...)
	}
	resp := protocol.NewBrokerHeartbeatResponse()
	resp.IsCaughtUp = req.CurrentMetadataOffset >= registered
	resp.IsFenced = next.fenced()
	resp.ShouldShutDown = next == stateShutdownNow
	res.Response = resp
	return res, next, nil
}

// fenceOneStale fences one broker whose session is over. One at a time, so that the next one sees the effect. again is
// true if there may be more.
func (m *replication) fenceOneStale() (records []metadata.Versioned, again bool) {
	beats := m.cluster.heartbeats
	stale, ok := beats.tracker.takeExpired()
	if !ok {
		return nil, false
	}
	b := m.cluster.broker(stale.id)
	switch {
	case b == nil:
		m.log.Info("Removing heartbeat tracker entry for unknown broker.", "broker", stale.id, "brokerEpoch", stale.epoch)
		beats.remove(stale.id)
		return nil, true
	case b.epoch != stale.epoch:
		m.log.Info("Removing heartbeat tracker entry for broker at previous epoch.", "broker", stale.id, "brokerEpoch", stale.epoch, "currentEpoch", b.epoch)
		return nil, true
	}
	m.log.Info(fmt.Sprintf("Fencing broker %d at epoch %d because its session has timed out.", stale.id, stale.epoch))
	records = m.brokerFenced(stale.id)
	beats.fence(stale.id)
	return records, true
}

func (m *replication) unregisterBroker(id int32) (Result[struct{}], error) {
	b := m.cluster.broker(id)
	if b == nil {
		return Result[struct{}]{}, fail(kerr.BrokerIdNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", id))
	}
	records := m.brokerUnregistered(id, b.epoch)
	if len(records) > maxRecordsPerUserOp {
		return Result[struct{}]{}, errTooManyRecords
	}
	return Result[struct{}]{Records: records}, nil
}
