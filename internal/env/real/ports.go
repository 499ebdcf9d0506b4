package real

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are addresses that are kept for nodes until they listen on them. Others may then connect already, and wait.
type Ports struct {
	mu   sync.Mutex
	kept map[string]net.Listener
}

// Ports that Reserve chooses among: below those that systems give to connections, so that a node that was stopped finds its port
// free when it is started again.
const (
	firstPort = 16 << 10
	endPort   = 32 << 10
)

// Reserve takes a free port of the loopback interface, and returns it with its host.
func (p *Ports) Reserve() (addr string, err error) {
	for range 1000 {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(endPort-firstPort)))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.kept == nil {
				p.kept = map[string]net.Listener{}
			}
			p.kept[addr] = l
			return addr, nil
		}
	}
	return "", fmt.Errorf("find a free port between %d and %d: %w", firstPort, endPort, err)
}

// Listen hands out what was reserved, or opens a listener. It is Options.Listen.
func (p *Ports) Listen(addr string) (net.Listener, error) {
	p.mu.Lock()
	l := p.kept[addr]
	delete(p.kept, addr)
	p.mu.Unlock()
	if l != nil {
		return l, nil
	}
	return net.Listen("tcp", addr)
}

// Close gives up what nobody listens on.
func (p *Ports) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, l := range p.kept {
		errs = append(errs, l.Close())
	}
	p.kept = nil
	return errors.Join(errs...)
}
