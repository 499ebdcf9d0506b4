package raft

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// cluster is a quorum on simulated machines n1, n2 and so on: voters first, then observers. Traces and the simulation
// share it.
type cluster struct {
	world *sim.World
	peers []*peer
	kraft int16
	// standbys are controllers that are no voters yet; they come after the observers.
	standbys int
	// tune changes a peer's settings before it starts.
	tune func(*Config)
	// onDisk puts the log on the simulated disk; else it is in memory and loses at a crash what was not synced.
	onDisk bool
	// sent and answered see what goes over the wire; may be nil.
	sent     func(from *peer, to destination, req protocol.Request)
	answered func(from *peer, to destination, req protocol.Request, resp protocol.Response, err error)
	listener func(*peer) Listener
	// watch stands between a quorum and its log; may be nil.
	watch func(*peer, segments) segments
	// features is what a peer says to ApiVersions; kraft.version 0 to 1 if it is nil.
	features func(*peer) []protocol.ApiVersionsResponseSupportedFeatureKey
	fail     func(format string, args ...any)
}

// peer is one machine of a cluster, through all its lives.
type peer struct {
	c       *cluster
	id      int32
	name    string
	voter   bool
	node    *sim.Node
	cfg     Config
	mem     *memorySegments
	q       *Quorum // of this life; nil before it was opened
	fault   error   // that this life ended with
	badDisk bool    // it has given errors
	leaving bool    // this life was asked to shut down
}

func directoryOf(id int32) uuid.UUID { return uuid.UUID{0: byte(id), 15: 1} }

func (c *cluster) endpoint(id int32) Endpoint {
	return Endpoint{"CONTROLLER", fmt.Sprintf("n%d", id), 9093}
}

// voterSet is what the format tool was told.
func (c *cluster) voterSet(voters int) *VoterSet {
	var all []Voter
	for id := int32(1); id <= int32(voters); id++ {
		all = append(all, Voter{Key: ReplicaKey{id, directoryOf(id)}, Endpoints: []Endpoint{c.endpoint(id)}, MaxKRaft: 1})
	}
	return NewVoterSet(all...)
}

// add makes the machines and formats them.
func (c *cluster) add(voters, observers int) {
	set := c.voterSet(voters)
	for id := int32(1); id <= int32(voters+observers+c.standbys); id++ {
		p := &peer{c: c, id: id, name: fmt.Sprintf("n%d", id), voter: id <= int32(voters) || id > int32(voters+observers), mem: &memorySegments{}}
		p.node = c.world.NewNode(p.name)
		cfg := DefaultConfig()
		cfg.NodeID, cfg.Voter, cfg.ClusterID, cfg.MetadataDir, cfg.ListenerName = id, p.voter, "cluster", "/d", "CONTROLLER"
		cfg.DirectoryID = directoryOf(id)
		if p.voter {
			cfg.Listeners = []Endpoint{c.endpoint(id)}
		}
		for _, v := range set.All() {
			cfg.Bootstrap = append(cfg.Bootstrap, v.Endpoints[0].address())
			if c.kraft == 0 {
				cfg.StaticVoters = append(cfg.StaticVoters, Voter{Key: ReplicaKey{ID: v.Key.ID}, Endpoints: v.Endpoints})
			}
		}
		p.cfg = cfg
		c.peers = append(c.peers, p)
		c.format(p, set)
	}
}

func (c *cluster) format(p *peer, set *VoterSet) {
	fsys := p.node.FS()
	check := func(err error) {
		if err != nil {
			c.fail("format %s: %v", p.name, err)
		}
	}
	check(fsys.MkdirAll(p.cfg.LogDir(), 0o755))
	for _, dir := range []string{"/", p.cfg.MetadataDir} {
		check(fsys.SyncDir(dir))
	}
	head := SnapshotHead{KRaftVersion: c.kraft}
	if c.kraft > 0 {
		head.Voters = set
	}
	w, err := newSnapshotWriter(fsys, p.cfg.LogDir(), bootstrapID, head, snapshotOptions{suffix: "format", maxBatch: 1 << 20, clock: func() int64 { return 0 }})
	check(err)
	check(w.Append(noOps(1)))
	check(w.Freeze())
	check(w.Close())
}

