package storage

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// What the log costs above the system calls that it cannot do without. Each benchmark takes turns between the raw calls and the log,
// so that other work on the machine slows both, and reports the log's share of the raw speed (100: as fast).

// benchLog is a log in a folder of its own.
func benchLog(b *testing.B, own map[string]string) (*Manager, *Log) {
	b.Helper()
	m := openQuietly(b, b.TempDir())
	b.Cleanup(m.Abandon)
	l, err := m.Open(TopicPartition{Topic: "t"}, uuid.UUID{1}, uuid.Zero, config.Topic{Layers: config.Layers{Node: nodeSettings(b)}, Own: own})
	if err != nil {
		b.Fatal(err)
	}
	return m, l
}

// openQuietly opens the logs of a folder, and writes nothing about them among the results. Nothing is cleaned but by the benchmark.
func openQuietly(b *testing.B, dir string) *Manager {
	b.Helper()
	n := nodeSettings(b)
	o := ManagerOptionsFrom(n)
	o.Directories, o.Settings, o.Cleaner.Threads = []DirectoryOptions{{Path: dir}}, topicSettings(n), 0
	m, err := OpenManager(real.New(real.Options{Logger: slog.New(slog.DiscardHandler)}), o)
	if err != nil {
		b.Fatal(err)
	}
	loaded := make(chan error)
	m.Load(func(err error) { loaded <- err })
	if err := <-loaded; err != nil {
		b.Fatal(err)
	}
	return m
}

// batchOf has so many records of a size, with keys from a number on.
func batchOf(b *testing.B, records, size, key int) record.Batch {
	b.Helper()
	builder := record.NewBuilder(0, record.None)
	value := make([]byte, size)
	for i := range records {
		builder.Append(time.Now().UnixMilli(), fmt.Appendf(nil, "key-%08d", key+i), value)
	}
	batch, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// benchVolume is how much is written before the files are cut again: it stays in memory, so that the disk is not what is measured.
const benchVolume = 64 << 20

// turn adds up the time of one side.
type turn struct{ took time.Duration }

func (t *turn) run(fn func() error) error {
	begin := time.Now()
	err := fn()
	t.took += time.Since(begin)
	return err
}

func report(b *testing.B, bytes int64, raw, ours turn) {
	b.ReportMetric(float64(bytes)/1e6/raw.took.Seconds(), "raw-MB/s")
	b.ReportMetric(float64(bytes)/1e6/ours.took.Seconds(), "log-MB/s")
	b.ReportMetric(100*raw.took.Seconds()/ours.took.Seconds(), "%-of-raw")
}

// BenchmarkAppend is what an append costs beside write(2) of the same bytes: as a leader, who checks every record, and as a follower.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []struct{ records, bytes int }{{10, 100}, {16, 1000}, {100, 1000}, {1000, 1000}} {
		for _, as := range []string{"leader", "follower"} {
			b.Run(fmt.Sprintf("%dx%d/%s", size.records, size.bytes, as), func(b *testing.B) {
				benchAppend(b, batchOf(b, size.records, size.bytes, 0), as == "leader")
			})
		}
	}
}

