package real

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/env"
)

// The other side of the benchmarks is a process of its own, so that the processor time measured is the server's.
func TestMain(m *testing.M) {
	if addr := os.Getenv("ENV_BENCH_PEER"); addr != "" {
		peer(addr)
		return
	}
	os.Exit(m.Run())
}

// peer sends frames, so many before their answers, and reads the answers.
func peer(addr string) {
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			panic(err)
		}
		return n
	}
	count, size, window := number("ENV_BENCH_COUNT"), number("ENV_BENCH_SIZE"), number("ENV_BENCH_WINDOW")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(size))
	frame = append(frame, make([]byte, size)...)
	free := make(chan struct{}, window)
	for range window {
		free <- struct{}{}
	}
	go func() {
		for range count {
			<-free
			if _, err := c.Write(frame); err != nil {
				panic(err)
			}
		}
	}()
	buf := make([]byte, 256<<10)
	for range count {
		if _, err := io.ReadFull(c, buf[:4]); err != nil {
			panic(err)
		}
		for left := int(binary.BigEndian.Uint32(buf)); left > 0; {
			n, err := c.Read(buf[:min(left, len(buf))])
			if err != nil {
				panic(err)
			}
			left -= n
		}
		free <- struct{}{}
	}
}

func cpuTime() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// runPeer reports milliseconds of processor time per GB of volume, and per thousand frames.
func runPeer(b *testing.B, h env.Handler, size, window int, volume int64) {
	e := New(Options{})
	l, err := e.Net().Listen("127.0.0.1:0", env.ListenOptions{MaxMessage: 100 << 20, IdleTimeout: 1 << 40}, func(env.Conn) env.Handler { return h })
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ENV_BENCH_PEER="+l.Addr(), fmt.Sprintf("ENV_BENCH_COUNT=%d", b.N), fmt.Sprintf("ENV_BENCH_SIZE=%d", size), fmt.Sprintf("ENV_BENCH_WINDOW=%d", window))
	cmd.Stderr = os.Stderr
	b.SetBytes(volume)
	before := cpuTime()
	b.ResetTimer()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	used := cpuTime() - before
	b.ReportMetric(used/(float64(volume)*float64(b.N)/1e9), "cpu-ms/GB")
	b.ReportMetric(used*1000/float64(b.N), "cpu-us/frame")
}

type answerShortly struct{}

var shortAnswer = make([]byte, 60)

func (answerShortly) Opened(env.Conn) {}
func (answerShortly) Message(c env.Conn, b *env.Buffer) {
	b.Release()
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: shortAnswer}}})
}
func (answerShortly) Closed(env.Conn, error) {}

// BenchmarkReceive is what a produce costs below the log.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 100 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			runPeer(b, answerShortly{}, size, 5, int64(size))
		})
	}
}

type answerRegion struct {
	f    env.File
	size int
}

func (answerRegion) Opened(env.Conn) {}
func (a answerRegion) Message(c env.Conn, b *env.Buffer) {
	b.Release()
	c.Send(env.Outgoing{Parts: []env.Part{{Bytes: shortAnswer}, {File: a.f, Length: int64(a.size)}, {Bytes: shortAnswer[:1]}}})
}
func (answerRegion) Closed(env.Conn, error) {}

// BenchmarkRegions is what a fetch costs above the log, warm. The ways of sending meet at smallRegion.
func BenchmarkRegions(b *testing.B) {
	name := filepath.Join(b.TempDir(), "segment")
	if err := os.WriteFile(name, bytes.Repeat([]byte("0123456789abcdef"), 1<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := New(Options{}).FS().Open(name, os.O_RDONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20, 8 << 20} {
		for _, way := range []string{"sendfile", "read"} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, way), func(b *testing.B) {
				old := smallRegion
				defer func() { smallRegion = old }()
				smallRegion = 0
				if way == "read" {
					smallRegion = 1 << 40
				}
				runPeer(b, answerRegion{f, size}, 80, 2, int64(size))
			})
		}
	}
}