// port is where a node listens.
func (p *peer) port() uint16 {
	if len(p.cfg.Listeners) > 0 {
		return p.cfg.Listeners[0].Port
	}
	return 9093
}

// start begins a life, as an event of its machine.
func (p *peer) start() {
	p.q, p.fault, p.leaving = nil, nil, false
	node := p.node
	node.Do("start", func() {
		cfg := p.cfg
		if p.c.tune != nil {
			p.c.tune(&cfg)
		}
		cfg.OnFault = func(err error) { p.fault = err }
		var log segments = p.mem
		if p.c.onDisk {
			var err error
			if log, err = openSegments(node, &cfg); err != nil {
				p.broken("open log", err)
				return
			}
		}
		if p.c.watch != nil {
			log = p.c.watch(p, log)
		}
		q, err := open(node, cfg, log)
		if err != nil {
			p.broken("open", err)
			return
		}
		q.net = &watchedTransport{newRPCTransport(node, p.id), p}
		if _, err := node.Net().Listen(fmt.Sprintf(":%d", p.port()), env.ListenOptions{MaxMessage: 64 << 20}, func(env.Conn) env.Handler { return &serverSide{p: p, q: q} }); err != nil {
			p.c.fail("%s: listen: %v", p.name, err)
			return
		}
		if p.c.listener != nil {
			q.Register(p.c.listener(p))
		}
		p.q = q
		q.Start()
	})
}

// broken ends a life because of its disk; that of a good disk is a bug.
func (p *peer) broken(what string, err error) {
	if !p.badDisk {
		p.c.fail("%s: %s: %v", p.name, what, err)
	}
	p.fault = err
}

// crash cuts the power.
func (p *peer) crash() {
	if p.node.Alive() {
		p.node.Crash()
	}
	p.q = nil
}

// restart begins the next life, after a crash or a kill.
func (p *peer) restart() {
	lost := !p.node.Alive()
	p.node = p.node.Restart()
	if lost {
		p.mem.crash()
	}
	p.start()
}

// leads reports whether this life leads now.
func (p *peer) leads() bool {
	if p.q == nil || !p.node.Alive() || p.q.failed {
		return false
	}
	_, ok := p.q.state.(*leader)
	return ok
}

// leader is the one that leads in the latest epoch; nil if nobody does.
func (c *cluster) leader() *peer {
	var found *peer
	for _, p := range c.peers {
		if p.leads() && (found == nil || p.q.election.Epoch > found.q.election.Epoch) {
			found = p
		}
	}
	return found
}

// watchedTransport is the real transport, with somebody looking on.
type watchedTransport struct {
	transport
	p *peer
}

func (t *watchedTransport) send(to destination, req protocol.Request, version int16, timeout time.Duration, done func(protocol.Response, error)) {
	c := t.p.c
	if c.sent != nil {
		c.sent(t.p, to, req)
	}
	t.transport.send(to, req, version, timeout, func(resp protocol.Response, err error) {
		if c.answered != nil {
			c.answered(t.p, to, req, resp, err)
		}
		done(resp, err)
	})
}

// serverSide is one connection that a peer has accepted. Answers leave in the order of the requests.
type serverSide struct {
	p     *peer
	q     *Quorum
	slots []*[]byte // of the requests that are not answered, and of those behind them
}

func (s *serverSide) Opened(env.Conn)        {}
func (s *serverSide) Closed(env.Conn, error) {}

