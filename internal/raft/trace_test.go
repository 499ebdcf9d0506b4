package raft

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// TestTraces tells the stories in testdata: what is done to a quorum, and what its nodes then say to each other, become,
// and tell their listeners. -rewrite renews them.
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		w := &trace{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t, w.d = t, d
			return w.step()
		})
	})
}

// trace is one story.
type trace struct {
	t *testing.T
	d *datadriven.TestData
	*cluster
	out    strings.Builder
	states map[int32]string
	heard  map[int32]*traceListener
	value  int64
	said   map[string]bool // in this step

	autoJoin bool
	patient  bool
}

// say prints a message, the first time in a step: nodes repeat themselves.
func (w *trace) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !w.said[line] {
		w.said[line] = true
		w.printf("%s", line)
	}
}

func (w *trace) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *trace) int(key string, otherwise int) int {
	if w.d.HasArg(key) {
		w.d.ScanArgs(w.t, key, &otherwise)
	}
	return otherwise
}

func (w *trace) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		w.d.Fatalf(w.t, "%v", err)
	}
	return d
}

// nodes are the bare numbers among the arguments.
func (w *trace) nodes() (all []*peer) {
	for _, a := range w.d.CmdArgs {
		if id, err := strconv.Atoi(a.Key); err == nil && len(a.Vals) == 0 {
			all = append(all, w.peers[id-1])
		}
	}
	return all
}

func (w *trace) step() string {
	w.out.Reset()
	w.said = map[string]bool{}
	switch w.d.Cmd {
	case "quorum": // voters=3 observers=0 kraft=1 seed=1
		w.quorum()
	case "elapse": // 3s
		w.run(w.duration(w.d.CmdArgs[0].Key))
	case "append": // 1 records=2: by a node, if it leads
		w.append(w.nodes()[0])
	case "cut": // 1 2: from all others
		w.eachLink(w.world.Cut)
	case "heal":
		w.world.HealAll()
	case "crash":
		for _, p := range w.nodes() {
			p.crash()
			delete(w.states, p.id)
		}
	case "kill": // 1: the process, as kill -9 does
		for _, p := range w.nodes() {
			p.node.Kill()
			p.mem.synced = len(p.mem.batches)
			p.q = nil
			delete(w.states, p.id)
		}
	case "reset": // 1 2: their connections
		w.world.Reset(w.nodes()[0].name, w.nodes()[1].name)
	case "refuse": // 2 1: what 2 dials is refused by 1's machine
		w.world.Refuse(w.nodes()[0].name, w.nodes()[1].name)
	case "admit":
		w.world.Admit(w.nodes()[0].name, w.nodes()[1].name)
	case "freeze": // 1: the process stops, the kernel goes on
		for _, p := range w.nodes() {
			p.node.Freeze()
		}
	case "thaw":
		for _, p := range w.nodes() {
			p.node.Thaw()
		}
	case "restart": // 1 port=9094
		for _, p := range w.nodes() {
			if w.d.HasArg("port") {
				p.cfg.Listeners[0].Port = uint16(w.int("port", 0))
			}
			p.restart()
		}
		w.run(time.Millisecond)
	case "newdisk": // 3: the node starts with another directory, formatted
		for _, p := range w.nodes() {
			w.newDisk(p)
		}
		w.run(time.Millisecond)
	case "upgrade": // 1 level=1 validate
		p := w.nodes()[0]
		p.node.Do("upgrade", func() {
			err := p.q.UpgradeKRaftVersion(p.q.election.Epoch, int16(w.int("level", 1)), w.d.HasArg("validate"))
			w.printf("%d upgrade: %s", p.id, shortDirectories(fmt.Sprint(err)))
		})
		w.run(20 * time.Millisecond)
	case "resign":
		p := w.nodes()[0]
		p.q.Resign(p.q.election.Epoch)
		w.run(w.duration("1ms"))
	case "shutdown":
		p := w.nodes()[0]
		p.q.Shutdown(func() { w.printf("%d has shut down", p.id) })
		w.run(100 * time.Millisecond)
	case "snapshot":
		for _, p := range w.nodes() {
			w.snapshot(p)
		}
	case "break": // the disk of a node: sync
		for _, p := range w.nodes() {
			p.mem.fail = errors.New("input/output error")
		}
	case "log":
		w.log(w.nodes()[0])
	case "files":
		w.files(w.nodes()[0])
	case "state":
		w.state()
	case "describe": // 1 version=2
		w.describe(w.nodes()[0])
	case "ask": // 1: requests in the body
		w.ask(w.nodes()[0])
	default:
		w.d.Fatalf(w.t, "unknown verb %s", w.d.Cmd)
	}
	if w.out.Len() == 0 {
		return "ok\n"
	}
	return w.out.String()
}

