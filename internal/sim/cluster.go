package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	envsim "github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/node"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// memberProperties is the configuration of a member. Time-outs are shorter than the defaults, so that more happens in a run.
const memberProperties = `process.roles=%[1]s
node.id=%[2]d
controller.quorum.bootstrap.servers=%[3]s
listeners=%[4]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/data
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=2000
replica.fetch.backoff.ms=200
num.replica.fetchers=2
min.insync.replicas=2
offsets.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
`

// Cluster is controllers and brokers, each on a machine of its own, and a machine with clients.
type Cluster struct {
	*envsim.World
	Members []*Member // controllers first
	client  *envsim.Node
	conns   map[string]*rpc.Client
}

// Member is a node of a cluster.
type Member struct {
	ID      int32
	Broker  bool
	cfg     *config.Node
	name    string
	addr    string
	machine *envsim.Node // the present life
	node    *node.Node
	running bool
	err     error // why it did not start, or cannot go on
}

const (
	clusterID       = "AAAAAAAAAAAAAAAAAAAAAQ"
	firstController = 101
)

// NewCluster makes formatted members that do not run yet.
func NewCluster(seed uint64, o envsim.Options, controllers, brokers int) (*Cluster, error) {
	c := &Cluster{World: envsim.NewWorld(seed, o), conns: map[string]*rpc.Client{}}
	var voters, bootstrap []string
	for i := range controllers {
		id := firstController + i
		voters = append(voters, fmt.Sprintf("%d@c%d:9093:AAAAAAAAAAAAAAAAAAAA%02d", id, id, i+10))
		bootstrap = append(bootstrap, fmt.Sprintf("c%d:9093", id))
	}
	for i := range controllers {
		if err := c.add(int32(firstController+i), false, bootstrap, voters); err != nil {
			return nil, err
		}
	}
	for i := range brokers {
		if err := c.add(int32(i+1), true, bootstrap, voters); err != nil {
			return nil, err
		}
	}
	c.client = c.NewNode("client")
	return c, nil
}

// add formats a machine.
func (c *Cluster) add(id int32, broker bool, bootstrap, voters []string) error {
	m := &Member{ID: id, Broker: broker, name: fmt.Sprintf("c%d", id), addr: fmt.Sprintf("c%d:9093", id)}
	role, listener := "controller", "CONTROLLER://"+m.addr
	if broker {
		m.name, m.addr = fmt.Sprintf("b%d", id), fmt.Sprintf("b%d:9092", id)
		role, listener = "broker", "PLAINTEXT://"+m.addr
	}
	entries, _ := config.ParseProperties("server.properties", fmt.Appendf(nil, memberProperties, role, id, strings.Join(bootstrap, ","), listener))
	var err error
	if m.cfg, err = config.New(entries); err != nil {
		return err
	}
	m.machine = c.NewNode(m.name)
	m.machine.Do("format", func() {
		o := format.Options{Config: m.cfg, ClusterID: clusterID, Now: m.machine.Now()}
		if broker {
			o.NoInitialControllers = true
		} else {
			o.InitialControllers = strings.Join(voters, ",")
		}
		if err = m.machine.FS().MkdirAll("/data", 0o755); err == nil {
			_, err = format.Format(m.machine.FS(), m.machine.Rand(), o)
		}
		if err == nil {
			err = m.machine.FS().SyncDir("/")
		}
	})
	c.RunFor(10 * time.Millisecond)
	c.Members = append(c.Members, m)
	return err
}

// Start starts a member's node.
func (c *Cluster) Start(m *Member) {
	m.running, m.err = false, nil
	machine := m.machine
	fault := func(err error) {
		if m.machine == machine {
			m.err = err
		}
	}
	machine.Do("start", func() {
		n, err := node.Open(node.Options{Env: machine, Config: m.cfg, Hostname: m.name, OnFault: fault})
		if err != nil {
			fault(err)
			return
		}
		m.node = n
		n.Start(func(err error) {
			if m.machine == machine {
				m.running = err == nil
			}
			if err != nil {
				fault(err)
			}
		})
	})
}

// StartAll starts every member and waits until all serve.
func (c *Cluster) StartAll() error {
	for _, m := range c.Members {
		c.Start(m)
	}
	if !c.RunUntil(time.Minute, c.allRun) {
		return fmt.Errorf("the cluster does not serve after a minute: %w", c.fault())
	}
	return nil
}

func (c *Cluster) allRun() bool {
	for _, m := range c.Members {
		if !m.running {
			return false
		}
	}
	return true
}

// fault is why a member stands still, nil if none does.
func (c *Cluster) fault() error {
	for _, m := range c.Members {
		if m.err != nil {
			return fmt.Errorf("%s: %w", m.name, m.err)
		}
	}
	return nil
}

// Restart gives a member its next life, and starts it.
func (c *Cluster) Restart(m *Member) {
	m.machine = m.machine.Restart()
	c.Start(m)
}

// StopInOrder shuts a member down, and its machine afterwards.
func (c *Cluster) StopInOrder(m *Member) error {
	stopped := false
	m.machine.Do("stop", func() { m.node.Shutdown(func() { stopped = true }) })
	if !c.RunUntil(time.Minute, func() bool { return stopped || !m.machine.Alive() }) {
		return fmt.Errorf("%s has not stopped after a minute", m.name)
	}
	m.running = false
	if m.machine.Alive() {
		m.machine.Crash() // what was closed in order survives
	}
	return nil
}

// Brokers are the members that are brokers.
func (c *Cluster) Brokers() (list []*Member) {
	for _, m := range c.Members {
		if m.Broker {
			list = append(list, m)
		}
	}
	return list
}

// broker finds a broker by id; any one if there is none.
func (c *Cluster) broker(id int32) *Member {
	brokers := c.Brokers()
	for _, m := range brokers {
		if m.ID == id {
			return m
		}
	}
	return brokers[c.Workload.IntN(len(brokers))]
}

// send sends a request to a member from the machine of the clients, over a connection of that name. done runs there.
func (c *Cluster) send(over string, m *Member, req protocol.Request, version int16, done func(protocol.Response, error)) {
	key := over + ">" + m.addr
	conn := c.conns[key]
	if conn == nil {
		conn = rpc.NewClient(c.client, m.addr, "sim")
		c.conns[key] = conn
	}
	conn.Send(req, version, 5*time.Second, done)
}

// ask sends a request that changes nothing, or nothing twice, and waits for the answer. It asks again when the connection breaks.
func (c *Cluster) ask(m *Member, req protocol.Request, version int16) (resp protocol.Response, err error) {
	for range 10 {
		a := &answer{}
		c.client.Do("ask", func() {
			c.send("test", m, req, version, func(resp protocol.Response, err error) { a.resp, a.err, a.done = resp, err, true })
		})
		if !c.RunUntil(time.Minute, func() bool { return a.done }) {
			return nil, fmt.Errorf("%T was not answered", req)
		}
		if resp, err = a.resp, a.err; err == nil {
			return resp, nil
		}
	}
	return nil, err
}
