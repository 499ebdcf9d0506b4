package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Security protocols of a listener.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"
)

// Listener is one entry of listeners or advertised.listeners. An empty host means every interface.
type Listener struct {
	Name     string
	Host     string
	Port     int
	Protocol string
}

// Addr is host:port as net.Listen takes it.
func (l Listener) Addr() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

func (l Listener) String() string { return l.Name + "://" + l.Addr() }

// HostPort is a network address.
type HostPort struct {
	Host string
	Port int
}

func (h HostPort) String() string { return net.JoinHostPort(h.Host, strconv.Itoa(h.Port)) }

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID int32
	HostPort
}

// ParseHostPort reads host:port, the host of IPv6 in brackets.
func ParseHostPort(s string) (HostPort, error) {
	host, port, err := net.SplitHostPort(strings.TrimSpace(s))
	if err != nil {
		return HostPort{}, fmt.Errorf("%q is not host:port", s)
	}
	p, err := strconv.Atoi(port)
	if err != nil || p < 0 || p > 65535 {
		return HostPort{}, fmt.Errorf("%q has no port between 0 and 65535", s)
	}
	return HostPort{host, p}, nil
}

// ParseVoters reads id@host:port entries.
func ParseVoters(items []string) ([]Voter, error) {
	var out []Voter
	for _, item := range items {
		id, addr, _ := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("Failed to parse voter ID as an integer from %s", id) //nolint:staticcheck // Kafka's words
		}
		hp, err := ParseHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("Failed to parse host name from entry %s for the configuration controller.quorum.voters. Each entry should be in the form `{id}@{host}:{port}`.", item) //nolint:staticcheck // Kafka's words
		}
		if slices.ContainsFunc(out, func(v Voter) bool { return v.ID == int32(n) }) {
			return nil, fmt.Errorf("node id %d appears twice in controller.quorum.voters", n)
		}
		out = append(out, Voter{int32(n), hp})
	}
	return out, nil
}

func parseListener(s string) (Listener, error) {
	name, addr, ok := strings.Cut(s, "://")
	if !ok || name == "" {
		return Listener{}, fmt.Errorf("Unable to parse a listener name from %s: write NAME://host:port", s) //nolint:staticcheck // Kafka's words
	}
	hp, err := ParseHostPort(addr)
	if err != nil {
		return Listener{}, fmt.Errorf("Unable to parse %s to a broker endpoint: %w", s, err) //nolint:staticcheck // Kafka's words
	}
	return Listener{Name: strings.ToUpper(name), Host: hp.Host, Port: hp.Port}, nil
}

// securityProtocols is listener.security.protocol.map; a controller listener that it does not name is plain text
// as long as the map was left at its default (KIP-631).
func (n *Node) securityProtocols() (map[string]string, error) {
	m := map[string]string{}
	for _, item := range n.List("listener.security.protocol.map") {
		name, protocol, ok := strings.Cut(item, ":")
		protocol = strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || !slices.Contains([]string{Plaintext, SSL, SASLPlaintext, SASLSSL}, protocol) {
			return nil, n.problem("listener.security.protocol.map", "Invalid security protocol `%s` defined in listener.security.protocol.map: write NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", protocol)
		}
		m[strings.ToUpper(strings.TrimSpace(name))] = protocol
	}
	if _, given := n.originals["listener.security.protocol.map"]; !given {
		for _, name := range n.ControllerListeners {
			if _, ok := m[name]; !ok {
				m[name] = Plaintext
			}
		}
	}
	return m, nil
}

func (n *Node) deriveControllerListeners() []error {
	for _, name := range n.List("controller.listener.names") {
		n.ControllerListeners = append(n.ControllerListeners, strings.ToUpper(name))
	}
	return nil
}

func (n *Node) checkProtocols() []error {
	if _, err := n.securityProtocols(); err != nil {
		return []error{err}
	}
	return nil
}

// parseListeners reads names, hosts and ports.
func (n *Node) parseListeners() []error {
	var problems []error
	parse := func(key string) []Listener {
		var out []Listener
		for _, item := range n.List(key) {
			l, err := parseListener(item)
			if err == nil && slices.ContainsFunc(out, func(o Listener) bool { return o.Name == l.Name }) {
				err = fmt.Errorf("Each listener must have a different name, listeners: %s", n.String(key)) //nolint:staticcheck // Kafka's words
			}
			if err != nil {
				problems = append(problems, n.problem(key, "%w", err))
				continue
			}
			out = append(out, l)
		}
		return out
	}
	n.Listeners = parse("listeners")
	n.AdvertisedListeners = parse("advertised.listeners")
	return problems
}

