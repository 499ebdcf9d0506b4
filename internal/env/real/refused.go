package real

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/ottla-io/ottla/internal/env"
)

// wsaRefused is what Windows says.
const wsaRefused = syscall.Errno(10061)

func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// dialEach tries the addresses of a name one by one after one of them has refused: the connection is refused only if all
// are. (net tells of the first address only, and another one may be that of a machine that does not answer.)
func dialEach(ctx context.Context, d *net.Dialer, addr string, refusal error) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return nil, env.Refused(refusal)
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 1 {
		return nil, env.Refused(refusal)
	}
	for _, ip := range ips {
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
		if err == nil || !isRefused(err) {
			return c, err
		}
	}
	return nil, env.Refused(refusal)
}
