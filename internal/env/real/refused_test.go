package real

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// A port where nobody listens is told from silence, also by a name with several addresses.
func TestRefusedIsNotSilence(t *testing.T) {
	e := New(Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		client := collect{newEcho()}
		e.Net().Dial(net.JoinHostPort(host, port), env.DialOptions{}, client)
		if err := <-client.closed; !errors.Is(err, env.ErrRefused) {
			t.Errorf("%s: %v", host, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if _, err := dial(ctx, "127.0.0.1:"+port, nil); err == nil || errors.Is(err, env.ErrRefused) {
		t.Errorf("no time to ask: %v", err)
	}
}
