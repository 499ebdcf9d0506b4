package replica

import (
	"fmt"
	"strings"
)

// Offline takes partitions out of service whose log directory has failed. They answer with KafkaStorageError until the node is
// started again, or their topic is made anew; who waits for something of them is answered (KIP-112).
func (m *Manager) Offline(partitions []TopicPartition) {
	var names []string
	for _, tp := range partitions {
		m.mu.RLock()
		p := m.byName[tp.Topic].partition(tp.Partition)
		m.mu.RUnlock()
		if p != nil {
			p.goOffline()
			names = append(names, tp.String())
		}
	}
	m.env.Logger().Warn(fmt.Sprintf("Broker %d stopped serving partitions %s because they are in a failed log directory", m.cfg.NodeID, strings.Join(names, ",")))
}

func (p *Partition) goOffline() {
	p.mu.Lock()
	p.log, p.leader = nil, false
	p.progress.Lock()
	p.followers, p.asked = nil, nil
	p.progress.Unlock()
	p.mu.Unlock()
	p.wake()
}