// Message decodes a request, gives it to the quorum, and sends the answer.
func (s *serverSide) Message(conn env.Conn, b *env.Buffer) {
	frame := append([]byte(nil), b.B...)
	b.Release()
	key, version := int16(frame[0])<<8|int16(frame[1]), int16(frame[2])<<8|int16(frame[3])
	d := wire.NewDecoder(frame)
	h, req := protocol.NewRequestHeader(), protocol.NewRequest(key)
	if err := h.Decode(d, protocol.RequestHeaderVersion(key, version)); err != nil {
		s.p.c.fail("%s: header: %v", s.p.name, err)
		return
	}
	if err := req.Decode(d, version); err != nil {
		s.p.c.fail("%s: request: %v", s.p.name, err)
		return
	}
	slot := new([]byte)
	s.slots = append(s.slots, slot)
	answer := func(resp protocol.Response) {
		rh := protocol.ResponseHeader{CorrelationId: h.CorrelationId}
		out, err := rh.Encode(nil, protocol.ResponseHeaderVersion(key, version))
		if err == nil {
			out, err = resp.Encode(out, version)
		}
		if err != nil {
			s.p.c.fail("%s: response: %v", s.p.name, err)
			return
		}
		*slot = out
		for len(s.slots) > 0 && *s.slots[0] != nil {
			conn.Send(env.Outgoing{Parts: []env.Part{{Bytes: *s.slots[0]}}})
			s.slots = s.slots[1:]
		}
	}
	ctx := &rpc.Context{APIKey: key, APIVersion: version}
	switch req := req.(type) {
	case *protocol.VoteRequest:
		s.q.Vote(ctx, req, func(r *protocol.VoteResponse) { answer(r) })
	case *protocol.BeginQuorumEpochRequest:
		s.q.BeginQuorumEpoch(ctx, req, func(r *protocol.BeginQuorumEpochResponse) { answer(r) })
	case *protocol.EndQuorumEpochRequest:
		s.q.EndQuorumEpoch(ctx, req, func(r *protocol.EndQuorumEpochResponse) { answer(r) })
	case *protocol.FetchSnapshotRequest:
		s.q.FetchSnapshot(ctx, req, func(r *protocol.FetchSnapshotResponse) { answer(r) })
	case *protocol.AddRaftVoterRequest:
		s.q.AddRaftVoter(ctx, req, func(r *protocol.AddRaftVoterResponse) { answer(r) })
	case *protocol.RemoveRaftVoterRequest:
		s.q.RemoveRaftVoter(ctx, req, func(r *protocol.RemoveRaftVoterResponse) { answer(r) })
	case *protocol.UpdateRaftVoterRequest:
		s.q.UpdateRaftVoter(ctx, req, func(r *protocol.UpdateRaftVoterResponse) { answer(r) })
	case *protocol.ApiVersionsRequest:
		r := protocol.NewApiVersionsResponse()
		if s.p.c.features != nil {
			r.SupportedFeatures = s.p.c.features(s.p)
		} else {
			r.SupportedFeatures = []protocol.ApiVersionsResponseSupportedFeatureKey{{Name: "kraft.version", MaxVersion: 1}}
		}
		answer(r)
	case *protocol.FetchRequest:
		s.q.Fetch(ctx, req, func(r *rpc.FetchReply) {
			for i, part := range r.External {
				if part.Size() == 0 {
					continue
				}
				records, err := Region{Part: part}.Bytes()
				if err != nil {
					s.p.broken("read records of a fetch", err)
					conn.Close()
					return
				}
				r.Response.Responses[0].Partitions[i].Records = records
			}
			answer(r.Response)
			r.Release()
		})
	default:
		s.p.c.fail("%s: request with key %d", s.p.name, key)
	}
}

// values are records that can be told apart.
func values(list ...int64) []metadata.Versioned {
	out := make([]metadata.Versioned, len(list))
	for i, v := range list {
		out[i] = metadata.Versioned{Record: &metadata.ProducerIdsRecord{NextProducerId: v}}
	}
	return out
}

func valueOf(v metadata.Versioned) int64 {
	if r, ok := v.Record.(*metadata.ProducerIdsRecord); ok {
		return r.NextProducerId
	}
	return -1
}
