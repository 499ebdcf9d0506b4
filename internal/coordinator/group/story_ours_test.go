package group

import (
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ourSide speaks to our service through the codec.
type ourSide struct{ w *world }

func (o *ourSide) settle()                { o.w.clock.settle() }
func (o *ourSide) elapse(d time.Duration) { o.w.clock.advance(d) }
func (o *ourSide) suffix() string         { return "" }
func (o *ourSide) topicID(name string) uuid.UUID {
	if t, ok := o.w.topics[name]; ok {
		return t.ID
	}
	return uuid.UUID{1}
}

func (o *ourSide) send(key, version int16, req protocol.Request, answer func(protocol.Response)) {
	b, err := req.Encode(nil, version)
	if err != nil {
		panic(err)
	}
	in := protocol.NewRequest(key)
	if err := in.Decode(wire.NewDecoder(b), version); err != nil {
		panic(err)
	}
	ctx := &rpc.Context{ClientID: "c", APIKey: key, APIVersion: version, RemoteAddr: "127.0.0.1:5000"}
	back := func(resp protocol.Response) {
		b, err := resp.Encode(nil, version)
		if err != nil {
			panic(err)
		}
		out := protocol.NewResponse(key)
		if err := out.Decode(wire.NewDecoder(b), version); err != nil {
			panic(err)
		}
		answer(out)
	}
	svc := o.w.svc
	switch r := in.(type) {
	case *protocol.JoinGroupRequest:
		svc.JoinGroup(ctx, r, func(x *protocol.JoinGroupResponse) { back(x) })
	case *protocol.SyncGroupRequest:
		svc.SyncGroup(ctx, r, func(x *protocol.SyncGroupResponse) { back(x) })
	case *protocol.HeartbeatRequest:
		svc.Heartbeat(ctx, r, func(x *protocol.HeartbeatResponse) { back(x) })
	case *protocol.LeaveGroupRequest:
		svc.LeaveGroup(ctx, r, func(x *protocol.LeaveGroupResponse) { back(x) })
	case *protocol.OffsetCommitRequest:
		svc.OffsetCommit(ctx, r, func(x *protocol.OffsetCommitResponse) { back(x) })
	case *protocol.OffsetFetchRequest:
		svc.OffsetFetch(ctx, r, func(x *protocol.OffsetFetchResponse) { back(x) })
	case *protocol.OffsetDeleteRequest:
		svc.OffsetDelete(ctx, r, func(x *protocol.OffsetDeleteResponse) { back(x) })
	case *protocol.ListGroupsRequest:
		svc.ListGroups(ctx, r, func(x *protocol.ListGroupsResponse) { back(x) })
	case *protocol.DescribeGroupsRequest:
		svc.DescribeGroups(ctx, r, func(x *protocol.DescribeGroupsResponse) { back(x) })
	case *protocol.DeleteGroupsRequest:
		svc.DeleteGroups(ctx, r, func(x *protocol.DeleteGroupsResponse) { back(x) })
	}
	for i := range b {
		b[i] = 0xee // the request's bytes are gone once the handler has returned
	}
}

// do runs what only our side can: faults, a restart, a look inside.
func (o *ourSide) do(cmd, arg string) string {
	w := o.w
	switch cmd {
	case "hold-log":
		w.logs.Partition(0).Hold()
		w.logs.Partition(1).Hold()
	case "commit-log":
		w.logs.Partition(0).Commit()
		w.logs.Partition(1).Commit()
	case "refuse-log":
		var err error
		if arg != "off" {
			for c := int16(1); c < 140; c++ {
				if kerr.Name(c) == arg {
					err = kerr.FromCode(c)
				}
			}
		}
		w.logs.Partition(0).Refuse(err)
		w.logs.Partition(1).Refuse(err)
	case "resign":
		w.svc.OnResignation(0, w.epoch)
		w.svc.OnResignation(1, w.epoch)
	case "restart":
		before := w.state()
		w.svc.Close(func() {})
		w.clock.settle()
		w.start()
		if after := w.state(); after != before {
			return "before:\n" + before + "after:\n" + after
		}
		return "same state\n"
	case "delete-topic":
		t := w.topics[arg]
		delete(w.topics, arg)
		w.svc.OnTopicsDeleted([]Topic{t})
	case "state":
		return w.state()
	}
	return ""
}
