package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a fault in replication: one text of the product in the place of another. The simulator has to find it.
type mutant struct {
	name, file, old, new string
}

var mutants = []mutant{
	{"acks=all does not wait for the followers", "replica/partition.go", "		if f.logEnd < high && (f.inISR ||", "		if false && f.logEnd < high && (f.inISR ||"},
	{"the high watermark does not wait for who is joining", "replica/partition.go", "(f.inISR || f.joining || f.logEnd >= 0 &&", "(f.inISR || false && f.logEnd >= 0 &&"},
	{"who leaves the ISR is not waited for any more, before the controller agrees", "replica/isr.go", "			isr = slices.DeleteFunc(isr,", "			f.inISR = false\n			isr = slices.DeleteFunc(isr,"},
	{"a follower counts before it has fetched from this leader", "replica/partition.go", "i >= 0 && !newLeader {", "i >= 0 {"},
	{"a follower is taken to have what was sent to it", "replica/partition.go", "f.epoch, f.logEnd, f.logStart, f.lastFetch, f.leaderEnd = brokerEpoch, offset,", "f.epoch, f.logEnd, f.logStart, f.lastFetch, f.leaderEnd = brokerEpoch, leaderEnd,"},
	{"a follower does not truncate", "replica/follow.go", "		return log.TruncateTo(to)\n", "		return nil\n"},
	{"a follower does not say of which epoch its last record is", "replica/fetcher.go", "p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = x.p.Index, x.epoch, x.at.offset, x.at.epoch", "p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = x.p.Index, x.epoch, x.at.offset, -1"},
	{"a leader does not look for diverging epochs", "replica/fetch.go", "		if epoch < part.LastFetchedEpoch || epochEnd < part.Offset {", "		if false {"},
	{"the start of a leader's epoch is not noted", "replica/partition.go", "err = p.log.AssignEpochStart(s.LeaderEpoch, p.epochStart)", "err = nil"},
	{"the controller takes an ISR for an old state of the partition", "controller/alter_partition.go", "	case asked.PartitionEpoch < p.partitionEpoch:", "	case false:"},
	{"the controller lets a fenced broker into an ISR", "controller/alter_partition.go", "		case b.fenced:", "		case false:"},
	{"the controller lets another life of a broker into an ISR", "controller/alter_partition.go", "		case r.epoch != -1 && r.epoch != b.epoch:", "		case false:"},
	{"whoever is there may lead", "controller/change.go", "	if c.elect == electUnclean {", "	if true {"},
	{"who may have lost something stays eligible", "controller/change.go", " && !slices.Contains(c.unclean, id) && ", " && "},
	{"min.insync.replicas is not looked at", "replica/append.go", "	case a.Acks == AcksAll && len(p.state.ISR) < p.effectiveMinISR():", "	case false:"},
	{"a leader in an old epoch goes on", "replica/partition.go", "	p.leader = s.Leader == p.m.cfg.NodeID && p.log != nil\n", "	p.leader = (wasLeader || s.Leader == p.m.cfg.NodeID) && p.log != nil\n"},
}

// Every mutant has a place in the product.
func TestMutantsHaveTheirPlaces(t *testing.T) {
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Error(err)
		} else if n := strings.Count(string(text), m.old); n != 1 {
			t.Errorf("%s: %s has the text %d times: %q", m.name, m.file, n, m.old)
		}
	}
}
