package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// TestTraces runs the stories in testdata: a request or the clock goes in, the records, the response and what changed
// come out. After each step the invariants are checked, and a second controller that replays what is committed must be
// in the same state (I6).
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		w := &traceWorld{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t, w.d = t, d
			return w.step()
		})
	})
}

// traceWorld is one controller on a quorum in memory, and brokers that are only names.
type traceWorld struct {
	t *testing.T
	d *datadriven.TestData
	worldBase
	out    strings.Builder
	tokens [][]byte // HMACs, in the order of their creation
}

// worldBase is what traces and random histories share.
type worldBase struct {
	env     *testEnv
	quorum  *testQuorum
	c       *Controller
	history *history
	printed int // batches of the log that were shown
}

const testClusterID = "Zm9vYmFyYmF6cXV4MTIzNA"

func testNode(t testing.TB, extra ...string) *config.Node {
	t.Helper()
	entries := []config.Entry{
		{Key: "process.roles", Value: "controller"}, {Key: "node.id", Value: "100"},
		{Key: "controller.quorum.voters", Value: "100@localhost:9093"},
		{Key: "listeners", Value: "CONTROLLER://localhost:9093"}, {Key: "controller.listener.names", Value: "CONTROLLER"},
		{Key: "listener.security.protocol.map", Value: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
	}
	for _, kv := range extra {
		k, v, _ := strings.Cut(kv, "=")
		entries = append(entries, config.Entry{Key: k, Value: v})
	}
	node, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (w *worldBase) open(t testing.TB, cfg Config) {
	w.env = newTestEnv()
	w.quorum = &testQuorum{id: cfg.NodeID, voters: []int32{cfg.NodeID}, leader: raftNobody}
	w.c = New(w.env, cfg, w.quorum)
	w.quorum.listener = w.c
	w.history = newHistory()
	w.printed = 0
	w.env.run()
}

// settle runs what is posted and checks everything that must hold.
func (w *worldBase) settle(t testing.TB) {
	t.Helper()
	w.env.run()
	w.history.check(t, w.c.state, len(w.c.deferred) == 0)
	if w.c.claimEpoch >= 0 && w.c.lastAppended > w.c.lastStable {
		return // ahead of the log
	}
	replica := New(newTestEnv(), w.c.cfg, &testQuorum{id: -7})
	for i := range w.quorum.committed() {
		replica.commit(&w.quorum.committed()[i])
	}
	if got, want := w.c.state.dump(), replica.state.dump(); got != want {
		t.Fatalf("the active controller's state is\n%s\nreplaying the log gives\n%s", got, want)
	}
}

func (w *traceWorld) args(key string) []string {
	for _, a := range w.d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func (w *traceWorld) has(key string) bool {
	return slices.ContainsFunc(w.d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == key })
}

func (w *traceWorld) str(key, otherwise string) string {
	if v := w.args(key); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (w *traceWorld) num(key string, otherwise int64) int64 {
	v := w.args(key)
	if len(v) == 0 {
		return otherwise
	}
	n, err := strconv.ParseInt(v[0], 10, 64)
	if err != nil {
		w.t.Fatalf("%s: %s=%s: %v", w.d.Pos, key, v[0], err)
	}
	return n
}

func (w *traceWorld) nums(key string) []int32 {
	list := []int32{}
	for _, v := range w.args(key) {
		n, err := strconv.Atoi(v)
		if err != nil {
			w.t.Fatalf("%s: %s: %v", w.d.Pos, key, err)
		}
		list = append(list, int32(n))
	}
	return list
}

// dir is a directory's id by a name: unassigned, lost, migrating, or any other.
func dir(name string) uuid.UUID {
	switch name {
	case "unassigned":
		return uuid.DirUnassigned
	case "lost":
		return uuid.DirLost
	case "migrating":
		return uuid.DirMigrating
	}
	var id uuid.UUID
	copy(id[:], "dir:"+name)
	id[15] = 0xff
	return id
}

func dirName(id uuid.UUID) string {
	switch id {
	case uuid.DirUnassigned:
		return "unassigned"
	case uuid.DirLost:
		return "lost"
	case uuid.DirMigrating:
		return "migrating"
	}
	return strings.TrimRight(strings.TrimPrefix(string(id[:15]), "dir:"), "\x00")
}

func dirs(names []string) []uuid.UUID {
	ids := []uuid.UUID{}
	for _, n := range names {
		if n != "" {
			ids = append(ids, dir(n))
		}
	}
	return ids
}

func incarnation(name string) uuid.UUID {
	var id uuid.UUID
	copy(id[:], "inc:"+name)
	id[15] = 0xfe
	return id
}

// step runs one command and shows what came of it.
func (w *traceWorld) step() string {
	w.out.Reset()
	if w.d.Cmd == "open" {
		w.cmdOpen()
		return w.finish(map[string]string{})
	}
	before := w.lines()
	cmd, ok := map[string]func(){
		"lead": w.cmdLead, "follow": w.cmdFollow, "hold": func() { w.quorum.hold = true }, "commit": w.cmdCommit,
		"elapse": w.cmdElapse, "replay": w.cmdReplay,
		"register": w.cmdRegister, "heartbeat": w.cmdHeartbeat, "up": w.cmdUp, "unregister": w.cmdUnregister,
		"register-controller": w.cmdRegisterController, "unregister-controller": w.cmdUnregisterController,
		"create-topics": w.cmdCreateTopics, "delete-topics": w.cmdDeleteTopics, "create-partitions": w.cmdCreatePartitions,
		"alter-partition": w.cmdAlterPartition, "elect": w.cmdElect, "assign-dirs": w.cmdAssignDirs,
		"alter-configs": w.cmdAlterConfigs, "update-features": w.cmdUpdateFeatures, "reassign": w.cmdReassign,
		"list-reassignments": w.cmdListReassignments, "describe-cluster": w.cmdDescribeCluster, "producer-ids": w.cmdProducerIDs,
	}[w.d.Cmd]
	if !ok {
		cmd, ok = w.securityCommands()[w.d.Cmd]
	}
	if !ok {
		w.t.Fatalf("%s: unknown command %s", w.d.Pos, w.d.Cmd)
	}
	cmd()
	return w.finish(before)
}

func (w *traceWorld) finish(before map[string]string) string {
	w.settle(w.t)
	w.showLog()
	after := w.lines()
	for _, k := range sortedKeys(after) {
		if was, ok := before[k]; !ok || was != after[k] {
			if !ok {
				was = "(none)"
			}
			if w.d.Cmd != "create-topics" && w.d.Cmd != "create-partitions" { // the records say it all
				fmt.Fprintf(&w.out, "%s: %s\n", k, changes(was, after[k]))
			}
		}
	}
	for _, k := range sortedKeys(before) {
		if _, ok := after[k]; !ok {
			fmt.Fprintf(&w.out, "%s: gone\n", k)
		}
	}
	if w.out.Len() == 0 {
		return "ok\n"
	}
	return w.out.String()
}

// lines is the state that stories are about, one line for each thing.
func (w *traceWorld) lines() map[string]string {
	m := map[string]string{}
	for id, b := range w.c.state.cluster.brokers.All() {
		s := "unfenced"
		if b.fenced {
			s = "fenced"
		}
		if b.inControlledShutdown {
			s += "+shutting-down"
		}
		m[fmt.Sprintf("broker %d", id)] = s
	}
	for _, t := range w.c.state.replication.topics.All() {
		for id, p := range t.partitions.All() {
			m[fmt.Sprintf("%s-%d", t.name, id)] = fmt.Sprintf("leader=%d isr=%v elr=%v lastKnownElr=%v leaderEpoch=%d partitionEpoch=%d recovery=%d",
				p.leader, p.isr, p.elr, p.lastKnownELR, p.leaderEpoch, p.partitionEpoch, p.leaderRecovery)
		}
	}
	if w.c.claimEpoch >= 0 {
		m["controller"] = fmt.Sprintf("active epoch=%d", w.c.claimEpoch)
	} else {
		m["controller"] = "standby"
	}
	return m
}

// changes shows what differs between two lines of name=value.
func changes(was, now string) string {
	a, b := splitFields(was), splitFields(now)
	if len(a) != len(b) || len(a) < 2 {
		return was + " -> " + now
	}
	var out []string
	for i := range a {
		if a[i] != b[i] {
			_, v, _ := strings.Cut(b[i], "=")
			out = append(out, a[i]+" -> "+v)
		}
	}
	return strings.Join(out, ", ")
}

// splitFields splits at blanks that are not within brackets.
func splitFields(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ' ' && depth == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func (w *traceWorld) topicID(name string) uuid.UUID {
	if t := w.c.state.replication.topicByName(name); t != nil {
		return t.id
	}
	return incarnation(name)
}

func (w *traceWorld) say(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func errText(code int16, message *string) string {
	s := kerr.Name(code)
	if message != nil {
		s += " " + strconv.Quote(*message)
	}
	return s
}

func (w *traceWorld) ctx(key int16) *rpc.Context {
	return &rpc.Context{APIKey: key, APIVersion: int16(w.num("version", int64(protocol.Lookup(key).MaxStable()))), Listener: "PLAINTEXT"}
}