// newDisk is a node whose disk was replaced: it has nothing, and another directory id.
func (w *trace) newDisk(p *peer) {
	p.node = w.world.NewNode(p.name + "b")
	p.name += "b"
	p.mem = &memorySegments{}
	p.cfg.DirectoryID = directoryOf(p.id + 5)
	p.cfg.Listeners = []Endpoint{{"CONTROLLER", p.name, 9093}}
	w.format(p, w.voterSet(1))
	p.start()
}

func (w *trace) quorum() {
	w.states, w.heard, w.value = map[int32]string{}, map[int32]*traceListener{}, 0
	world := sim.NewWorld(uint64(w.int("seed", 1)), sim.Options{})
	w.cluster = &cluster{world: world, kraft: int16(w.int("kraft", 1)), fail: func(format string, args ...any) {
		world.Report(w.t.Output(), 50)
		w.d.Fatalf(w.t, format, args...)
	}}
	w.tune = func(c *Config) {
		c.AutoJoin = w.autoJoin
		c.EarlyPreVote = !w.patient
		c.RetentionBytes = int64(w.int("retention", 1<<30))
		c.Retention = -1
	}
	w.sent, w.answered = w.showRequest, w.showResponse
	w.cluster.listener = func(p *peer) Listener {
		l := &traceListener{w: w, p: p}
		w.heard[p.id] = l
		return l
	}
	w.standbys, w.autoJoin = w.int("standbys", 0), w.d.HasArg("autojoin")
	w.patient = w.d.HasArg("patient")
	w.add(w.int("voters", 3), w.int("observers", 0))
	for _, p := range w.peers {
		if w.d.HasArg("stranger") && int(p.id) == w.int("stranger", 0) {
			p.cfg.DirectoryID[7] = 7 // another directory than the voter set says
		}
		p.start()
	}
	w.run(time.Millisecond)
}

func (w *trace) run(d time.Duration) {
	w.world.RunUntil(d, func() bool {
		for _, p := range w.peers {
			w.showState(p)
		}
		return false
	})
	for _, p := range w.peers {
		w.showState(p)
	}
}

func (w *trace) eachLink(do func(from, to string)) {
	for _, p := range w.nodes() {
		for _, other := range w.peers {
			if other != p {
				do(p.name, other.name)
				do(other.name, p.name)
			}
		}
	}
}

// stateOf is a state in one word and what belongs to it.
func stateOf(q *Quorum) string {
	e := q.election
	word := strings.TrimPrefix(fmt.Sprintf("%T", q.state), "*raft.")
	s := fmt.Sprintf("%s epoch=%d", strings.ToUpper(word[:1])+word[1:], e.Epoch)
	if e.LeaderID != NoNode && e.LeaderID != q.cfg.NodeID {
		s += fmt.Sprintf(" leader=%d", e.LeaderID)
	}
	if e.hasVoted() {
		s += fmt.Sprintf(" voted=%d", e.Voted.ID)
	}
	return s
}

func (w *trace) showState(p *peer) {
	if p.fault != nil && p.node.Alive() {
		w.printf("%d fault: %v", p.id, p.fault)
		p.crash()
		delete(w.states, p.id)
	}
	if p.q == nil || !p.q.started || !p.node.Alive() {
		return
	}
	now := stateOf(p.q)
	if before := w.states[p.id]; before != now {
		from, _, _ := strings.Cut(before, " ")
		if before == "" {
			from = "start"
		}
		w.states[p.id] = now
		w.printf("%d %s -> %s", p.id, from, now)
	}
}

func (w *trace) target(to destination) string {
	return strings.TrimPrefix(strings.TrimSuffix(to.address, ":9093"), "n")
}

