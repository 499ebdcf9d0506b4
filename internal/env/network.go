package env

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Network carries Kafka's frames: an int32 length and that many bytes. Framing is done here, on both sides.
type Network interface {
	// Listen takes connections on host:port; port 0 means any free one. accept runs for each connection before its
	// first message and returns who handles it.
	Listen(addr string, o ListenOptions, accept func(Conn) Handler) (Listener, error)
	// Dial returns at once; h learns by Opened or Closed how it went.
	Dial(addr string, o DialOptions, h Handler) Conn
}

// ListenOptions bound what a stranger can do to a listener.
type ListenOptions struct {
	MaxMessage    int           // bytes; a larger frame closes the connection with a FrameError
	IdleTimeout   time.Duration // without a complete frame or a write for so long: closed with ErrIdle; 0 = never
	TLS           *tls.Config   // env/real only
	SendBuffer    int           // bytes, 0 or -1 = the operating system's choice
	ReceiveBuffer int
}

// DialOptions are those of a client.
type DialOptions struct {
	Timeout    time.Duration // to connect; 0 = 30 s
	MaxMessage int           // bytes; 0 = 100 MiB
	TLS        *tls.Config   // env/real only
}

// Listener accepts connections until it is closed. Its connections live on.
type Listener interface {
	Addr() string // host:port, the port filled in
	Close() error
}

// Conn is one connection. Its methods may be called from any goroutine.
type Conn interface {
	// Send queues a frame; frames leave in the order of the calls. o.Done is called in any case, never inside Send.
	Send(o Outgoing)
	// Close drops what is queued. The handler's Closed follows.
	Close()
	// Pause stops delivery of messages after the one being handled; Resume goes on. They do not nest.
	Pause()
	Resume()
	SetMaxMessage(bytes int)
	LocalAddr() string
	RemoteAddr() string
}

// Handler is told what happens to a connection. Calls for one connection come one at a time and must not block. What
// Message sends before it returns leaves together with the answers to other frames that came in the same read.
type Handler interface {
	// Opened says that a dialled connection is there. Accepted connections do not get it.
	Opened(c Conn)
	// Message delivers a frame without its length. The handler owns b and releases it.
	Message(c Conn, b *Buffer)
	// Closed is the last call; frames that were sent may still wait for their Done. A nil error means that the peer or we closed in order; a *FrameError that the peer
	// sent a length we do not take.
	Closed(c Conn, err error)
}

// FrameError says that a peer announced a frame of a size that is not allowed.
type FrameError struct {
	Size  int32
	Limit int
}

func (e *FrameError) Error() string {
	if e.Size < 0 {
		return fmt.Sprintf("invalid frame: its length is %d", e.Size)
	}
	return fmt.Sprintf("invalid frame: %d bytes announced, at most %d allowed", e.Size, e.Limit)
}

// ErrIdle ends a connection that was quiet for longer than ListenOptions.IdleTimeout.
var ErrIdle = errors.New("idle for too long")

// ErrRefused is what a dialled connection ends with, if nobody listens there and the other machine said so itself: all
// addresses of the name that was dialled refused. No answer, or one from elsewhere on the way, is never that.
var ErrRefused = errors.New("connection refused")

// Refused marks an error as ErrRefused and keeps its text.
func Refused(err error) error { return refused{err} }

type refused struct{ error }

func (r refused) Unwrap() error      { return r.error }
func (refused) Is(target error) bool { return target == ErrRefused }

// Part is a run of bytes to send: from memory, or Length bytes of File from Offset.
type Part struct {
	Bytes  []byte
	File   File
	Offset int64
	Length int64
}

// Size is the number of bytes that the part stands for.
func (p Part) Size() int64 {
	if p.File != nil {
		return p.Length
	}
	return int64(len(p.Bytes))
}

// Outgoing is one frame, without its length, in parts. Done is called once when nothing reads the parts any more:
// after the frame was written, or when it was dropped. It may be nil.
type Outgoing struct {
	Parts []Part
	Done  func()
}
