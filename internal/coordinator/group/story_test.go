package group

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// kafkaAddr has the stories told to a server instead of to our service; with -rewrite its answers become the expected
// ones. The server needs offsets.topic.num.partitions=2, group.min.session.timeout.ms=1000,
// group.initial.rebalance.delay.ms=1000 and group.max.size=4, and topics t (3 partitions) and u (1).
var kafkaAddr = flag.String("kafka", "", "host:port of an Apache Kafka 4.4.0 to tell the stories to")

// TestStories tells stories of groups to the coordinator, under virtual time. The answers in testdata were recorded from
// Apache Kafka 4.4.0, except in files that say so in their name (ours_*).
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			var side server
			switch {
			case *kafkaAddr == "":
				side = &ourSide{w: newWorld()}
			case strings.HasPrefix(filepath.Base(f), "ours_"):
				return
			default:
				side = newKafkaSide(t)
			}
			s := &story{t: t, server: side, real: map[string]string{}, shown: map[string]string{}, count: map[string]int{}}
			datadriven.RunTest(t, f, s.run)
		})
	}
}

// server is who is spoken to.
type server interface {
	send(key, version int16, req protocol.Request, answer func(protocol.Response))
	elapse(d time.Duration)
	settle()
	topicID(name string) uuid.UUID
	suffix() string // put behind group ids, so that runs do not meet
	do(cmd string, arg string) string
}

// story is one file: names for what is different in every run, and requests that wait.
type story struct {
	t      *testing.T
	server server
	real   map[string]string // shown member id → real one
	shown  map[string]string
	count  map[string]int
	names  []string // requests without an answer, in the order in which they were sent
	done   map[string]func() string
	joins  map[string]*protocol.JoinGroupResponse
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	if s.done == nil {
		s.done, s.joins = map[string]func() string{}, map[string]*protocol.JoinGroupResponse{}
	}
	var out strings.Builder
	switch d.Cmd {
	case "elapse":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		s.server.elapse(dur)
	case "commit-log", "hold-log", "refuse-log", "restart", "delete-topic", "resign", "state", "records":
		arg := ""
		if len(d.CmdArgs) > 0 {
			arg = d.CmdArgs[0].Key
		}
		out.WriteString(s.show(s.server.do(d.Cmd, arg)))
	default:
		s.send(d)
	}
	s.server.settle()
	for _, name := range s.names { // ids get their names in the order of the requests
		if resp, ok := s.joins[name]; ok {
			s.show(resp.MemberId)
		}
	}
	clear(s.joins)
	waiting := s.names[:0]
	for _, name := range s.names {
		show, ok := s.done[name]
		if !ok {
			waiting = append(waiting, name)
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", name, s.show(show()))
	}
	s.names = waiting
	if out.Len() == 0 {
		return "ok\n"
	}
	return out.String()
}

// args reads the arguments of a request.
type args struct {
	s *story
	d *datadriven.TestData
}

func (a args) str(key string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return ""
}
func (a args) has(key string) bool {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return true
		}
	}
	return false
}
func (a args) num(key string, otherwise int) int {
	if v := a.str(key); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			a.d.Fatalf(a.s.t, "%s: %v", key, err)
		}
		return n
	}
	return otherwise
}
func (a args) list(key string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			if len(arg.Vals) == 1 && key == "g" {
				return arg.Vals // also the empty group id
			}
			var vals []string
			for _, v := range arg.Vals {
				if v != "" {
					vals = append(vals, v)
				}
			}
			return vals
		}
	}
	return nil
}
func (a args) opt(key string) *string {
	if !a.has(key) {
		return nil
	}
	v := a.str(key)
	return &v
}
func (a args) group() string { return a.s.group(a.str("g")) }
func (a args) member() string {
	return a.s.realID(a.str("m"))
}

func (s *story) group(g string) string {
	if g == "" {
		return ""
	}
	return g + s.server.suffix()
}

