package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// State is a state of a broker's life. The numbers are those of Kafka's metric BrokerState.
type State int32

// The states, in the order in which a broker goes through them.
const (
	NotRunning                State = 0
	Starting                  State = 1 // registering, catching up with the metadata log
	Recovery                  State = 2 // caught up; fenced until its logs and its metadata are ready
	Running                   State = 3
	PendingControlledShutdown State = 6 // its leaders are being moved away
	ShuttingDown              State = 7
)

func (s State) String() string {
	switch s {
	case NotRunning:
		return "NOT_RUNNING"
	case Starting:
		return "STARTING"
	case Recovery:
		return "RECOVERY"
	case Running:
		return "RUNNING"
	case PendingControlledShutdown:
		return "PENDING_CONTROLLED_SHUTDOWN"
	case ShuttingDown:
		return "SHUTTING_DOWN"
	}
	return fmt.Sprintf("state %d", int32(s))
}

// Delays between requests to the controller.
const (
	// catchUpDelay is short: the controller has just been told of us, and we are about to read of it.
	catchUpDelay = 10 * time.Millisecond
	// firstShutdownDelay is shorter than the heartbeat: most controlled shutdowns end at once.
	firstShutdownDelay = 50 * time.Millisecond
	minBackOff         = 100 * time.Millisecond
)

// errNoRegistration is why a broker gives up at its start.
var errNoRegistration = errors.New("Shutting down because we were unable to register with the controller quorum.") //nolint:staticcheck // Kafka's words

// lifecycle is the core that keeps a broker registered: one request to the active controller at a time, and the state that follows
// from the answers.
type lifecycle struct {
	env         env.Env
	queue       env.Queue
	channel     Channel
	offset      func() int64
	id          int32
	clusterID   string
	incarnation uuid.UUID
	previous    int64
	rack        *string
	endpoints   []image.Endpoint
	logDirs     []uuid.UUID // sorted
	cordoned    []uuid.UUID
	// cordonedSupported reports whether the cluster's metadata.version knows cordoned directories.
	cordonedSupported func() bool
	// registeredAs is the incarnation that this broker's id is registered with, as far as the metadata is known; zero if it is not.
	registeredAs func() uuid.UUID
	heartbeat    time.Duration
	maxBackOff   time.Duration
	patience     time.Duration // for the first registration
	dirPatience  time.Duration // for telling the controller that a directory failed
	onFault      func(error)

	epoch     atomic.Int64
	published atomic.Int32 // = state, for other goroutines

	// All below belongs to the queue.
	state        State
	ready        bool               // wants to be unfenced
	registered   bool               // this incarnation, as far as we know
	everBefore   bool               // a registration succeeded
	inFlight     bool               // a request is on its way
	immediate    bool               // the next request goes out when the answer is here
	failures     int                // in a row
	gotShutdown  bool               // an answer to a request to shut down
	offlineDirs  map[uuid.UUID]bool // the controller knows of it
	timer        env.Timer
	patienceOver env.Timer
	shutdownOver env.Timer
	running      func(error) // nil once called
	done         []func()    // of shutdown
}

func newLifecycle(d Deps) *lifecycle {
	l := &lifecycle{
		env: d.Env, queue: d.Env.NewQueue("broker-lifecycle"), channel: d.Lifecycle, offset: d.MetadataOffset, id: d.Config.NodeID,
		clusterID: d.ClusterID, incarnation: d.IncarnationID, previous: d.PreviousEpoch, endpoints: d.Advertised, logDirs: slices.Clone(d.LogDirs),
		cordoned: d.CordonedLogDirs, cordonedSupported: func() bool { return false },
		registeredAs: func() uuid.UUID { return uuid.Zero },
		heartbeat:    millis(d.Config, "broker.heartbeat.interval.ms"),
		maxBackOff:   millis(d.Config, "broker.session.timeout.ms"), patience: millis(d.Config, "initial.broker.registration.timeout.ms"),
		offlineDirs: map[uuid.UUID]bool{}, dirPatience: millis(d.Config, "log.dir.failure.timeout.ms"), onFault: d.OnFault,
	}
	if rack, ok := d.Config.Lookup("broker.rack"); ok {
		l.rack = &rack
	}
	slices.SortFunc(l.logDirs, uuid.UUID.Compare)
	l.epoch.Store(-1)
	return l
}

func millis(c *config.Node, key string) time.Duration {
	return time.Duration(c.Long(key)) * time.Millisecond
}

func (l *lifecycle) log(format string, args ...any) {
	l.env.Logger().Info(fmt.Sprintf(format, args...))
}

func (l *lifecycle) become(s State) {
	l.state = s
	l.published.Store(int32(s))
}

