package real

import (
	"encoding/binary"
	"net"

	"github.com/ottla-io/ottla/internal/env"
)

const (
	// smallWrite: frames up to this size are written by the sender itself if the socket takes them at once.
	smallWrite = 64 << 10
	// smallRegion: regions of files up to this size are read and sent with their neighbours; larger ones go from file
	// to socket inside the kernel.
	smallRegion = 32 << 10
)

// Send queues a frame and never waits for the peer.
func (k *conn) Send(o env.Outgoing) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		drop([]env.Outgoing{o})
		return
	}
	if k.c == nil || k.writing {
		k.out = append(k.out, o)
		k.mu.Unlock()
		return
	}
	k.writing = true
	k.mu.Unlock()
	if rest, ok := k.writeNow(o); ok {
		k.finish(o)
		k.mu.Lock()
		if len(k.out) == 0 && !k.closed {
			k.writing = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		go k.env.guard("write to "+k.remote, k.write)
	} else {
		go k.env.guard("write to "+k.remote, func() {
			if !k.writeParts(rest) {
				k.Close()
			}
			k.finish(o)
			k.write()
		})
	}
}

func (k *conn) finish(o env.Outgoing) {
	k.lastWrite.Store(int64(k.env.Monotonic()))
	if o.Done != nil {
		o.Done()
	}
}

// write sends what is queued until nothing is left.
func (k *conn) write() {
	for {
		k.mu.Lock()
		if len(k.out) == 0 || k.closed {
			k.writing = false
			dropped := k.out
			k.out = nil
			k.mu.Unlock()
			drop(dropped)
			return
		}
		o := k.out[0]
		k.out[0] = env.Outgoing{}
		k.out = k.out[1:]
		if len(k.out) == 0 {
			k.out = nil
		}
		k.mu.Unlock()
		if !k.writeParts(framed(o)) {
			k.Close()
		}
		k.finish(o)
	}
}

// framed puts the length in front.
func framed(o env.Outgoing) []env.Part {
	var size int64
	for _, p := range o.Parts {
		size += p.Size()
	}
	parts := make([]env.Part, 0, len(o.Parts)+1)
	parts = append(parts, env.Part{Bytes: binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(size))})
	return append(parts, o.Parts...)
}

// writeNow tries to write a small frame from memory without waiting. If some of it is left, it returns that.
func (k *conn) writeNow(o env.Outgoing) (rest []env.Part, ok bool) {
	parts := framed(o)
	var size int64
	for _, p := range parts {
		if p.File != nil {
			return parts, false
		}
		size += p.Size()
	}
	t, isTCP := k.c.(*net.TCPConn)
	if size > smallWrite || !isTCP {
		return parts, false
	}
	written := tryWrite(t, parts)
	if written == size {
		return nil, true
	}
	for len(parts) > 0 && written >= int64(len(parts[0].Bytes)) {
		written -= int64(len(parts[0].Bytes))
		parts = parts[1:]
	}
	parts[0].Bytes = parts[0].Bytes[written:]
	return parts, false
}

// writeParts waits as long as the peer is slow; false means that the connection is broken.
func (k *conn) writeParts(parts []env.Part) bool {
	var memory net.Buffers
	var read []*env.Buffer
	flush := func() bool {
		_, err := memory.WriteTo(k.c)
		for _, b := range read {
			b.Release()
		}
		memory, read = nil, nil
		return err == nil
	}
	for _, p := range parts {
		switch {
		case p.File == nil:
			memory = append(memory, p.Bytes)
		case p.Length <= smallRegion || !canSendFile(k.c, p.File):
			for at, left := p.Offset, p.Length; left > 0; {
				n := min(left, 256<<10)
				b := env.NewBuffer(int(n))
				read = append(read, b)
				if _, err := p.File.ReadAt(b.B, at); err != nil {
					k.env.logger.Error("reading a region to send failed", "file", p.File.Name(), "position", at, "bytes", n, "error", err)
					memory = nil
					flush()
					return false
				}
				memory = append(memory, b.B)
				at, left = at+n, left-n
				if left > 0 && !flush() {
					return false
				}
			}
		default:
			if len(memory) > 0 && !flush() {
				return false
			}
			if err := sendFile(k.c, p); err != nil {
				return false
			}
		}
	}
	return flush()
}