func (w *trace) showRequest(from *peer, to destination, req protocol.Request) {
	w.showState(from)
	text := ""
	switch r := req.(type) {
	case *protocol.VoteRequest:
		p := &r.Topics[0].Partitions[0]
		kind := ""
		if p.PreVote {
			kind = "preVote "
		}
		text = fmt.Sprintf("Vote(%sepoch=%d end=%d@%d)", kind, p.ReplicaEpoch, p.LastOffset, p.LastOffsetEpoch)
	case *protocol.BeginQuorumEpochRequest:
		text = fmt.Sprintf("BeginQuorumEpoch(epoch=%d)", r.Topics[0].Partitions[0].LeaderEpoch)
	case *protocol.EndQuorumEpochRequest:
		p := &r.Topics[0].Partitions[0]
		var order []string
		for _, c := range p.PreferredCandidates {
			order = append(order, fmt.Sprint(c.CandidateId))
		}
		text = fmt.Sprintf("EndQuorumEpoch(epoch=%d successors=(%s))", p.LeaderEpoch, strings.Join(order, ","))
	case *protocol.FetchSnapshotRequest:
		p := &r.Topics[0].Partitions[0]
		text = fmt.Sprintf("FetchSnapshot(%d@%d position=%d)", p.SnapshotId.EndOffset, p.SnapshotId.Epoch, p.Position)
	case *protocol.ApiVersionsRequest:
		text = fmt.Sprintf("ApiVersions(cluster=%s node=%d)", *r.ClusterId, r.NodeId)
	case *protocol.UpdateRaftVoterRequest:
		text = fmt.Sprintf("UpdateRaftVoter(%d %s:%d)", r.VoterId, r.Listeners[0].Host, r.Listeners[0].Port)
	case *protocol.AddRaftVoterRequest:
		text = fmt.Sprintf("AddRaftVoter(%d ackWhenCommitted=%t)", r.VoterId, r.AckWhenCommitted)
	case *protocol.RemoveRaftVoterRequest:
		text = fmt.Sprintf("RemoveRaftVoter(%d)", r.VoterId)
	default:
		return // fetches come all the time; what they bring is shown
	}
	w.say("%d -> %s %s", from.id, w.target(to), text)
}