func (s *story) realID(shown string) string {
	if r, ok := s.real[shown]; ok {
		return r
	}
	return shown
}

var memberIDs = regexp.MustCompile(`([A-Za-z0-9]+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// show replaces what differs from run to run.
func (s *story) show(text string) string {
	text = memberIDs.ReplaceAllStringFunc(text, func(id string) string {
		if v, ok := s.shown[id]; ok {
			return v
		}
		prefix := memberIDs.FindStringSubmatch(id)[1]
		s.count[prefix]++
		v := prefix + "-" + strconv.Itoa(s.count[prefix])
		s.shown[id], s.real[v] = v, id
		return v
	})
	if suffix := s.server.suffix(); suffix != "" {
		text = strings.ReplaceAll(text, suffix, "")
	}
	return text
}

func (s *story) send(d *datadriven.TestData) {
	a := args{s, d}
	version := int16(a.num("v", -1))
	var req protocol.Request
	var show func(protocol.Response) string
	name := d.Cmd
	switch d.Cmd {
	case "join":
		r := protocol.NewJoinGroupRequest()
		r.GroupId, r.MemberId, r.GroupInstanceId = a.group(), a.member(), a.opt("instance")
		r.SessionTimeoutMs = int32(a.num("session", 10000))
		if version >= 1 {
			r.RebalanceTimeoutMs = int32(a.num("rebalance", 3000))
		}
		r.ProtocolType = "consumer"
		if a.has("type") {
			r.ProtocolType = a.str("type")
		}
		protocols := a.list("protocols")
		if !a.has("protocols") {
			protocols = []string{"range"}
		}
		for _, p := range protocols {
			name, metadata, ok := strings.Cut(p, "/")
			if !ok {
				metadata = "t"
			}
			r.Protocols = append(r.Protocols, protocol.JoinGroupRequestProtocol{Name: name, Metadata: subscription(metadata)})
		}
		req, show = r, func(resp protocol.Response) string { return s.showJoin(resp.(*protocol.JoinGroupResponse)) }
	case "sync":
		r := protocol.NewSyncGroupRequest()
		r.GroupId, r.MemberId, r.GroupInstanceId, r.GenerationId = a.group(), a.member(), a.opt("instance"), int32(a.num("gen", 0))
		if version >= 5 && !a.has("noprotocol") {
			typ, name := "consumer", "range"
			if a.has("type") {
				typ = a.str("type")
			}
			if a.has("protocol") {
				name = a.str("protocol")
			}
			r.ProtocolType, r.ProtocolName = &typ, &name
		}
		for _, as := range a.list("assign") {
			m, bytes, _ := strings.Cut(as, "/")
			r.Assignments = append(r.Assignments, protocol.SyncGroupRequestAssignment{MemberId: s.realID(m), Assignment: []byte(bytes)})
		}
		req, show = r, func(resp protocol.Response) string {
			x := resp.(*protocol.SyncGroupResponse)
			return fmt.Sprintf("%s type=%s protocol=%s assignment=%q", kerr.Name(x.ErrorCode), ptr(x.ProtocolType), ptr(x.ProtocolName), x.Assignment)
		}
	case "heartbeat":
		r := protocol.NewHeartbeatRequest()
		r.GroupId, r.MemberId, r.GroupInstanceId, r.GenerationId = a.group(), a.member(), a.opt("instance"), int32(a.num("gen", 0))
		req, show = r, func(resp protocol.Response) string { return kerr.Name(resp.(*protocol.HeartbeatResponse).ErrorCode) }
	case "leave":
		r := protocol.NewLeaveGroupRequest()
		r.GroupId = a.group()
		if version < 3 {
			r.MemberId = a.member()
		} else {
			for _, m := range a.list("members") {
				id, instance, static := strings.Cut(m, "/")
				one := protocol.NewLeaveGroupRequestMemberIdentity()
				one.MemberId = s.realID(id)
				if static {
					one.GroupInstanceId = &instance
				}
				r.Members = append(r.Members, one)
			}
		}
		req, show = r, func(resp protocol.Response) string {
			x := resp.(*protocol.LeaveGroupResponse)
			out := kerr.Name(x.ErrorCode)
			for _, m := range x.Members {
				out += fmt.Sprintf(" (%s %s %s)", m.MemberId, ptr(m.GroupInstanceId), kerr.Name(m.ErrorCode))
			}
			return out
		}
	case "commit":
		req, show = s.commitRequest(a, version)
	case "fetch":
		req, show = s.fetchRequest(a, version)
	case "offset-delete":
		r := protocol.NewOffsetDeleteRequest()
		r.GroupId = a.group()
		for _, t := range a.list("topics") {
			topic, parts, _ := strings.Cut(t, "/")
			rt := protocol.NewOffsetDeleteRequestTopic()
			rt.Name = topic
			for _, p := range numbers(parts) {
				rt.Partitions = append(rt.Partitions, protocol.OffsetDeleteRequestPartition{PartitionIndex: p})
			}
			r.Topics = append(r.Topics, rt)
		}
		req, show = r, func(resp protocol.Response) string {
			x := resp.(*protocol.OffsetDeleteResponse)
			var rows []string
			for _, t := range x.Topics {
				for _, p := range t.Partitions {
					rows = append(rows, fmt.Sprintf("%s-%d=%s", t.Name, p.PartitionIndex, kerr.Name(p.ErrorCode)))
				}
			}
			return kerr.Name(x.ErrorCode) + sorted(rows)
		}
	case "list":
		r := protocol.NewListGroupsRequest()
		r.StatesFilter, r.TypesFilter = a.list("states"), a.list("types")
		req, show = r, func(resp protocol.Response) string {
			x := resp.(*protocol.ListGroupsResponse)
			var rows []string
			for _, g := range x.Groups {
				if g.GroupId == "" || !strings.HasSuffix(g.GroupId, s.server.suffix()) {
					continue // of another run
				}
				rows = append(rows, fmt.Sprintf("(%s protocol=%q state=%q type=%q)", g.GroupId, g.ProtocolType, g.GroupState, g.GroupType))
			}
			return kerr.Name(x.ErrorCode) + sortedBy(rows, s.show)
		}
	case "describe":
		r := protocol.NewDescribeGroupsRequest()
		r.IncludeAuthorizedOperations = a.has("operations")
		for _, g := range a.list("g") {
			r.Groups = append(r.Groups, s.group(g))
		}
		req, show = r, func(resp protocol.Response) string { return s.showDescribe(resp.(*protocol.DescribeGroupsResponse)) }
	case "delete":
		r := protocol.NewDeleteGroupsRequest()
		for _, g := range a.list("g") {
			r.GroupsNames = append(r.GroupsNames, s.group(g))
		}
		req, show = r, func(resp protocol.Response) string {
			var rows []string
			for _, g := range resp.(*protocol.DeleteGroupsResponse).Results {
				rows = append(rows, fmt.Sprintf("%s=%s%s", g.GroupId, kerr.Name(g.ErrorCode), message(g.ErrorMessage)))
			}
			return strings.TrimSpace(sorted(rows))
		}
	default:
		d.Fatalf(s.t, "no such command")
	}
	if n := a.str("as"); n != "" {
		name = n
	}
	key := req.APIKey()
	if version < 0 {
		version = protocol.Lookup(key).MaxStable()
	}
	delete(s.done, name)
	s.names = append(s.names, name)
	s.server.send(key, version, req, func(resp protocol.Response) {
		if j, ok := resp.(*protocol.JoinGroupResponse); ok {
			s.joins[name] = j
		}
		s.done[name] = func() string { return show(resp) }
	})
}

func (s *story) showJoin(x *protocol.JoinGroupResponse) string {
	out := fmt.Sprintf("%s member=%s gen=%d type=%s protocol=%s leader=%s", kerr.Name(x.ErrorCode), x.MemberId, x.GenerationId,
		ptr(x.ProtocolType), ptr(x.ProtocolName), x.Leader)
	if x.SkipAssignment {
		out += " skipAssignment"
	}
	var rows []string
	for _, m := range x.Members {
		rows = append(rows, fmt.Sprintf("(%s instance=%s %s)", m.MemberId, ptr(m.GroupInstanceId), subscribed(m.Metadata)))
	}
	// Kafka's order is that of a Java HashMap of random ids.
	return s.show(out) + sortedBy(rows, s.show)
}

func (s *story) showDescribe(x *protocol.DescribeGroupsResponse) string {
	var groups []string
	for _, g := range x.Groups {
		out := fmt.Sprintf("[%s %s state=%s type=%q data=%q", g.GroupId, kerr.Name(g.ErrorCode)+message(g.ErrorMessage), g.GroupState, g.ProtocolType, g.ProtocolData)
		if g.AuthorizedOperations != -2147483648 {
			out += fmt.Sprintf(" operations=%d", g.AuthorizedOperations)
		}
		var rows []string
		for _, m := range g.Members {
			rows = append(rows, fmt.Sprintf("(%s instance=%s client=%s host=%s metadata=%s assignment=%q)", m.MemberId, ptr(m.GroupInstanceId),
				m.ClientId, m.ClientHost, subscribed(m.MemberMetadata), m.MemberAssignment))
		}
		groups = append(groups, out+sortedBy(rows, s.show)+"]")
	}
	sort.Strings(groups)
	return strings.Join(groups, " ")
}

func (s *story) commitRequest(a args, version int16) (protocol.Request, func(protocol.Response) string) {
	r := protocol.NewOffsetCommitRequest()
	r.GroupId, r.MemberId, r.GroupInstanceId, r.GenerationIdOrMemberEpoch = a.group(), a.member(), a.opt("instance"), int32(a.num("gen", -1))
	r.RetentionTimeMs = int64(a.num("retention", -1))
	for _, o := range a.list("offsets") { // t-0/5 or t-0/5/epoch/metadata
		f := strings.Split(o, "/")
		topic, part, _ := strings.Cut(f[0], "-")
		n, err := strconv.Atoi(f[1])
		if err != nil {
			a.d.Fatalf(s.t, "%v", err)
		}
		p := protocol.NewOffsetCommitRequestPartition()
		p.PartitionIndex, p.CommittedOffset = numbers(part)[0], int64(n)
		metadata := ""
		if len(f) > 2 && version >= 6 {
			p.CommittedLeaderEpoch = numbers(f[2])[0]
		}
		if len(f) > 3 {
			metadata = f[3]
			if n, ok := strings.CutPrefix(metadata, "x*"); ok {
				metadata = strings.Repeat("x", int(numbers(n)[0]))
			}
		}
		if metadata != "null" {
			p.CommittedMetadata = &metadata
		}
		rt := protocol.NewOffsetCommitRequestTopic()
		rt.Name = topic
		if version >= 10 || version < 0 {
			rt.Name, rt.TopicId = "", s.server.topicID(topic)
		}
		rt.Partitions = append(rt.Partitions, p)
		r.Topics = append(r.Topics, rt)
	}
	return r, func(resp protocol.Response) string {
		var rows []string
		for _, t := range resp.(*protocol.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				rows = append(rows, fmt.Sprintf("%s-%d=%s", s.topicName(t.Name, t.TopicId), p.PartitionIndex, kerr.Name(p.ErrorCode)))
			}
		}
		return strings.TrimSpace(sorted(rows))
	}
}

func (s *story) topicName(name string, id uuid.UUID) string {
	if id == uuid.Zero {
		return name
	}
	for _, n := range []string{"t", "u", "gone"} {
		if s.server.topicID(n) == id {
			return name + "#" + n
		}
	}
	return name + "#" + id.String()
}

func (s *story) fetchRequest(a args, version int16) (protocol.Request, func(protocol.Response) string) {
	r := protocol.NewOffsetFetchRequest()
	r.RequireStable = a.has("stable")
	old := version >= 0 && version < 8
	byID := version >= 10 || version < 0
	type topic struct {
		name  string
		parts []int32
	}
	var topics []topic
	for _, t := range a.list("topics") {
		name, parts, _ := strings.Cut(t, "/")
		topics = append(topics, topic{name, numbers(parts)})
	}
	if old {
		r.GroupId = a.group()
		for _, t := range topics {
			r.Topics = append(r.Topics, protocol.OffsetFetchRequestTopic{Name: t.name, PartitionIndexes: t.parts})
		}
		if !a.has("topics") {
			r.Topics = nil
		}
	} else {
		for _, g := range a.list("g") {
			rg := protocol.NewOffsetFetchRequestGroup()
			rg.GroupId = s.group(g)
			if version >= 9 || version < 0 {
				if a.has("m") {
					m := a.member()
					rg.MemberId = &m
				}
				rg.MemberEpoch = int32(a.num("epoch", -1))
			}
			for _, t := range topics {
				rt := protocol.OffsetFetchRequestTopics{Name: t.name, PartitionIndexes: t.parts}
				if byID {
					rt.Name, rt.TopicId = "", s.server.topicID(t.name)
				}
				rg.Topics = append(rg.Topics, rt)
			}
			r.Groups = append(r.Groups, rg)
		}
	}
	return r, func(resp protocol.Response) string {
		x := resp.(*protocol.OffsetFetchResponse)
		row := func(name string, p, epoch int32, offset int64, metadata *string, code int16) string {
			return fmt.Sprintf("%s-%d=%d/%d/%s %s", name, p, offset, epoch, ptr(metadata), kerr.Name(code))
		}
		if old {
			var rows []string
			for _, t := range x.Topics {
				for _, p := range t.Partitions {
					rows = append(rows, row(t.Name, p.PartitionIndex, p.CommittedLeaderEpoch, p.CommittedOffset, p.Metadata, p.ErrorCode))
				}
			}
			return kerr.Name(x.ErrorCode) + sorted(rows)
		}
		var groups []string
		for _, g := range x.Groups {
			var rows []string
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					rows = append(rows, row(s.topicName(t.Name, t.TopicId), p.PartitionIndex, p.CommittedLeaderEpoch, p.CommittedOffset, p.Metadata, p.ErrorCode))
				}
			}
			groups = append(groups, "["+g.GroupId+" "+kerr.Name(g.ErrorCode)+sorted(rows)+"]")
		}
		return strings.TrimSpace(sorted(groups))
	}
}

// subscription is consumer metadata for topics joined by +; version 0.
func subscription(topics string) []byte {
	var m protocol.ConsumerProtocolSubscription
	if topics != "" {
		m.Topics = strings.Split(topics, "+")
	}
	if topics == "garbage" {
		return []byte{1}
	}
	b, err := m.Encode([]byte{0, 0}, 0)
	if err != nil {
		panic(err)
	}
	return b
}

func subscribed(b []byte) string {
	if len(b) < 2 {
		return fmt.Sprintf("%q", b)
	}
	var m protocol.ConsumerProtocolSubscription
	if err := m.Decode(wire.NewDecoder(b[2:]), 0); err != nil {
		return err.Error()
	}
	return strings.Join(m.Topics, "+")
}

func numbers(s string) []int32 {
	var all []int32
	for _, f := range strings.Split(s, "+") {
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(err)
		}
		all = append(all, int32(n))
	}
	return all
}

func sorted(rows []string) string { return sortedBy(rows, func(s string) string { return s }) }

func sortedBy(rows []string, show func(string) string) string {
	for i := range rows {
		rows[i] = show(rows[i])
	}
	sort.Strings(rows)
	out := ""
	for _, r := range rows {
		out += " " + r
	}
	return out
}

func ptr(s *string) string {
	if s == nil {
		return "null"
	}
	return strconv.Quote(*s)
}

func message(s *string) string {
	if s == nil {
		return ""
	}
	return " " + strconv.Quote(*s)
}

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

// kafkaSide speaks to a running server.
type kafkaSide struct {
	t      *testing.T
	run    string
	topics map[string]uuid.UUID
	got    chan func()
}

func newKafkaSide(t *testing.T) *kafkaSide {
	k := &kafkaSide{t: t, run: fmt.Sprintf("~%x", time.Now().UnixNano()), topics: map[string]uuid.UUID{}, got: make(chan func(), 100)}
	create := protocol.NewCreateTopicsRequest()
	for name, n := range map[string]int32{"t": 3, "u": 1} {
		ct := protocol.NewCreateTopicsRequestCreatableTopic()
		ct.Name, ct.NumPartitions, ct.ReplicationFactor = name, n, 1
		create.Topics = append(create.Topics, ct)
	}
	create.TimeoutMs = 10000
	k.ask(protocol.KeyCreateTopics, 5, create)
	md := protocol.NewMetadataRequest()
	for _, n := range []string{"t", "u"} {
		mt := protocol.NewMetadataRequestTopic()
		mt.Name = &n
		md.Topics = append(md.Topics, mt)
	}
	for _, mt := range k.ask(protocol.KeyMetadata, 12, md).(*protocol.MetadataResponse).Topics {
		k.topics[*mt.Name] = mt.TopicId
	}
	find := protocol.NewFindCoordinatorRequest()
	find.Key = "any"
	for k.ask(protocol.KeyFindCoordinator, 2, find).(*protocol.FindCoordinatorResponse).ErrorCode != 0 {
		time.Sleep(time.Second) //nolint:forbidigo // a real server is being waited for
	}
	list := protocol.NewListGroupsRequest()
	for k.ask(protocol.KeyListGroups, 5, list).(*protocol.ListGroupsResponse).ErrorCode != 0 {
		time.Sleep(time.Second) //nolint:forbidigo // the same
	}
	return k
}

func (k *kafkaSide) ask(key, version int16, req protocol.Request) protocol.Response {
	done := make(chan protocol.Response, 1)
	k.post(key, version, req, func(r protocol.Response) { done <- r })
	return <-done
}

func (k *kafkaSide) send(key, version int16, req protocol.Request, answer func(protocol.Response)) {
	k.post(key, version, req, func(r protocol.Response) { k.got <- func() { answer(r) } })
}

// post sends a request on a connection of its own.
func (k *kafkaSide) post(key, version int16, req protocol.Request, done func(protocol.Response)) {
	client := "c"
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = key, version, 7, &client
	b, err := h.Encode(make([]byte, 4), protocol.RequestHeaderVersion(key, version))
	if err == nil {
		b, err = req.Encode(b, version)
	}
	if err != nil {
		k.t.Fatalf("encode request %d version %d: %v", key, version, err)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	conn, err := net.Dial("tcp", *kafkaAddr)
	if err != nil {
		k.t.Fatal(err)
	}
	go func() {
		defer conn.Close()
		_, _ = conn.Write(b)
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		d := wire.NewDecoder(body)
		var rh protocol.ResponseHeader
		resp := protocol.NewResponse(key)
		if err := rh.Decode(d, protocol.ResponseHeaderVersion(key, version)); err != nil {
			panic(err)
		}
		if err := resp.Decode(d, version); err != nil {
			panic(err)
		}
		done(resp)
	}()
}

func (k *kafkaSide) settle()        { k.elapse(250 * time.Millisecond) }
func (k *kafkaSide) suffix() string { return k.run }
func (k *kafkaSide) do(cmd, _ string) string {
	k.t.Fatalf("%s is not for a real server", cmd)
	return ""
}
func (k *kafkaSide) topicID(name string) uuid.UUID {
	if id, ok := k.topics[name]; ok {
		return id
	}
	return uuid.UUID{1}
}
func (k *kafkaSide) elapse(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case fn := <-k.got:
			fn()
		case <-end:
			return
		}
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
