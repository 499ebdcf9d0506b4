//go:build !linux

package real

import "net"

func newSource(c net.Conn) source { return stream{c} }

func newSink(c net.Conn) sink { return streamSink{c} }
