package group

import (
	"errors"
	"strings"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// ListGroups (16), versions 0-5: v3 flexible, v4 states (KIP-518), v5 types (KIP-848).
//
// Every partition that is loaded here answers for its groups.
// Errors: COORDINATOR_LOAD_IN_PROGRESS, if a partition is still loading.
func (s *Service) ListGroups(_ *rpc.Context, req *protocol.ListGroupsRequest, respond func(*protocol.ListGroupsResponse)) {
	states, types := filter(req.StatesFilter), filter(req.TypesFilter)
	partitions := s.runtime.Partitions()
	type listed struct {
		groups []protocol.ListGroupsResponseListedGroup
		err    error
	}
	all := newGather(len(partitions), func(parts []listed) {
		resp := protocol.NewListGroupsResponse()
		resp.Groups = []protocol.ListGroupsResponseListedGroup{}
		for _, p := range parts {
			switch {
			case p.err == nil:
				resp.Groups = append(resp.Groups, p.groups...)
			case !errors.Is(p.err, kerr.NotCoordinator) && resp.ErrorCode == 0:
				resp.ErrorCode = kerr.Code(p.err)
			}
		}
		if resp.ErrorCode != 0 {
			resp.Groups = nil
		}
		respond(resp)
	})
	for i, p := range partitions {
		s.runtime.Do(p, "ListGroups", func(sh *shard) { all.set(i, listed{groups: sh.list(states, types)}) },
			func(err error) { all.set(i, listed{err: err}) })
	}
}

// filter is a set of names in lower case; empty: everything.
func filter(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[strings.ToLower(strings.TrimSpace(n))] = true
	}
	return set
}

func (s *shard) list(states, types map[string]bool) []protocol.ListGroupsResponseListedGroup {
	var groups []protocol.ListGroupsResponseListedGroup
	for _, g := range s.sorted() {
		if len(states) > 0 && !states[strings.ToLower(g.stateName())] || len(types) > 0 && !types[g.groupType().String()] {
			continue
		}
		l := protocol.NewListGroupsResponseListedGroup()
		l.GroupId, l.GroupState, l.GroupType = g.groupID(), g.stateName(), g.groupType().String()
		switch g := g.(type) {
		case *classicGroup:
			l.ProtocolType = deref(g.protocolType, "")
		case *modernGroup:
			l.ProtocolType = g.protocolType()
		}
		groups = append(groups, l)
	}
	return groups
}

// DescribeGroups (15), versions 0-6: v3 authorized operations (KIP-430), v4 static members, v5 flexible, v6 an unknown group
// is GROUP_ID_NOT_FOUND with a message (KIP-1043); before it is a group in state Dead.
//
// Errors by group: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND. Groups of other types than classic are not
// found.
func (s *Service) DescribeGroups(ctx *rpc.Context, req *protocol.DescribeGroupsRequest, respond func(*protocol.DescribeGroupsResponse)) {
	all := newGather(len(req.Groups), func(groups []protocol.DescribeGroupsResponseDescribedGroup) {
		resp := protocol.NewDescribeGroupsResponse()
		resp.Groups = groups
		respond(resp)
	})
	for i, id := range req.Groups {
		s.do("DescribeGroups", id, func(sh *shard) {
			d := sh.describe(id, ctx.APIVersion)
			if req.IncludeAuthorizedOperations && d.ErrorCode == 0 {
				d.AuthorizedOperations = allGroupOperations
			}
			all.set(i, d)
		}, func(err error) {
			d := protocol.NewDescribeGroupsResponseDescribedGroup()
			d.GroupId, d.ErrorCode = id, kerr.Code(err)
			all.set(i, d)
		})
	}
}

// allGroupOperations are the bits of what may be done to a group: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
const allGroupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func (s *shard) describe(id string, version int16) protocol.DescribeGroupsResponseDescribedGroup {
	d := protocol.NewDescribeGroupsResponseDescribedGroup()
	d.GroupId = id
	g, ok := s.groups[id].(*classicGroup)
	if !ok {
		d.GroupState = dead.String()
		if version >= 6 {
			d.ErrorCode = kerr.GroupIdNotFound.Code
			text := "Group " + id + " not found."
			if s.groups[id] != nil {
				text = "Group " + id + " is not a classic group."
			}
			d.ErrorMessage = &text
		}
		return d
	}
	d.GroupState, d.ProtocolType = g.stateName(), deref(g.protocolType, "")
	if g.state == stable {
		d.ProtocolData = deref(g.protocol, "")
	}
	for _, m := range g.members {
		dm := protocol.NewDescribeGroupsResponseDescribedGroupMember()
		dm.MemberId, dm.GroupInstanceId, dm.ClientId, dm.ClientHost = m.id, m.instanceID, m.clientID, m.clientHost
		dm.MemberAssignment = m.assignment
		if g.state == stable {
			dm.MemberMetadata = m.metadata(deref(g.protocol, ""))
		}
		d.Members = append(d.Members, dm)
	}
	return d
}

// DeleteGroups (42), versions 0-3: v2 flexible, v3 error message.
//
// Path: shard.deleteGroup → the tombstones of offsets and group are committed → respond.
// Errors by group: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
func (s *Service) DeleteGroups(_ *rpc.Context, req *protocol.DeleteGroupsRequest, respond func(*protocol.DeleteGroupsResponse)) {
	var ids []string
	seen := make(map[string]bool)
	for _, id := range req.GroupsNames {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	all := newGather(len(ids), func(results []protocol.DeleteGroupsResponseDeletableGroupResult) {
		resp := protocol.NewDeleteGroupsResponse()
		resp.Results = results
		respond(resp)
	})
	for i, id := range ids {
		done := func(err error) {
			r := protocol.NewDeleteGroupsResponseDeletableGroupResult()
			r.GroupId, r.ErrorCode = id, kerr.Code(err)
			all.set(i, r)
		}
		s.do("DeleteGroups", id, func(sh *shard) { sh.deleteGroup(id, done) }, done)
	}
}

func (s *shard) deleteGroup(id string, done func(error)) {
	g, ok := s.groups[id]
	switch {
	case !ok:
		done(kerr.GroupIdNotFound)
		return
	case !g.isEmpty():
		done(kerr.NonEmptyGroup)
		return
	}
	var records []coordinator.Record
	at := s.offsets.allOf(id)
	for _, tp := range at {
		records = append(records, offsetTombstone(id, tp.topic, tp.partition))
	}
	s.rt.Logger().Info("The following groups were deleted", "groups", id, "offsets", len(at))
	s.rt.Write(append(records, groupTombstones(g)...), done)
}