func (w *trace) showResponse(from *peer, to destination, req protocol.Request, resp protocol.Response, err error) {
	text := ""
	switch r := resp.(type) {
	case nil:
		if _, isFetch := req.(*protocol.FetchRequest); !isFetch {
			text = fmt.Sprintf("no answer to %s: %v", strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", req), "*protocol."), "Request"), err)
			w.say("%d -> %s %s", from.id, w.target(to), text)
		}
		return
	case *protocol.VoteResponse:
		p := &r.Topics[0].Partitions[0]
		text = fmt.Sprintf("VoteResponse(granted=%t%s)", p.VoteGranted, leaderText(p.ErrorCode, p.LeaderId, p.LeaderEpoch))
	case *protocol.BeginQuorumEpochResponse:
		if p := &r.Topics[0].Partitions[0]; p.ErrorCode != 0 {
			text = "BeginQuorumEpochResponse(" + leaderText(p.ErrorCode, p.LeaderId, p.LeaderEpoch)[1:] + ")"
		}
	case *protocol.EndQuorumEpochResponse:
		if p := &r.Topics[0].Partitions[0]; p.ErrorCode != 0 {
			text = "EndQuorumEpochResponse(" + leaderText(p.ErrorCode, p.LeaderId, p.LeaderEpoch)[1:] + ")"
		}
	case *protocol.UpdateRaftVoterResponse:
		text = "UpdateRaftVoterResponse(" + kerr.Name(r.ErrorCode) + leaderText(0, r.CurrentLeader.LeaderId, r.CurrentLeader.LeaderEpoch) + ")"
	case *protocol.AddRaftVoterResponse:
		text = "AddRaftVoterResponse(" + errorText(r.ErrorCode, r.ErrorMessage) + ")"
	case *protocol.RemoveRaftVoterResponse:
		text = "RemoveRaftVoterResponse(" + errorText(r.ErrorCode, r.ErrorMessage) + ")"
	case *protocol.FetchResponse:
		switch r.Responses[0].Partitions[0].ErrorCode {
		case kerr.NotLeaderOrFollower.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
			return // whoever looks for the leader hears this many times
		}
		text = fetchText(r)
	case *protocol.FetchSnapshotResponse:
		p := &r.Topics[0].Partitions[0]
		text = fmt.Sprintf("FetchSnapshotResponse(%d bytes of %d)", len(p.UnalignedRecords), p.Size)
		if p.ErrorCode != 0 {
			text = "FetchSnapshotResponse(" + leaderText(p.ErrorCode, p.CurrentLeader.LeaderId, p.CurrentLeader.LeaderEpoch)[1:] + ")"
		}
	}
	if text != "" {
		w.say("%s -> %d %s", w.target(to), from.id, text)
	}
}

// errorText is an error with its message, directories shortened.
func errorText(code int16, message *string) string {
	s := kerr.Name(code)
	if message != nil {
		s += ": " + *message
	}
	return shortDirectories(s)
}

func shortDirectories(s string) string {
	for id := int32(1); id < 10; id++ {
		s = strings.ReplaceAll(s, directoryOf(id).String(), fmt.Sprintf("d%d", id))
	}
	return s
}

func leaderText(code int16, leader, epoch int32) string {
	s := ""
	if code != 0 {
		s += " " + kerr.Name(code)
	}
	if leader >= 0 {
		s += fmt.Sprintf(" leader=%d", leader)
	}
	return s + fmt.Sprintf(" epoch=%d", epoch)
}

func fetchText(r *protocol.FetchResponse) string {
	if r.ErrorCode != 0 {
		return "FetchResponse(" + kerr.Name(r.ErrorCode) + ")"
	}
	p := &r.Responses[0].Partitions[0]
	switch {
	case p.ErrorCode != 0:
		return "FetchResponse(" + leaderText(p.ErrorCode, p.CurrentLeader.LeaderId, p.CurrentLeader.LeaderEpoch)[1:] + ")"
	case p.DivergingEpoch.Epoch >= 0:
		return fmt.Sprintf("FetchResponse(diverging, epoch %d ends at %d)", p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset)
	case p.SnapshotId.EndOffset >= 0:
		return fmt.Sprintf("FetchResponse(snapshot %d@%d)", p.SnapshotId.EndOffset, p.SnapshotId.Epoch)
	case len(p.Records) == 0:
		return ""
	}
	first, last := int64(-1), int64(0)
	if err := eachBatch(p.Records, func(b record.Batch) error {
		if first < 0 {
			first = b.BaseOffset()
		}
		last = b.LastOffset()
		return nil
	}); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("FetchResponse(%d..%d highWatermark=%d)", first, last, p.HighWatermark)
}

// traceListener prints what it is told.
type traceListener struct {
	w     *trace
	p     *peer
	next  int64
	epoch int32
}

func (l *traceListener) HandleCommit(batches []Batch) {
	l.w.showState(l.p)
	for _, b := range batches {
		l.w.printf("%d: commit %d..%d epoch=%d records=%d", l.p.id, b.BaseOffset, b.LastOffset, b.Epoch, len(b.Records))
		l.next, l.epoch = b.LastOffset+1, b.Epoch
	}
}

func (l *traceListener) HandleLoadSnapshot(r *SnapshotReader) {
	l.w.showState(l.p)
	l.w.printf("%d: load snapshot %d@%d", l.p.id, r.ID().EndOffset, r.ID().Epoch)
	l.next, l.epoch = r.ID().EndOffset, r.ID().Epoch
	if err := r.Close(); err != nil {
		l.w.d.Fatalf(l.w.t, "%v", err)
	}
}

func (l *traceListener) HandleLoadBootstrap(records []metadata.Versioned) {
	l.w.showState(l.p)
	l.w.printf("%d: load bootstrap records=%d", l.p.id, len(records))
}

func (l *traceListener) HandleLeaderChange(now LeaderAndEpoch) {
	l.w.showState(l.p)
	who := "nobody"
	if now.LeaderID != NoNode {
		who = fmt.Sprint(now.LeaderID)
	}
	l.w.printf("%d: leader is %s epoch=%d", l.p.id, who, now.Epoch)
}

func (w *trace) append(p *peer) {
	n := w.int("records", 1)
	p.node.Do("append", func() {
		var list []int64
		for range n {
			w.value++
			list = append(list, w.value)
		}
		last, err := p.q.PrepareAppend(p.q.election.Epoch, values(list...))
		if err != nil {
			w.printf("%d append: %v", p.id, err)
			return
		}
		w.printf("%d append %d..%d", p.id, last-int64(n)+1, last)
		p.q.SchedulePreparedAppend()
	})
	w.run(20 * time.Millisecond)
}

func (w *trace) snapshot(p *peer) {
	l := w.heard[p.id]
	p.node.Do("snapshot", func() {
		sw, err := p.q.CreateSnapshot(SnapshotID{l.next, l.epoch}, p.node.Now().UnixMilli())
		if err == nil && sw != nil {
			err = errors.Join(sw.Append(noOps(w.int("records", 3))), sw.Freeze(), sw.Close())
		}
		if err != nil {
			w.printf("%d snapshot: %v", p.id, err)
			return
		}
		w.printf("%d snapshot %d@%d", p.id, l.next, l.epoch)
	})
	w.run(time.Millisecond)
}

func (w *trace) log(p *peer) {
	w.printf("start=%d end=%d", p.mem.StartOffset(), p.mem.EndOffset())
	for _, b := range p.mem.batches {
		_, controls, err := decodeBatch(b)
		if err != nil {
			w.d.Fatalf(w.t, "%v", err)
		}
		text := fmt.Sprintf("records=%d", b.Count())
		if b.IsControl() {
			text = ""
			for _, c := range controls {
				switch m := c.message.(type) {
				case *protocol.LeaderChangeMessage:
					text += fmt.Sprintf(" LeaderChange(leader=%d voters=%s granting=%s)", m.LeaderId, voterIDs(m.Voters), voterIDs(m.GrantingVoters))
				case *protocol.KRaftVersionRecord:
					text += fmt.Sprintf(" KRaftVersion(%d)", m.KRaftVersion)
				case *protocol.VotersRecord:
					text += " KRaftVoters("
					for i, v := range m.Voters {
						if i > 0 {
							text += " "
						}
						text += fmt.Sprintf("%d=%s:%d", v.VoterId, v.Endpoints[0].Host, v.Endpoints[0].Port)
					}
					text += ")"
				}
			}
			text = text[1:]
		}
		w.printf("%d..%d epoch=%d %s", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), text)
	}
}

