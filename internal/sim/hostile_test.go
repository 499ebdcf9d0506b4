package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	envsim "github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/protocoltest"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
	"github.com/ottla-io/ottla/schemas"
)

// hostile is a client that sends what the protocol allows and nobody would: every field may be negative, enormous, unknown, or the
// right one in the wrong place; elements come twice.
type hostile struct {
	r     *rand.Rand
	w     *World
	l     *Workload
	known []string // values that came back in answers: member ids
}

// request returns a random request of a schema.
func (h *hostile) request(m *schemas.Message, version int16) protocol.Request {
	req := protocoltest.Random(h.r, m, version, false).(protocol.Request)
	h.spoil(reflect.ValueOf(req).Elem(), "")
	return req
}

// spoil puts values that mean something, or too much, into the fields of a message.
func (h *hostile) spoil(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			h.spoil(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem()) // defaults are shared
			p.Elem().Set(v.Elem())
			h.spoil(p.Elem(), name)
			v.Set(p)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if name == "Records" && h.r.IntN(4) > 0 {
				v.SetBytes(h.records())
			}
			return
		}
		for i := range v.Len() {
			h.spoil(v.Index(i), strings.TrimSuffix(name, "s"))
		}
		if n := v.Len(); n > 0 && h.r.IntN(6) == 0 {
			v.Set(reflect.Append(v, v.Index(h.r.IntN(n)))) // twice
		}
	case reflect.String:
		if s, ok := h.text(name); ok {
			v.SetString(s)
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		switch h.r.IntN(4) {
		case 0, 1:
			v.SetInt(int64(h.r.IntN(5)) - 1)
		case 2:
			all := []int64{math.MinInt8, math.MaxInt8, math.MinInt16, math.MaxInt16, math.MinInt32, math.MaxInt32, math.MinInt64, math.MaxInt64, -2, -3, 100, 1000, 1 << 20}
			if n := all[h.r.IntN(len(all))]; !v.OverflowInt(n) {
				v.SetInt(n)
			}
		}
	case reflect.Array:
		if _, ok := v.Interface().(uuid.UUID); ok && h.r.IntN(3) > 0 {
			v.Set(reflect.ValueOf(h.id()))
		}
	}
}

func (h *hostile) id() uuid.UUID {
	if n := len(h.l.topics); n > 0 && h.r.IntN(3) > 0 {
		return h.l.topics[h.r.IntN(n)].id
	}
	return uuid.UUID{15: byte(h.r.IntN(3))}
}

func (h *hostile) text(name string) (string, bool) {
	names := []string{"t0", "t1", "t9", "new", "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "", ".", "..", "a/b", "a.b", "a_b", strings.Repeat("x", 249), strings.Repeat("x", 250), "\x00", "1", "n1"}
	groups := []string{"readers", "g1", "g2", ""}
	switch n := h.r.IntN(10); {
	case n < 2:
		return "", false
	case n == 2:
		return strings.Repeat("long", 8000), true
	case n == 3 && len(h.known) > 0:
		return h.known[h.r.IntN(len(h.known))], true
	}
	switch {
	case strings.Contains(name, "Group") || name == "Key" || name == "CoordinatorKey":
		return groups[h.r.IntN(len(groups))], true
	case strings.Contains(name, "Protocol"):
		return []string{"consumer", "range", ""}[h.r.IntN(3)], true
	case strings.Contains(name, "Member"):
		return []string{"", "m", "0"}[h.r.IntN(3)], true
	case strings.Contains(name, "Feature"):
		return []string{"metadata.version", "kraft.version", "group.version", "x"}[h.r.IntN(4)], true
	case strings.Contains(name, "Config"):
		return []string{"retention.ms", "cleanup.policy", "compact", "segment.bytes", "-1", "14", "x", "min.insync.replicas"}[h.r.IntN(8)], true
	case name == "Value":
		return []string{"-1", "0", "14", "compact", "delete", "9223372036854775807", "99999999999999999999", "true", ""}[h.r.IntN(9)], true
	}
	return names[h.r.IntN(len(names))], true
}

// records returns a batch, most times with something wrong.
func (h *hostile) records() []byte {
	b := record.NewBuilder(int64(h.r.IntN(3)), record.Compression(h.r.IntN(5)))
	if h.r.IntN(2) == 0 {
		b.SetProducer(int64(h.r.IntN(4)), int16(h.r.IntN(3)), int32(h.r.IntN(10)))
	}
	for range h.r.IntN(5) {
		b.Append(h.w.client.Now().UnixMilli(), []byte("k"), []byte(strings.Repeat("v", h.r.IntN(100))))
	}
	batch, err := b.Build()
	if err != nil {
		return nil
	}
	if h.r.IntN(3) == 0 {
		return batch
	}
	for range 1 + h.r.IntN(3) {
		at := h.r.IntN(len(batch))
		if h.r.IntN(2) == 0 {
			at = h.r.IntN(61)
		}
		batch[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[h.r.IntN(5)]
	}
	if h.r.IntN(2) == 0 && len(batch) > 61 {
		batch.UpdateCRC()
	}
	switch h.r.IntN(8) {
	case 0:
		return batch[:h.r.IntN(len(batch))]
	case 1:
		return append(append([]byte{}, batch...), batch...)
	}
	return batch
}

// learn keeps what later requests may use.
func (h *hostile) learn(resp protocol.Response) {
	switch p := resp.(type) {
	case *protocol.JoinGroupResponse:
		if p.MemberId != "" && len(h.known) < 50 {
			h.known = append(h.known, p.MemberId)
		}
	}
}

// errorLines fails a test for what a node logs as an error: clients cannot cause any, unless they delete the offsets' topic.
type errorLines struct{ t *testing.T }

func (e errorLines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "level=ERROR") && !strings.Contains(string(p), "NOT_COORDINATOR") {
		e.t.Errorf("%.1000s", p)
	}
	return len(p), nil
}

// messages are the requests that a listener serves, without those that end the node's part in the cluster as they should.
func (h *hostile) messages(t *testing.T, conn *rpc.Client) (out []*schemas.Message) {
	served := map[int16]bool{}
	h.w.client.Do("send", func() {
		conn.Send(protocol.NewApiVersionsRequest(), 0, 20*time.Second, func(resp protocol.Response, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			for _, k := range resp.(*protocol.ApiVersionsResponse).ApiKeys {
				served[k.ApiKey] = true
			}
		})
	})
	h.w.RunUntil(time.Minute, func() bool { return len(served) > 0 })
	for _, key := range []int16{
		protocol.KeyUnregisterBroker, protocol.KeyUnregisterController, protocol.KeyBrokerRegistration,
		protocol.KeyVote, protocol.KeyBeginQuorumEpoch, protocol.KeyEndQuorumEpoch,
	} {
		delete(served, key)
	}
	all, err := schemas.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Kind == "request" && served[int16(m.ID)] {
			out = append(out, m)
		}
	}
	return out
}

