package real

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/ottla-io/ottla/internal/env"
)

const (
	maxBatch  = 64      // frames taken at once
	maxGather = 1 << 20 // bytes handed to the system at once
)

// smallRegion: regions of files up to this size are read and leave with what surrounds them; larger ones go from file
// to socket inside the kernel. See BenchmarkRegions.
var smallRegion int64 = 32 << 10

// writer turns frames into bytes on a connection, in order.
type writer struct {
	sink   sink
	batch  []env.Outgoing
	next   int // the first of batch that is not done
	pieces []piece
	at     int // the first piece that is not written
	header []byte
	told   int // pieces before this one were looked at by finish
}

// piece is a run of bytes in memory, or in a file.
type piece struct {
	b      []byte
	buf    *env.Buffer // b's, if it was read from a file
	file   env.File
	offset int64
	length int64
	last   bool // of its frame
}

func (w *writer) attach(c net.Conn) { w.sink = newSink(c) }

func (w *writer) empty() bool { return w.next == len(w.batch) }

// take moves frames from the queue to the batch, and returns the rest of the queue.
func (w *writer) take(out []env.Outgoing) []env.Outgoing {
	n := min(len(out), maxBatch)
	w.batch = append(w.batch[:0], out[:n]...)
	w.next, w.at, w.told = 0, 0, 0
	w.pieces = w.pieces[:0]
	if need := 4 * n; cap(w.header) < need {
		w.header = make([]byte, 0, need) // before pieces point into it
	}
	w.header = w.header[:0]
	for _, o := range w.batch {
		w.add(o)
	}
	rest := copy(out, out[n:])
	clear(out[rest:])
	if rest == 0 && cap(out) > maxBatch {
		return nil
	}
	return out[:rest]
}

func (w *writer) add(o env.Outgoing) {
	var size int64
	for _, p := range o.Parts {
		size += p.Size()
	}
	from := len(w.header)
	w.header = binary.BigEndian.AppendUint32(w.header, uint32(size))
	w.pieces = append(w.pieces, piece{b: w.header[from:]})
	for _, p := range o.Parts {
		if p.Size() == 0 {
			continue
		}
		if p.File == nil {
			w.pieces = append(w.pieces, piece{b: p.Bytes})
			continue
		}
		w.addRegion(p)
	}
	w.pieces[len(w.pieces)-1].last = true
}

// addRegion cuts a region that has to be read into pieces that are read when their turn comes.
func (w *writer) addRegion(p env.Part) {
	if p.Length > smallRegion && w.sink.sendsFiles(p.File) {
		w.pieces = append(w.pieces, piece{file: p.File, offset: p.Offset, length: p.Length})
		return
	}
	for done := int64(0); done < p.Length; {
		n := min(p.Length-done, readPiece)
		w.pieces = append(w.pieces, piece{file: p.File, offset: p.Offset + done, length: n})
		done += n
	}
}

// readPiece is how much of a file is held in memory per read.
const readPiece = 128 << 10

// write hands the batch to the socket. full means that it takes no more now and wait is not set.
func (w *writer) write(wait bool) (written int64, full bool, err error) {
	return w.sink.write(w, wait)
}

// gather returns the pieces to be written next as a list of slices; nothing if the next one goes from file to socket.
// behind says that such a one follows at once.
func (w *writer) gather(list [][]byte) (_ [][]byte, behind bool, err error) {
	bytes := 0
	for i := w.at; i < len(w.pieces) && bytes < maxGather && len(list) < maxBatch; i++ {
		p := &w.pieces[i]
		if p.b == nil {
			if p.length > smallRegion && w.sink.sendsFiles(p.file) {
				return list, true, nil
			}
			if err := p.read(); err != nil {
				return nil, false, err
			}
		}
		list = append(list, p.b)
		bytes += len(p.b)
	}
	return list, false, nil
}

// read brings a piece of a file into memory.
func (p *piece) read() error {
	buf := env.NewBuffer(int(p.length))
	if _, err := p.file.ReadAt(buf.B, p.offset); err != nil {
		buf.Release()
		return fmt.Errorf("read %d bytes at %d of %s to send them: %w", p.length, p.offset, p.file.Name(), err)
	}
	p.b, p.buf = buf.B, buf
	return nil
}

// advance counts bytes as written.
func (w *writer) advance(n int64) {
	for n > 0 {
		p := &w.pieces[w.at]
		if p.b == nil {
			p.offset += n
			p.length -= n
			if p.length > 0 {
				return
			}
			n = 0
		} else {
			if n < int64(len(p.b)) {
				p.b = p.b[n:]
				return
			}
			n -= int64(len(p.b))
		}
		p.release()
		w.at++
	}
}

func (p *piece) release() {
	if p.buf != nil {
		p.buf.Release()
		p.buf = nil
	}
	p.b, p.file = nil, nil
}

// finish calls Done of the frames that are written and returns their memory, with frameCost.
func (w *writer) finish() (memory int) {
	for ; w.told < w.at; w.told++ {
		if w.pieces[w.told].last {
			memory += w.done()
		}
	}
	return memory
}

func (w *writer) done() (memory int) {
	o := w.batch[w.next]
	w.batch[w.next] = env.Outgoing{}
	w.next++
	memory = frameCost
	for _, p := range o.Parts {
		memory += len(p.Bytes)
	}
	if o.Done != nil {
		o.Done()
	}
	return memory
}

// drop ends the batch as it is.
func (w *writer) drop() {
	for i := w.at; i < len(w.pieces); i++ {
		w.pieces[i].release()
	}
	w.at = len(w.pieces)
	for !w.empty() {
		w.done()
	}
}

// sink writes to a connection.
type sink interface {
	// write writes pieces of w and advances it; see writer.write.
	write(w *writer, wait bool) (written int64, full bool, err error)
	// sendsFiles says whether regions of f go to the socket without passing through memory.
	sendsFiles(f env.File) bool
}

// streamSink copies everything through one buffer: few large writes make few TLS records. It always waits.
type streamSink struct{ c net.Conn }

func (streamSink) sendsFiles(env.File) bool { return false }

func (s streamSink) write(w *writer, wait bool) (written int64, full bool, err error) {
	if !wait {
		return 0, true, nil
	}
	buf := env.NewBuffer(streamChunk)
	defer buf.Release()
	filled := 0
	for filled < len(buf.B) && w.at < len(w.pieces) {
		p := &w.pieces[w.at]
		if p.b == nil {
			if err := p.read(); err != nil {
				return 0, false, err
			}
		}
		n := copy(buf.B[filled:], p.b)
		filled += n
		w.advance(int64(n))
	}
	n, err := s.c.Write(buf.B[:filled])
	return int64(n), false, err
}

const streamChunk = 64 << 10