func benchAppend(b *testing.B, batch record.Batch, leader bool) {
	_, l := benchLog(b, nil)
	raw, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	appendOnce := func() error {
		if leader {
			batch.SetBaseOffset(0)
			_, err := l.AppendAsLeader(batch, 0, AppendOptions{ProduceVersion: 9})
			return err
		}
		batch.SetBaseOffset(l.EndOffset())
		return l.AppendAsFollower(batch)
	}
	if err := appendOnce(); err != nil { // what the first one makes is there
		b.Fatal(err)
	}
	var system, ours turn
	written := 0
	b.ReportAllocs()
	for b.Loop() {
		err := system.run(func() error { _, err := raw.Write(batch); return err })
		if err == nil {
			err = ours.run(appendOnce)
		}
		if written += len(batch); written >= benchVolume && err == nil {
			b.StopTimer()
			written = 0
			if err = l.TruncateTo(0); err == nil {
				_, err = raw.Seek(0, 0)
			}
			if err == nil {
				err = raw.Truncate(0)
			}
			b.StartTimer()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	report(b, int64(b.N)*int64(len(batch)), system, ours)
}

// BenchmarkRead is what a read from the beginning to the end costs, through the log and our connections, beside sendfile(2) of the
// same file to a socket of the same machine. One iteration reads the whole log, warm, as fetches of 1 MiB.
func BenchmarkRead(b *testing.B) {
	m, l := benchLog(b, nil)
	batch := batchOf(b, 16, 1000, 0)
	for range benchVolume / len(batch) {
		batch.SetBaseOffset(0)
		if _, err := l.AppendAsLeader(batch, 0, AppendOptions{ProduceVersion: 9}); err != nil {
			b.Fatal(err)
		}
	}
	l.SetHighWatermark(l.EndOffset())
	raw, ours := newRawSender(b, m, l), newLogSender(b, l)
	var system, log turn
	b.ReportAllocs()
	for b.Loop() {
		if err := system.run(raw); err != nil {
			b.Fatal(err)
		}
		if err := log.run(ours); err != nil {
			b.Fatal(err)
		}
	}
	report(b, int64(b.N)*benchVolume, system, log)
}

const fetchSize = 1 << 20

// drain reads so many bytes from a connection.
func drain(c net.Conn, buf []byte, n int64) error {
	for n > 0 {
		got, err := c.Read(buf[:min(n, int64(len(buf)))])
		if err != nil {
			return err
		}
		n -= int64(got)
	}
	return nil
}

// newRawSender sends a log's segment with sendfile.
func newRawSender(b *testing.B, m *Manager, l *Log) func() error {
	b.Helper()
	s := l.view().active()
	f, err := os.Open(s.path(logSuffix))
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	peer, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _, _, _ = f.Close(), listener.Close(), client.Close(), peer.Close() })
	size, buf := s.size.Load(), make([]byte, 256<<10)
	raw, err := peer.(*net.TCPConn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	return func() error {
		var wg sync.WaitGroup
		var sendErr error
		wg.Go(func() {
			var at int64
			sendErr = raw.Write(func(fd uintptr) bool {
				for at < size {
					if _, err := unix.Sendfile(int(fd), int(f.Fd()), &at, int(min(fetchSize, size-at))); err != nil {
						return err != unix.EAGAIN //nolint:errorlint // an errno
					}
				}
				return true
			})
		})
		err := drain(client, buf, size)
		wg.Wait()
		if err == nil {
			err = sendErr
		}
		return err
	}
}

// logSender answers each message with the next region of a log.
type logSender struct {
	l      *Log
	offset int64
}

func (h *logSender) Opened(env.Conn)        {}
func (h *logSender) Closed(env.Conn, error) {}

func (h *logSender) Message(c env.Conn, m *env.Buffer) {
	m.Release()
	s, err := h.l.Read(h.offset, fetchSize, true, h.l.HighWatermark())
	if err != nil {
		c.Close()
		return
	}
	if h.offset = s.Next; h.offset == h.l.EndOffset() {
		h.offset = 0
	}
	c.Send(env.Outgoing{Parts: []env.Part{{File: s.File, Offset: s.Pos, Length: int64(s.Len)}}, Done: s.Release})
}

// newLogSender fetches a log from the beginning to the end, two requests ahead.
func newLogSender(b *testing.B, l *Log) func() error {
	b.Helper()
	e := real.New(real.Options{})
	listener, err := e.Net().Listen("127.0.0.1:0", env.ListenOptions{MaxMessage: 1 << 20, IdleTimeout: time.Hour}, func(env.Conn) env.Handler {
		return &logSender{l: l}
	})
	if err != nil {
		b.Fatal(err)
	}
	client, err := net.Dial("tcp", listener.Addr())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close(); listener.Close() })
	buf, request := make([]byte, 256<<10), []byte{0, 0, 0, 1, 0}
	var sizes []int64 // of the answers
	for offset := int64(0); offset < l.EndOffset(); {
		s, err := l.Read(offset, fetchSize, true, math.MaxInt64)
		if err != nil {
			b.Fatal(err)
		}
		sizes, offset = append(sizes, 4+int64(s.Len)), s.Next
		s.Release()
	}
	return func() error {
		if _, err := client.Write(request); err != nil {
			return err
		}
		for i, size := range sizes {
			if i < len(sizes)-1 {
				if _, err := client.Write(request); err != nil {
					return err
				}
			}
			if err := drain(client, buf, size); err != nil {
				return err
			}
		}
		return nil
	}
}

// BenchmarkOpen opens 20,000 partitions with a batch each, after a stop in order and after a crash.
func BenchmarkOpen(b *testing.B) {
	const partitions = 20_000
	dir := b.TempDir()
	m := openQuietly(b, dir)
	settings := topicSettings(nodeSettings(b))("")
	for i := range partitions {
		l, err := m.Open(TopicPartition{"t", int32(i)}, uuid.UUID{1}, uuid.Zero, settings)
		if err == nil {
			_, err = l.AppendAsLeader(someBatch(b, []byte("value")), 0, AppendOptions{ProduceVersion: 9})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := m.Shutdown(1); err != nil {
		b.Fatal(err)
	}
	for _, stop := range []string{"shutdown", "crash"} {
		b.Run(stop, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				before := heapInUse()
				b.StartTimer()
				m := openQuietly(b, dir)
				b.StopTimer()
				b.ReportMetric(float64(heapInUse()-before)/partitions, "B/partition")
				var err error
				if stop == "shutdown" {
					err = m.Shutdown(1)
				} else {
					m.Abandon()
				}
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/partitions, "us/partition")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkCompaction cleans a log in which each key is there four times.
func BenchmarkCompaction(b *testing.B) {
	const rounds, keys, perBatch = 4, 100_000, 100
	var volume int64
	for b.Loop() {
		b.StopTimer()
		m, l := benchLog(b, map[string]string{"cleanup.policy": "compact", "segment.bytes": "16777216", "min.cleanable.dirty.ratio": "0.01"})
		volume = 0
		for range rounds {
			for key := 0; key < keys; key += perBatch {
				batch := batchOf(b, perBatch, 200, key)
				if _, err := l.AppendAsLeader(batch, 0, AppendOptions{ProduceVersion: 9}); err != nil {
					b.Fatal(err)
				}
				volume += int64(len(batch))
			}
		}
		l.SetHighWatermark(l.EndOffset())
		f := m.cleaner.grab()
		if f.entry == nil {
			b.Fatal("nothing to clean")
		}
		b.StartTimer()
		pass := newCleaning(f, m.env.Logger(), m.cleaner.o)
		for done := false; !done; {
			var err error
			if _, done, err = pass.step(); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		m.Abandon()
		b.StartTimer()
	}
	b.SetBytes(volume)
}
