package group

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/uuid"
)

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
