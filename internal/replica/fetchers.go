package replica

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/ottla-io/ottla/internal/config"
)

// FetchConfig is how a follower fetches.
type FetchConfig struct {
	Listener       string        // inter.broker.listener.name: that of leaders' endpoints
	Fetchers       int           // num.replica.fetchers, per leader
	MaxWait        time.Duration // replica.fetch.wait.max.ms
	MinBytes       int           // replica.fetch.min.bytes
	MaxBytes       int           // replica.fetch.response.max.bytes
	PartitionBytes int           // replica.fetch.max.bytes
	Backoff        time.Duration // replica.fetch.backoff.ms, after an error
	Timeout        time.Duration // replica.socket.timeout.ms
}

// fetcherID: a leader has several fetchers, so that a slow partition does not hold all others.
type fetcherID struct {
	leader int32
	shard  int
}

func (m *Manager) fetcherOf(p *Partition, leader int32) fetcherID {
	h := fnv.New32a()
	_, _ = h.Write(p.ID[:])
	return fetcherID{leader, int((h.Sum32() + uint32(p.Index)) % uint32(m.cfg.Fetch.Fetchers))}
}

// assign lets the right fetcher copy a partition, or none: this node leads, nobody does, or the log is offline.
func (m *Manager) assign(p *Partition, s State) {
	if s.Leader == m.cfg.NodeID || s.Leader == NoLeader || p.Log() == nil || m.closed.Load() {
		m.unassign(p)
		return
	}
	id := m.fetcherOf(p, s.Leader)
	f := m.fetchers[id]
	if f == nil {
		f = newFetcher(m, id)
		m.fetchers[id] = f
	}
	if p.fetcher != f {
		m.unassign(p)
		p.fetcher = f
		f.assigned++
	}
	f.follow(p, s.LeaderEpoch)
}

func (m *Manager) unassign(p *Partition) {
	if f := p.fetcher; f != nil {
		p.fetcher = nil
		f.assigned--
		f.leave(p)
	}
}

// closeIdleFetchers ends those that have nothing left to copy.
func (m *Manager) closeIdleFetchers() {
	for id, f := range m.fetchers {
		if f.assigned == 0 {
			delete(m.fetchers, id)
			f.close()
		}
	}
}

// closeFetchers ends all. Nothing is copied after it returns that was not on its way.
func (m *Manager) closeFetchers() {
	for _, f := range m.fetchers {
		f.close()
	}
}

// address is where a broker listens for others, host:port; empty if the metadata does not say.
func (m *Manager) address(broker int32) string {
	b := m.img.Load().Cluster.Broker(broker)
	if b == nil {
		return ""
	}
	for _, e := range b.Endpoints {
		if e.Name == m.cfg.Fetch.Listener {
			return config.HostPort{Host: e.Host, Port: int(e.Port)}.String()
		}
	}
	return ""
}

func (id fetcherID) String() string {
	return "fetcher-" + strconv.Itoa(id.shard) + "-" + strconv.Itoa(int(id.leader))
}
