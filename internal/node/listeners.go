package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/server"
)

// plaintext is the security protocol that is served, by its number in the metadata log.
const plaintext int16 = 0

// Check says what would keep a node from opening, its folders aside: settings that cannot be served, ports in use.
// Who makes the folders asks before.
func Check(e env.Env, cfg *config.Node) error {
	if err := checkListeners(cfg); err != nil {
		return err
	}
	n := &Node{env: e, cfg: cfg, server: server.New(e, server.OptionsFrom(cfg)), addresses: map[string]string{}}
	err := n.listen()
	n.closeServer()
	return err
}

// checkListeners refuses listeners that would need what is not there.
func checkListeners(cfg *config.Node) error {
	var errs []error
	for _, l := range cfg.Listeners {
		if l.Protocol != "PLAINTEXT" {
			errs = append(errs, fmt.Errorf("listener %s uses the security protocol %s, which Ottla does not serve yet: map it to PLAINTEXT in listener.security.protocol.map", l.Name, l.Protocol))
		}
	}
	if class := cfg.String("authorizer.class.name"); class != "" {
		errs = append(errs, fmt.Errorf("authorizer.class.name is %s: Ottla does not check authorizations yet, and will not run as if it did", class))
	}
	return errors.Join(errs...)
}

// listen opens all listeners; clients are served later.
func (n *Node) listen() error {
	for _, l := range n.cfg.Listeners {
		kind := server.OnBroker
		if n.cfg.IsControllerListener(l.Name) {
			kind = server.OnController
		}
		addr, err := n.server.Listen(l.Name, l.Addr(), kind)
		if err != nil {
			return fmt.Errorf("Socket server failed to bind to %s for listener %s: %w", l.Addr(), l.Name, err) //nolint:staticcheck // Kafka's words
		}
		n.addresses[l.Name] = addr
	}
	return nil
}

// advertised are the endpoints that clients and brokers are told.
func (n *Node) advertised() []image.Endpoint {
	var out []image.Endpoint
	for _, l := range n.cfg.AdvertisedListeners {
		if !n.cfg.IsControllerListener(l.Name) {
			out = append(out, n.endpoint(l))
		}
	}
	return out
}

// controllerEndpoints are those of the controller, advertised where that is said.
func (n *Node) controllerEndpoints() []image.Endpoint {
	var out []image.Endpoint
	for _, name := range n.cfg.ControllerListeners {
		if l, ok := find(n.cfg.AdvertisedListeners, name); ok {
			out = append(out, n.endpoint(l))
		} else if l, ok := find(n.cfg.Listeners, name); ok {
			out = append(out, n.endpoint(l))
		}
	}
	return out
}

func find(list []config.Listener, name string) (config.Listener, bool) {
	for _, l := range list {
		if l.Name == name {
			return l, true
		}
	}
	return config.Listener{}, false
}

// endpoint is a listener as others see it: with a host, and the port that it really has.
func (n *Node) endpoint(l config.Listener) image.Endpoint {
	e := image.Endpoint{Name: l.Name, Host: l.Host, Port: uint16(l.Port), SecurityProtocol: plaintext}
	if e.Host == "" {
		e.Host = n.hostname
	}
	if e.Port == 0 {
		address := n.addresses[l.Name]
		p, _ := strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 10, 16)
		e.Port = uint16(p)
	}
	return e
}
