package sim

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	envsim "github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/node"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// properties is the configuration of the node on machine n1.
const properties = `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=n1:9093
listeners=PLAINTEXT://n1:9092,CONTROLLER://n1:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/data
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
`

// Options of a World.
type Options struct {
	Env envsim.Options
	// FS, if it is set, stands between the node and its disk: for faults that only a broken build has.
	FS func(env.FS) env.FS
}

// World is a machine with a node, and a machine with a client.
type World struct {
	*envsim.World
	o       Options
	cfg     *config.Node
	machine *envsim.Node // the present life
	client  *envsim.Node
	conn    *rpc.Client

	node    *node.Node
	running bool
	err     error // of the start, or a fault
}

// New makes a world with a formatted node that does not run yet.
func New(seed uint64, o Options) (*World, error) {
	w := &World{World: envsim.NewWorld(seed, o.Env), o: o}
	entries, _ := config.ParseProperties("server.properties", []byte(properties))
	var err error
	if w.cfg, err = config.New(entries); err != nil {
		return nil, err
	}
	w.machine, w.client = w.NewNode("n1"), w.NewNode("client")
	w.machine.Do("format", func() {
		if err = w.machine.FS().MkdirAll("/data", 0o755); err == nil {
			_, err = format.Standalone(w.machine.FS(), w.machine.Rand(), w.machine.Now(), w.cfg)
		}
		if err == nil {
			err = w.machine.FS().SyncDir("/")
		}
	})
	w.RunFor(time.Second)
	return w, err
}

// machineEnv is a machine's env, perhaps with another file system.
type machineEnv struct {
	*envsim.Node
	fs env.FS
}

func (e machineEnv) FS() env.FS { return e.fs }

// Start starts the node on its machine; Running says when it serves.
func (w *World) Start() {
	w.running, w.err = false, nil
	var e env.Env = w.machine
	if w.o.FS != nil {
		e = machineEnv{w.machine, w.o.FS(w.machine.FS())}
	}
	w.machine.Do("start", func() {
		n, err := node.Open(node.Options{Env: e, Config: w.cfg, Hostname: "n1", OnFault: func(err error) { w.err = err }})
		if err != nil {
			w.err = err
			return
		}
		w.node = n
		n.Start(func(err error) {
			w.running = err == nil
			if err != nil {
				w.err = err
			}
		})
	})
	w.client.Do("connect", func() { w.conn = rpc.NewClient(w.client, "n1:9092", "sim") })
}

// StartAndWait starts the node and waits until it serves.
func (w *World) StartAndWait() error {
	w.Start()
	if !w.RunUntil(time.Minute, func() bool { return w.running || w.err != nil }) {
		return fmt.Errorf("the node does not serve after a minute")
	}
	return w.err
}

// Running reports whether the node serves and its machine is up.
func (w *World) Running() bool { return w.running && w.machine.Alive() }

// Restart gives the machine its next life, after a crash or a kill.
func (w *World) Restart() { w.machine = w.machine.Restart() }

// StopInOrder shuts the node down, and its machine afterwards.
func (w *World) StopInOrder() error {
	stopped := false
	w.machine.Do("stop", func() { w.node.Shutdown(func() { stopped = true }) })
	if !w.RunUntil(time.Minute, func() bool { return stopped || !w.machine.Alive() }) {
		return fmt.Errorf("the node has not stopped after a minute")
	}
	w.running = false
	return nil
}

// answer is what became of a request.
type answer struct {
	resp protocol.Response
	err  error
	done bool
}

// Send sends a request from the client's machine.
func (w *World) Send(req protocol.Request, version int16) *answer {
	a := &answer{}
	w.client.Do("send", func() {
		w.conn.Send(req, version, 20*time.Second, func(resp protocol.Response, err error) { a.resp, a.err, a.done = resp, err, true })
	})
	return a
}

// Ask sends a request and waits for its answer.
func (w *World) Ask(req protocol.Request, version int16) (protocol.Response, error) {
	a := w.Send(req, version)
	if !w.RunUntil(time.Minute, func() bool { return a.done }) {
		return nil, fmt.Errorf("%T was not answered", req)
	}
	return a.resp, a.err
}

// Read is Ask for requests that change nothing: it asks again when the connection breaks.
func (w *World) Read(req protocol.Request, version int16) (resp protocol.Response, err error) {
	for range 10 {
		if resp, err = w.Ask(req, version); err == nil {
			return resp, nil
		}
	}
	return nil, err
}