func voterIDs(list []protocol.LeaderChangeMessageVoter) string {
	var ids []int32
	for _, v := range list {
		ids = append(ids, v.VoterId)
	}
	return idList(ids)
}

func (w *trace) files(p *peer) {
	for _, name := range p.node.Disk().Files() {
		name = strings.TrimPrefix(name, p.cfg.LogDir()+"/")
		if name != QuorumStateFile {
			w.printf("%s", name)
			continue
		}
		b, err := p.node.Disk().ReadFile(p.cfg.LogDir() + "/" + name)
		if err != nil {
			w.d.Fatalf(w.t, "%v", err)
		}
		w.printf("%s %s", name, b)
	}
}

func (w *trace) state() {
	for _, p := range w.peers {
		if p.q == nil || !p.node.Alive() {
			w.printf("%d is down", p.id)
			continue
		}
		w.printf("%d %s log=%d..%d highWatermark=%d", p.id, stateOf(p.q), p.q.disk.StartOffset(), p.q.disk.EndOffset(), p.q.highWatermark)
	}
}

func (w *trace) describe(p *peer) {
	version := int16(w.int("version", 2))
	req := protocol.NewDescribeQuorumRequest()
	req.Topics = []protocol.DescribeQuorumRequestTopicData{{TopicName: Topic, Partitions: []protocol.DescribeQuorumRequestPartitionData{{}}}}
	p.q.DescribeQuorum(&rpc.Context{APIVersion: version}, req, func(r *protocol.DescribeQuorumResponse) {
		at := &r.Topics[0].Partitions[0]
		w.printf("%s leader=%d epoch=%d highWatermark=%d", kerr.Name(at.ErrorCode), at.LeaderId, at.LeaderEpoch, at.HighWatermark)
		began := w.peers[0].node.Now().Add(-w.peers[0].node.Monotonic()).UnixMilli()
		since := func(ms int64) string {
			if ms < 0 {
				return "never"
			}
			return (time.Duration(ms-began) * time.Millisecond).String()
		}
		show := func(what string, list []protocol.DescribeQuorumResponseReplicaState) {
			for _, s := range list {
				w.printf("%s %d end=%d fetched=%s caughtUp=%s directory=%s", what, s.ReplicaId, s.LogEndOffset, since(s.LastFetchTimestamp), since(s.LastCaughtUpTimestamp), s.ReplicaDirectoryId)
			}
		}
		show("voter", at.CurrentVoters)
		show("observer", at.Observers)
		var nodes []string
		for _, n := range r.Nodes {
			nodes = append(nodes, fmt.Sprintf("%d=%s:%d", n.NodeId, n.Listeners[0].Host, n.Listeners[0].Port))
		}
		sort.Strings(nodes)
		if len(nodes) > 0 {
			w.printf("nodes %s", strings.Join(nodes, " "))
		}
	})
	w.run(time.Millisecond)
}

