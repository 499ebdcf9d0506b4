package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOutage: nothing for a second, then one line until there was a connection.
func TestOutage(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	o := &outage{w: &out, now: func() time.Time { return now }}
	refused := errors.New("connection refused")
	for _, step := range []struct {
		after time.Duration
		err   error
		lines int // that were printed until then
	}{
		{0, refused, 0},
		{999 * time.Millisecond, refused, 0},
		{time.Millisecond, refused, 1},
		{time.Minute, refused, 1},
		{time.Minute, nil, 1},
		{time.Minute, refused, 1},
		{999 * time.Millisecond, refused, 1},
		{time.Millisecond, refused, 2},
	} {
		now = now.Add(step.after)
		o.OnBrokerConnect(kgo.BrokerMetadata{Host: "::1", Port: 9092}, 0, nil, step.err)
		if got := strings.Count(out.String(), "[::1]:9092: connection refused; still trying\n"); got != step.lines || strings.Count(out.String(), "\n") != got {
			t.Fatalf("after %v: %q, want %d lines", now.Sub(time.Unix(0, 0)), out.String(), step.lines)
		}
	}
}

// TestAwaitBroker: one refusal is no reason to give up, the end of the context is.
func TestAwaitBroker(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	dials := 0
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
		if dials++; dials == 5 {
			cancel()
		}
		return nil, errors.New("connection refused")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	awaitBroker(ctx, client, time.Hour)
	if dials < 5 {
		t.Errorf("gave up after %d attempts", dials)
	}
}