func (l *lifecycle) start(running func(error)) {
	l.queue.Post("start", func() {
		if l.state != NotRunning {
			running(errors.New("the broker was started before"))
			return
		}
		l.running = running
		l.become(Starting)
		l.patienceOver = l.queue.After(l.patience, "initial registration timeout", func() {
			if !l.everBefore {
				l.env.Logger().Error(errNoRegistration.Error())
				l.end(errNoRegistration)
			}
		})
		l.communicate()
		l.log("Incarnation %s of broker %d in cluster %s is now STARTING.", l.incarnation, l.id, l.clusterID)
	})
}

// setReady asks the controller to unfence the broker.
func (l *lifecycle) setReady() {
	l.queue.Post("ready to unfence", func() {
		l.ready = true
		l.schedule(0)
	})
}

// resendRegistration registers the same incarnation again, with what is known now.
func (l *lifecycle) resendRegistration() {
	l.queue.Post("resend registration", func() {
		l.registered = false
		l.schedule(0)
	})
}

// offline tells the controller that a log directory failed. As long as the controller does not know, nobody else leads the
// partitions that were there: a broker that cannot tell has to go.
func (l *lifecycle) offline(dir uuid.UUID) {
	l.queue.Post("offline log directory", func() {
		l.offlineDirs[dir] = false
		l.queue.After(l.dirPatience, "log directory failure timeout", func() {
			if !l.offlineDirs[dir] && l.onFault != nil {
				l.onFault(fmt.Errorf("Shutting down because couldn't communicate offline log dir %s with controllers", dir)) //nolint:staticcheck // Kafka's words
			}
		})
		if l.registered {
			l.schedule(0)
		}
	})
}

func (l *lifecycle) shutdown(timeout time.Duration, done func()) {
	l.queue.Post("controlled shutdown", func() {
		if l.state == ShuttingDown {
			done()
			return
		}
		l.done = append(l.done, done)
		switch l.state {
		case PendingControlledShutdown:
			l.log("Attempted to enter pending controlled shutdown state, but we are already in that state.")
		case Running:
			l.log("Beginning controlled shutdown.")
			l.become(PendingControlledShutdown)
			if timeout > 0 {
				l.shutdownOver = l.queue.After(timeout, "controlled shutdown timeout", func() {
					l.log("The controller did not let the broker go within %d ms.", timeout.Milliseconds())
					l.end(nil)
				})
			}
			l.schedule(0)
		default:
			l.log("Skipping controlled shutdown because we are in state %s.", l.state)
			l.end(nil)
		}
	})
}

// end is the last event.
func (l *lifecycle) end(reason error) {
	if l.state == ShuttingDown {
		return
	}
	l.log("Transitioning from %s to %s.", l.state, ShuttingDown)
	l.become(ShuttingDown)
	for _, t := range []env.Timer{l.timer, l.patienceOver, l.shutdownOver} {
		if t != nil {
			t.Stop()
		}
	}
	if reason == nil {
		reason = errors.New("the broker is shutting down")
	}
	l.started(reason)
	for _, done := range l.done {
		done()
	}
	l.done = nil
	l.queue.Close(nil)
}

func (l *lifecycle) started(err error) {
	if l.running != nil {
		l.running(err)
		l.running = nil
	}
}