// ask sends requests, one a line: kind and fields.
func (w *trace) ask(p *peer) {
	for line := range strings.Lines(w.d.Input) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		f := map[string]int{"epoch": int(p.q.election.Epoch), "voter": -1, "ack": 1, "version": 1, "max": 1}
		for _, kv := range strings.Fields(rest) {
			k, v, _ := strings.Cut(kv, "=")
			n, err := strconv.Atoi(v)
			if err != nil {
				w.d.Fatalf(w.t, "%v", err)
			}
			f[k] = n
		}
		w.askOne(p, kind, f)
		w.run(time.Millisecond)
	}
}

// voterKey is the replica that a request names: the node with its own directory if it says nothing else.
func (w *trace) voterKey(f map[string]int) (int32, uuid.UUID) {
	id := int32(f["node"])
	dir := directoryOf(id)
	if d, ok := f["directory"]; ok {
		dir = uuid.Zero
		if d > 0 {
			dir = directoryOf(int32(d))
		}
	}
	return id, dir
}

// clusterID is none, or another one if the request says so.
func (w *trace) clusterID(f map[string]int) *string {
	if n, ok := f["cluster"]; ok {
		other := fmt.Sprintf("other%d", n)
		return &other
	}
	return nil
}

func (w *trace) askOne(p *peer, kind string, f map[string]int) {
	switch kind {
	case "vote":
		req := protocol.NewVoteRequest()
		req.VoterId = int32(f["voter"])
		req.Topics = []protocol.VoteRequestTopicData{{TopicName: Topic, Partitions: []protocol.VoteRequestPartitionData{{
			ReplicaEpoch: int32(f["epoch"]), ReplicaId: int32(f["from"]), ReplicaDirectoryId: directoryOf(int32(f["from"])),
			LastOffset: int64(f["end"]), LastOffsetEpoch: int32(f["last"]), PreVote: f["preVote"] == 1,
		}}}}
		p.q.Vote(&rpc.Context{APIVersion: 2}, req, func(r *protocol.VoteResponse) {
			at := &r.Topics[0].Partitions[0]
			w.printf("granted=%t%s", at.VoteGranted, leaderText(at.ErrorCode, at.LeaderId, at.LeaderEpoch))
		})
	case "add": // node=4 directory=4 host=4 ack=1 cluster=1 listener=1
		req := protocol.NewAddRaftVoterRequest()
		req.VoterId, req.VoterDirectoryId = w.voterKey(f)
		req.ClusterId, req.AckWhenCommitted = w.clusterID(f), f["ack"] == 1
		e := w.endpoint(int32(f["node"]))
		if name, ok := f["listener"]; ok {
			e.Name = fmt.Sprintf("L%d", name)
		}
		req.Listeners = []protocol.AddRaftVoterRequestListener{{Name: e.Name, Host: e.Host, Port: e.Port}}
		p.q.AddRaftVoter(&rpc.Context{APIVersion: int16(f["version"])}, req, func(r *protocol.AddRaftVoterResponse) {
			w.showState(p)
			w.printf("add %d: %s", f["node"], errorText(r.ErrorCode, r.ErrorMessage))
		})
	case "remove": // node=4 directory=4 cluster=1
		req := protocol.NewRemoveRaftVoterRequest()
		req.VoterId, req.VoterDirectoryId = w.voterKey(f)
		req.ClusterId = w.clusterID(f)
		p.q.RemoveRaftVoter(&rpc.Context{}, req, func(r *protocol.RemoveRaftVoterResponse) {
			w.showState(p)
			w.printf("remove %d: %s", f["node"], errorText(r.ErrorCode, r.ErrorMessage))
		})
	case "update": // node=2 directory=2 port=9094 min=0 max=1 cluster=1 listener=1
		req := protocol.NewUpdateRaftVoterRequest()
		req.VoterId, req.VoterDirectoryId = w.voterKey(f)
		req.ClusterId, req.CurrentLeaderEpoch = w.clusterID(f), int32(f["epoch"])
		e := w.endpoint(int32(f["node"]))
		if name, ok := f["listener"]; ok {
			e.Name = fmt.Sprintf("L%d", name)
		}
		if port, ok := f["port"]; ok {
			e.Port = uint16(port)
		}
		req.Listeners = []protocol.UpdateRaftVoterRequestListener{{Name: e.Name, Host: e.Host, Port: e.Port}}
		req.KRaftVersionFeature.MinSupportedVersion, req.KRaftVersionFeature.MaxSupportedVersion = int16(f["min"]), int16(f["max"])
		p.q.UpdateRaftVoter(&rpc.Context{}, req, func(r *protocol.UpdateRaftVoterResponse) {
			w.printf("update %d: %s%s %s:%d", f["node"], kerr.Name(r.ErrorCode), leaderText(0, r.CurrentLeader.LeaderId, r.CurrentLeader.LeaderEpoch), r.CurrentLeader.Host, r.CurrentLeader.Port)
		})
	case "begin":
		req := protocol.NewBeginQuorumEpochRequest()
		req.VoterId = int32(f["voter"])
		req.Topics = []protocol.BeginQuorumEpochRequestTopicData{{TopicName: Topic, Partitions: []protocol.BeginQuorumEpochRequestPartitionData{{
			LeaderId: int32(f["from"]), LeaderEpoch: int32(f["epoch"]),
		}}}}
		p.q.BeginQuorumEpoch(&rpc.Context{APIVersion: 1}, req, func(r *protocol.BeginQuorumEpochResponse) {
			at := &r.Topics[0].Partitions[0]
			w.printf("begin%s", leaderText(at.ErrorCode, at.LeaderId, at.LeaderEpoch))
		})
	case "fetch":
		req := protocol.NewFetchRequest()
		req.ReplicaState.ReplicaId, req.MaxBytes, req.MaxWaitMs = int32(f["from"]), 1<<20, int32(f["wait"])
		at := protocol.NewFetchRequestFetchPartition()
		at.CurrentLeaderEpoch, at.FetchOffset, at.LastFetchedEpoch, at.PartitionMaxBytes = int32(f["epoch"]), int64(f["end"]), int32(f["last"]), 1<<20
		at.ReplicaDirectoryId = directoryOf(int32(f["from"]))
		topic := protocol.NewFetchRequestFetchTopic()
		topic.TopicId = uuid.Metadata
		topic.Partitions = append(topic.Partitions, at)
		req.Topics = append(req.Topics, topic)
		p.q.Fetch(&rpc.Context{APIVersion: 18}, req, func(r *rpc.FetchReply) {
			for _, part := range r.External {
				if b, err := (Region{Part: part}).Bytes(); err == nil && len(b) > 0 {
					r.Response.Responses[0].Partitions[0].Records = b
				}
			}
			text := fetchText(r.Response)
			if text == "" {
				text = fmt.Sprintf("FetchResponse(nothing highWatermark=%d)", r.Response.Responses[0].Partitions[0].HighWatermark)
			}
			w.printf("%s", text)
			r.Release()
		})
	default:
		w.d.Fatalf(w.t, "unknown request %s", kind)
	}
}
