package group

import (
	"flag"
	"fmt"
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
