//go:build interop

package raft

import (
	"sync"
	"testing"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
)

// served are the APIs of a quorum, with the highest version that Kafka asks for.
var served = map[int16]int16{
	(&protocol.FetchRequest{}).APIKey(): 18, (&protocol.ApiVersionsRequest{}).APIKey(): protocol.Lookup(18).MaxStable(), (&protocol.VoteRequest{}).APIKey(): 2,
	(&protocol.BeginQuorumEpochRequest{}).APIKey(): 1, (&protocol.EndQuorumEpochRequest{}).APIKey(): 1,
	(&protocol.DescribeQuorumRequest{}).APIKey(): 2, (&protocol.FetchSnapshotRequest{}).APIKey(): 1,
}

// serve lets a quorum answer on a port.
func serve(t *testing.T, e *real.Env, addr string, q *raft.Quorum) {
	t.Helper()
	l, err := e.Net().Listen(addr, env.ListenOptions{MaxMessage: 16 << 20}, func(env.Conn) env.Handler { return &serverSide{t: t, q: q} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// serverSide is one connection; answers leave in the order of the requests.
type serverSide struct {
	t  *testing.T
	q  *raft.Quorum
	mu sync.Mutex
	// slots are the requests that are not answered, and those behind them.
	slots []*[]byte
}

func (s *serverSide) Opened(env.Conn)        {}
func (s *serverSide) Closed(env.Conn, error) {}

func (s *serverSide) Message(conn env.Conn, b *env.Buffer) {
	frame := append([]byte(nil), b.B...)
	b.Release()
	key, version := int16(frame[0])<<8|int16(frame[1]), int16(frame[2])<<8|int16(frame[3])
	if version > served[key] {
		conn.Close() // a controller of Kafka asks for more than a quorum has
		return
	}
	d := wire.NewDecoder(frame)
	h, req := protocol.NewRequestHeader(), protocol.NewRequest(key)
	if err := h.Decode(d, protocol.RequestHeaderVersion(key, version)); err != nil {
		s.t.Errorf("header of API %d: %v", key, err)
		return
	}
	if err := req.Decode(d, version); err != nil {
		s.t.Errorf("request of API %d version %d: %v", key, version, err)
		return
	}
	slot := new([]byte)
	s.mu.Lock()
	s.slots = append(s.slots, slot)
	s.mu.Unlock()
	s.handle(req, &rpc.Context{APIKey: key, APIVersion: version}, func(resp protocol.Response) {
		rh := protocol.ResponseHeader{CorrelationId: h.CorrelationId}
		out, err := rh.Encode(nil, protocol.ResponseHeaderVersion(key, version))
		if err == nil {
			out, err = resp.Encode(out, version)
		}
		if err != nil {
			s.t.Errorf("answer of API %d version %d: %v", key, version, err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		*slot = out
		for len(s.slots) > 0 && *s.slots[0] != nil {
			conn.Send(env.Outgoing{Parts: []env.Part{{Bytes: *s.slots[0]}}})
			s.slots = s.slots[1:]
		}
	})
}

func (s *serverSide) handle(req protocol.Request, ctx *rpc.Context, answer func(protocol.Response)) {
	switch req := req.(type) {
	case *protocol.ApiVersionsRequest:
		r := protocol.NewApiVersionsResponse()
		for key, highest := range served {
			lowest := int16(0)
			if key == 1 {
				lowest = 4
			}
			r.ApiKeys = append(r.ApiKeys, protocol.ApiVersionsResponseApiVersion{ApiKey: key, MinVersion: lowest, MaxVersion: highest})
		}
		answer(r)
	case *protocol.VoteRequest:
		s.q.Vote(ctx, req, func(r *protocol.VoteResponse) { answer(r) })
	case *protocol.BeginQuorumEpochRequest:
		s.q.BeginQuorumEpoch(ctx, req, func(r *protocol.BeginQuorumEpochResponse) { answer(r) })
	case *protocol.EndQuorumEpochRequest:
		s.q.EndQuorumEpoch(ctx, req, func(r *protocol.EndQuorumEpochResponse) { answer(r) })
	case *protocol.DescribeQuorumRequest:
		s.q.DescribeQuorum(ctx, req, func(r *protocol.DescribeQuorumResponse) { answer(r) })
	case *protocol.FetchSnapshotRequest:
		s.q.FetchSnapshot(ctx, req, func(r *protocol.FetchSnapshotResponse) { answer(r) })
	case *protocol.FetchRequest:
		s.q.Fetch(ctx, req, func(r *rpc.FetchReply) {
			for i, part := range r.External {
				if part.Size() > 0 {
					records, err := (raft.Region{Part: part}).Bytes()
					if err != nil {
						s.t.Errorf("read records of a fetch: %v", err)
						return
					}
					r.Response.Responses[0].Partitions[i].Records = records
				}
			}
			answer(r.Response)
			r.Release()
		})
	}
}