// attack sends requests one after the other, often without waiting for the answer, and asks afterwards whether a topic can be made
// and used as if nothing had been.
func attack(t *testing.T, seed uint64, addr string, requests int) {
	w, err := New(seed, Options{Env: envsim.Options{Trace: errorLines{t}}})
	if err == nil {
		err = w.StartAndWait()
	}
	if err != nil {
		t.Fatal(err)
	}
	l := NewWorkload(w)
	l.CreateTopic(false)
	l.CreateTopic(true)
	h := &hostile{r: rand.New(rand.NewPCG(seed, 2)), w: w, l: l}
	conn := rpc.NewClient(w.client, addr, "hostile")
	ms := h.messages(t, conn)
	answered := 0
	for range requests {
		m := ms[h.r.IntN(len(ms))]
		api := protocol.Lookup(int16(m.ID))
		v := api.Min + int16(h.r.IntN(int(api.MaxStable()-api.Min)+1))
		req := h.request(m, v)
		if _, err := req.Encode(nil, v); err != nil {
			continue // what is too long, say
		}
		text := fmt.Sprintf("%s version %d: %+v", api.Name, v, req)
		a := &answer{}
		w.client.Do("send", func() {
			conn.Send(req, v, 20*time.Second, func(resp protocol.Response, err error) { a.resp, a.err, a.done = resp, err, true })
		})
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("seed %d: a panic after %.2000s\n%v", seed, text, r)
				}
			}()
			w.RunUntil(time.Duration(h.r.IntN(100))*time.Millisecond, func() bool { return a.done })
		}()
		if w.err != nil {
			t.Fatalf("seed %d: the node stops after %.2000s: %v", seed, text, w.err)
		}
		if a.done && a.err == nil {
			answered++
			h.learn(a.resp)
		}
	}
	w.RunFor(time.Minute)
	if w.err != nil {
		t.Fatalf("seed %d: the node stopped: %v", seed, w.err)
	}
	if answered < requests/2 {
		t.Errorf("seed %d: %d of %d requests were answered", seed, answered, requests)
	}
	l.CreateTopic(true) // t2, of which the attacker knows nothing
	if len(l.topics) != 3 {
		t.Fatalf("seed %d: no topic can be made", seed)
	}
	topic := l.topics[2]
	l.Produce(topic)
	if len(topic.acked) == 0 {
		t.Errorf("seed %d: nothing can be produced", seed)
	}
}

// Whatever the fields of requests hold, a node answers or closes the connection, and goes on. OTTLA_SIM_SEEDS says how many thousand
// requests for each listener.
func TestHostileRequests(t *testing.T) {
	first, n := number(t, "OTTLA_SIM_FIRST", 1), number(t, "OTTLA_SIM_SEEDS", 4)
	for seed := first; seed < first+n; seed++ {
		for _, addr := range []string{"n1:9092", "n1:9093"} {
			attack(t, uint64(seed), addr, 1000)
		}
	}
}