// schedule has the next request sent after d, or at once if that was asked for meanwhile.
func (l *lifecycle) schedule(d time.Duration) {
	if l.state == ShuttingDown {
		return
	}
	if l.immediate {
		d, l.immediate = 0, false
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = l.queue.After(d, "communicate", l.communicate)
}

// retry schedules the next request after a failed one.
func (l *lifecycle) retry() {
	d := l.maxBackOff
	if l.failures < 16 {
		d = min(d, minBackOff<<l.failures)
	}
	l.failures++
	l.immediate = false // never at once after a failure
	l.schedule(d)
}

func (l *lifecycle) communicate() {
	switch {
	case l.state == ShuttingDown || l.state == NotRunning:
	case l.inFlight:
		l.immediate = true
	case l.registered:
		l.sendHeartbeat()
	default:
		l.sendRegistration()
	}
}

// send sends a request and runs then on the queue.
func (l *lifecycle) send(name string, req protocol.Request, version int16, then func(protocol.Response, error)) {
	l.inFlight = true
	l.channel.Send(nil, req, version, func(resp protocol.Response, err error) {
		l.queue.Post(name, func() {
			l.inFlight = false
			then(resp, err)
		})
	})
}

func (l *lifecycle) sendRegistration() {
	req := protocol.NewBrokerRegistrationRequest()
	req.BrokerId, req.ClusterId, req.IncarnationId, req.Rack = l.id, l.clusterID, l.incarnation, l.rack
	req.PreviousBrokerEpoch = l.previous
	for _, dir := range l.logDirs {
		if _, failed := l.offlineDirs[dir]; !failed {
			req.LogDirs = append(req.LogDirs, dir)
		}
	}
	for _, e := range l.endpoints {
		req.Listeners = append(req.Listeners, protocol.BrokerRegistrationRequestListener{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
	}
	for _, f := range supportedFeatures() {
		req.Features = append(req.Features, protocol.BrokerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	l.send("registration answer", req, 4, func(resp protocol.Response, err error) {
		r, _ := resp.(*protocol.BrokerRegistrationResponse)
		switch {
		case err != nil || r == nil:
			l.log("Unable to register broker %d: %v", l.id, err)
			l.retry()
		case r.ErrorCode != kerr.None:
			l.log("Unable to register broker %d because the controller returned error %v", l.id, kerr.FromCode(r.ErrorCode))
			l.retry()
		default:
			l.failures, l.registered, l.everBefore = 0, true, true
			l.epoch.Store(r.BrokerEpoch)
			l.log("Successfully registered broker %d with broker epoch %d", l.id, r.BrokerEpoch)
			l.schedule(0)
		}
	})
}

// supportedFeatures are the features that a broker announces: all it knows, at all levels it knows.
func supportedFeatures() []metadata.Feature {
	return slices.SortedFunc(slices.Values(metadata.Features[:]), func(a, b metadata.Feature) int { return strings.Compare(a.Name, b.Name) })
}

func (l *lifecycle) sendHeartbeat() {
	req := protocol.NewBrokerHeartbeatRequest()
	req.BrokerId, req.BrokerEpoch, req.CurrentMetadataOffset = l.id, l.epoch.Load(), l.offset()
	req.WantFence, req.WantShutDown = !l.ready, l.state == PendingControlledShutdown
	if l.state >= Recovery && l.cordonedSupported() {
		req.CordonedLogDirs = append([]uuid.UUID{}, l.cordoned...)
	}
	for dir := range l.offlineDirs {
		req.OfflineLogDirs = append(req.OfflineLogDirs, dir)
	}
	slices.SortFunc(req.OfflineLogDirs, uuid.UUID.Compare)
	told := req.OfflineLogDirs
	l.send("heartbeat answer", req, 2, func(resp protocol.Response, err error) {
		r, _ := resp.(*protocol.BrokerHeartbeatResponse)
		switch {
		case l.state == ShuttingDown:
		case err != nil || r == nil:
			l.env.Logger().Warn(fmt.Sprintf("Unable to send broker heartbeat for %d. Retrying.", l.id), "err", err)
			l.retry()
		case r.ErrorCode != kerr.None:
			l.env.Logger().Warn(fmt.Sprintf("Broker %d sent a heartbeat request but received error %v.", l.id, kerr.FromCode(r.ErrorCode)))
			switch as := l.registeredAs(); {
			case r.ErrorCode == kerr.BrokerIdNotRegistered.Code:
				l.registered = false // unregistered behind our back, or a controller that has lost us
			case r.ErrorCode == kerr.StaleBrokerEpoch.Code && as != uuid.Zero && as != l.incarnation:
				l.log("Broker %d is registered as incarnation %s, not as this one. Registering again.", l.id, as)
				l.registered = false // a late registration of an incarnation before us, see the controller's supersedes
			}
			l.retry()
		default:
			l.failures = 0
			for _, dir := range told {
				l.offlineDirs[dir] = true
			}
			l.onHeartbeat(r)
		}
	})
}

// onHeartbeat draws the consequences of a good answer.
func (l *lifecycle) onHeartbeat(r *protocol.BrokerHeartbeatResponse) {
	switch l.state {
	case Starting:
		if !r.IsCaughtUp {
			l.schedule(catchUpDelay)
			return
		}
		l.log("The broker has caught up. Transitioning from STARTING to RECOVERY.")
		l.become(Recovery)
		if l.ready {
			l.schedule(0)
		} else {
			l.schedule(l.heartbeat)
		}
	case Recovery:
		if r.IsFenced {
			l.log("The broker is in RECOVERY.")
		} else {
			l.log("The broker has been unfenced. Transitioning from RECOVERY to RUNNING.")
			l.become(Running)
			l.started(nil)
		}
		l.schedule(l.heartbeat)
	case PendingControlledShutdown:
		switch first := !l.gotShutdown; {
		case r.ShouldShutDown:
			l.log("The controller has asked us to exit controlled shutdown.")
			l.end(nil)
		case first:
			l.gotShutdown = true
			l.log("The broker is in PENDING_CONTROLLED_SHUTDOWN state, still waiting for the active controller.")
			l.schedule(firstShutdownDelay)
		default:
			l.log("The broker is in PENDING_CONTROLLED_SHUTDOWN state, still waiting for the active controller.")
			l.schedule(l.heartbeat)
		}
	default:
		l.schedule(l.heartbeat)
	}
}
