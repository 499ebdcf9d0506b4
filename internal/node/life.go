package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Start starts the node. running is called once: with nil when the node serves clients, or with the reason why that will not be.
func (n *Node) Start(running func(error)) {
	log := n.env.Logger()
	log.Info("Starting node", "node", n.cfg.NodeID, "cluster", n.ensemble.ClusterID)
	if unused := n.cfg.Unused(); len(unused) > 0 {
		log.Warn("Settings that Ottla does not use: " + strings.Join(unused, ", "))
	}
	for _, e := range n.cfg.Unknown {
		log.Warn("Ignoring a setting that Kafka 4.4 does not know", "key", e.Key, "at", e.Where())
	}
	n.quorum.Start()
	for _, l := range n.cfg.Listeners {
		if n.cfg.IsControllerListener(l.Name) {
			n.server.Serve(l.Name)
		}
	}
	if n.register != nil {
		n.loader.AddPublisher(n.register)
	}
	if n.broker == nil {
		n.started(running)
		return
	}
	n.logs.Load(func(err error) {
		if err != nil {
			running(err)
			return
		}
		n.startBroker(running)
	})
}

// startBroker registers the broker, and serves clients when the controller has let it in.
func (n *Node) startBroker(running func(error)) {
	n.mu.Lock()
	stopping := n.stopping
	n.mu.Unlock()
	if stopping {
		running(errStopping)
		return
	}
	n.broker.Start(func(err error) {
		if err != nil {
			running(err)
			return
		}
		for _, l := range n.cfg.Listeners {
			n.server.Serve(l.Name)
		}
		n.env.Logger().Info(fmt.Sprintf("[BrokerServer id=%d] Transition from STARTING to STARTED", n.cfg.NodeID))
		n.started(running)
	})
	n.loader.AddPublisher(n.broker.Publishers()...)
}

func (n *Node) started(running func(error)) {
	n.env.Logger().Info(fmt.Sprintf("[KafkaRaftServer nodeId=%d] Kafka Server started", n.cfg.NodeID))
	running(nil)
}

// shutdownWait bounds how long the controller may take to let the broker go.
const shutdownWait = 5 * time.Minute

// Shutdown ends the node in order and calls done: the broker hands its leaders over, then everything is closed, the quorum last.
func (n *Node) Shutdown(done func()) {
	n.mu.Lock()
	first, ended := !n.stopping, n.ended
	n.stopping = true
	if !ended {
		n.stopped = append(n.stopped, done)
	}
	n.mu.Unlock()
	if ended {
		done()
	}
	if !first {
		return
	}
	if n.broker == nil {
		n.closeServer()
		n.closeQuorum()
		return
	}
	wait := shutdownWait
	if !n.cfg.Bool("controlled.shutdown.enable") {
		wait = time.Millisecond
	}
	n.broker.Shutdown(wait, func() {
		n.closeServer()
		n.groups.Close(func() { n.env.Go("close logs", n.closeLogs) })
	})
}

func (n *Node) closeServer() {
	n.server.StopListening()
	n.server.Close()
}

// closeLogs ends the data path: it touches only files.
func (n *Node) closeLogs() {
	log := n.env.Logger()
	n.alterISR.Close()
	if err := n.replicas.Close(); err != nil {
		log.Warn("Could not note the high watermarks", "err", err)
	}
	if err := n.logs.Shutdown(n.broker.Epoch()); err != nil {
		log.Warn("Some logs were not closed in order and will be recovered at the next start", "err", err)
	}
	log.Info(fmt.Sprintf("[BrokerServer id=%d] shut down completed", n.cfg.NodeID))
	n.closeQuorum()
}

func (n *Node) closeQuorum() {
	for _, c := range n.channels {
		c.Close()
	}
	if n.register != nil {
		n.register.Close(nil)
	}
	n.loader.Close(nil)
	end := func() {
		if n.broker == nil {
			n.logs.Abandon()
		}
		n.unlock()
		n.env.Logger().Info("App info kafka.server for " + fmt.Sprint(n.cfg.NodeID) + " unregistered")
		n.mu.Lock()
		stopped := n.stopped
		n.ended = true
		n.mu.Unlock()
		for _, done := range stopped {
			done()
		}
	}
	n.quorum.Shutdown(func() {
		if n.ctrl == nil {
			end()
			return
		}
		n.ctrl.Shutdown(end)
	})
}

// directoryOffline is told of a directory that failed. Without any left, or without that of the metadata log, the node cannot go on.
func (n *Node) directoryOffline(id uuid.UUID, logs []storage.TopicPartition, err error) {
	switch {
	case id == n.ensemble.MetadataID():
		n.onFault(fmt.Errorf("Shutdown broker because the metadata log dir %s has failed: %w", n.cfg.MetadataLogDir, err)) //nolint:staticcheck // Kafka's words
	case n.logs != nil && len(n.logs.DirectoryIDs()) == 0:
		n.onFault(fmt.Errorf("Shutdown broker because all log dirs in %s have failed: %w", strings.Join(n.cfg.LogDirs, ", "), err)) //nolint:staticcheck // Kafka's words
	case n.broker != nil:
		n.broker.DirectoryOffline(id)
		// Whoever uses one of the partitions may be waiting for the disk.
		n.env.Go("partitions-offline", func() { n.replicas.Offline(logs) })
	}
}
