//go:build !linux

package real

import (
	"errors"
	"net"

	"github.com/ottla-io/ottla/internal/env"
)

func tryWrite(*net.TCPConn, []env.Part) int64 { return 0 }

func canSendFile(net.Conn, env.File) bool { return false }

func sendFile(net.Conn, env.Part) error { return errors.ErrUnsupported }