// giveProtocols gives each listener its security protocol.
func (n *Node) giveProtocols() []error {
	protocols, err := n.securityProtocols()
	if err != nil {
		return []error{err}
	}
	var problems []error
	give := func(key string, listeners []Listener) {
		for i, l := range listeners {
			if listeners[i].Protocol = protocols[l.Name]; protocols[l.Name] == "" {
				problems = append(problems, n.problem(key, "No security protocol defined for listener %s: add it to listener.security.protocol.map", l.Name))
			}
		}
	}
	give("listeners", n.Listeners)
	give("advertised.listeners", n.AdvertisedListeners)
	return problems
}

// checkListeners compares the listeners with one another and with the node's roles.
func (n *Node) checkListeners() []error {
	var problems []error
	for i, l := range n.Listeners {
		for _, o := range n.Listeners[:i] {
			if l.Port == o.Port && l.Port != 0 && sameInterface(l.Host, o.Host) {
				problems = append(problems, n.problem("listeners", "Each listener must have a different port, listeners: %s", n.String("listeners")))
			}
		}
	}
	brokers := n.brokerListeners()
	controllers := len(n.Listeners) - len(brokers)
	switch {
	case n.HasRole(RoleController) && controllers == 0:
		problems = append(problems, n.problem("listeners", "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role"))
	case !n.HasRole(RoleController) && controllers > 0:
		problems = append(problems, n.problem("controller.listener.names", "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft with just the broker role"))
	case n.HasRole(RoleBroker) && len(brokers) == 0:
		problems = append(problems, n.problem("listeners", "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?"))
	}
	return problems
}

// brokerListeners are the names of the listeners that are not the controller's.
func (n *Node) brokerListeners() (names []string) {
	for _, l := range n.Listeners {
		if !n.IsControllerListener(l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

// deriveTold finds out what clients are told, and which listener brokers use among themselves.
func (n *Node) deriveTold() []error {
	return append(n.deriveAdvertised(), n.deriveInterBroker(n.brokerListeners())...)
}

func (n *Node) deriveAdvertised() []error {
	var problems []error
	_, given := n.originals["advertised.listeners"]
	for _, a := range n.AdvertisedListeners {
		switch {
		case a.Host == "0.0.0.0" || a.Host == "::":
			problems = append(problems, n.problem("advertised.listeners", "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."))
		case n.listener(a.Name) == nil:
			problems = append(problems, n.problem("advertised.listeners", "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found %s. The valid options based on the current configuration are %s", a.Name, n.String("listeners")))
		}
	}
	for _, l := range n.Listeners {
		if slices.ContainsFunc(n.AdvertisedListeners, func(a Listener) bool { return a.Name == l.Name }) {
			continue
		}
		if given && !n.IsControllerListener(l.Name) {
			continue // listens, but is told to nobody
		}
		switch wildcard := l.Host == "0.0.0.0" || l.Host == "::"; {
		case wildcard && n.IsControllerListener(l.Name):
			l.Host = "" // the machine's own name
		case wildcard:
			problems = append(problems, errors.New("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."))
		}
		n.AdvertisedListeners = append(n.AdvertisedListeners, l)
	}
	return problems
}

func (n *Node) deriveInterBroker(brokerListeners []string) []error {
	if !n.HasRole(RoleBroker) {
		return nil
	}
	name := strings.ToUpper(n.String("inter.broker.listener.name"))
	if name == "" {
		protocol := strings.ToUpper(n.String("security.inter.broker.protocol"))
		i := slices.IndexFunc(n.Listeners, func(l Listener) bool {
			return l.Name == protocol && slices.Contains(brokerListeners, l.Name)
		})
		if i < 0 {
			return []error{n.problem("inter.broker.listener.name", "inter.broker.listener.name must be a listener name defined in advertised.listeners: %s is not one of %s", protocol, strings.Join(brokerListeners, ","))}
		}
		name = n.Listeners[i].Name
	}
	if protocols, err := n.securityProtocols(); err == nil && protocols[name] == "" {
		return []error{n.problem("inter.broker.listener.name", "Listener with name %s defined in inter.broker.listener.name not found in listener.security.protocol.map.", name)}
	}
	if !slices.Contains(brokerListeners, name) {
		return []error{n.problem("inter.broker.listener.name", "inter.broker.listener.name must be a listener name defined in advertised.listeners: %s is not one of %s", name, strings.Join(brokerListeners, ","))}
	}
	n.InterBrokerListener = name
	return nil
}

// IsControllerListener reports whether controller.listener.names holds the name.
func (n *Node) IsControllerListener(name string) bool {
	return slices.Contains(n.ControllerListeners, name)
}

func (n *Node) listener(name string) *Listener {
	for i := range n.Listeners {
		if n.Listeners[i].Name == name {
			return &n.Listeners[i]
		}
	}
	return nil
}

// sameInterface reports whether two hosts on one port would collide: not so for an IPv4 and an IPv6 literal.
func sameInterface(a, b string) bool {
	ipA, ipB := net.ParseIP(a), net.ParseIP(b)
	return ipA == nil || ipB == nil || (ipA.To4() == nil) == (ipB.To4() == nil)
}
