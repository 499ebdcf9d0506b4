package sim

import (
	"io"
	"log/slog"
	"time"
)

// Options of a World. The zero value is a quiet world: no faults besides those that the caller causes.
type Options struct {
	// Start is the wall clock at virtual time 0; default 2026-01-01 UTC.
	Start time.Time
	// SchedulingDelay is the longest time from posting to a queue until it runs, and between two of its functions;
	// default 20 µs.
	SchedulingDelay time.Duration
	Network         NetworkFaults
	Disk            DiskFaults
	// Trace receives one line per event and per log line; nil = only the last TraceLength are kept.
	Trace io.Writer
	// TraceLength is the number of lines that LastEvents can give; default 200.
	TraceLength int
	// LogLevel is the lowest level that nodes log at; default info.
	LogLevel slog.Level
	// Describe tells what a frame is, for the trace; nil = only its size.
	Describe func(frame []byte) string
}

// NetworkFaults are drawn for each frame. Probabilities are between 0 and 1.
type NetworkFaults struct {
	// MinLatency and MaxLatency of a frame that nothing happens to; default 50 µs and 400 µs.
	MinLatency, MaxLatency time.Duration
	// Late frames need up to LateBy (default 2 s).
	Late   float64
	LateBy time.Duration
	// Lose drops a frame; TCP sends it again 200 ms later, or later still, and everything behind it waits.
	Lose float64
	// Reset breaks the connection at a frame. The frame may or may not arrive before that.
	Reset float64
	// DialFail lets a connection attempt fail although the other side listens.
	DialFail float64
	// DeadAfter is the time after which a sender whose frames cannot get through gives its connection up; default
	// 20 s. The other side notices when it sends, or by keep-alive after three times as long.
	DeadAfter time.Duration
}

// DiskFaults are drawn for each call.
type DiskFaults struct {
	// MinSync and MaxSync bound the time that a sync takes; default 20 µs and 200 µs. Slow ones need up to SlowBy
	// (default 3 s), and the whole node hangs meanwhile.
	MinSync, MaxSync time.Duration
	Slow             float64
	SlowBy           time.Duration
	// WriteError fails a write and writes nothing; ShortWrite writes a part first. SyncError fails a sync: what was
	// to be synced stays readable and is never durable, whatever later syncs say. ReadError fails a read.
	WriteError, ShortWrite, SyncError, ReadError float64
	// Capacity in bytes; 0 = 1 TiB.
	Capacity int64
	// At a crash, of the pages that were not synced: Torn keeps a part of a page's 512-byte sectors, Garbled fills a
	// sector's changed bytes with other ones. Both are shares of the pages that survive at all.
	Torn, Garbled float64
}

func (o *Options) setDefaults() {
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	orDefault(&o.SchedulingDelay, 20*time.Microsecond)
	if o.TraceLength == 0 {
		o.TraceLength = 200
	}
	o.Network.setDefaults()
	o.Disk.setDefaults()
}

func (f *NetworkFaults) setDefaults() {
	orDefault(&f.MinLatency, 50*time.Microsecond)
	orDefault(&f.MaxLatency, 400*time.Microsecond)
	orDefault(&f.LateBy, 2*time.Second)
	orDefault(&f.DeadAfter, 20*time.Second)
}

func (f *DiskFaults) setDefaults() {
	orDefault(&f.MinSync, 20*time.Microsecond)
	orDefault(&f.MaxSync, 200*time.Microsecond)
	orDefault(&f.SlowBy, 3*time.Second)
	if f.Capacity == 0 {
		f.Capacity = 1 << 40
	}
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
