package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outage tells once when a client that waits without end has been without any broker for a while. It is a hook of the
// client's connections; any goroutine.
type outage struct {
	w   io.Writer
	now func() time.Time

	mu    sync.Mutex
	since time.Time // of the first attempt that failed; zero while there is a connection
	told  bool
}

var _ kgo.HookBrokerConnect = (*outage)(nil)

// OnBrokerConnect is told of each attempt to connect.
func (o *outage) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.since, o.told = time.Time{}, false
	case o.since.IsZero():
		o.since = o.now()
	case !o.told && o.now().Sub(o.since) >= quiet:
		o.told = true
		fmt.Fprintf(o.w, "%s: %v; still trying\n", net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), err)
	}
}

// awaitBroker waits until one of the brokers that a client was given answers, ctx ends, or the patience is over: what comes then
// says so itself.
func awaitBroker(ctx context.Context, client *kgo.Client, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tries := 0; client.Ping(ctx) != nil; tries++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(20*time.Millisecond<<min(tries, 6), time.Second)):
		}
	}
}
