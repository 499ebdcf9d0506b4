//go:build interop

package compaction

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// kafka is a process that runs Kafka's classes.
type kafka struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// startKafka compiles Clean.java against Kafka's jars and starts it.
func startKafka(t *testing.T) *kafka {
	t.Helper()
	dir := os.Getenv("KAFKA_LIBS")
	if dir == "" {
		t.Fatal("KAFKA_LIBS must name the folder of Kafka's jars")
	}
	cp, classes := filepath.Join(dir, "*"), t.TempDir()
	if out, err := exec.Command("javac", "-nowarn", "-cp", cp, "-d", classes, "Clean.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", classes+string(os.PathListSeparator)+cp, "Clean")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &kafka{t, in, bufio.NewScanner(out)}
	k.out.Buffer(nil, 1<<20)
	return k
}

// run gives the lines that Kafka answers.
func (k *kafka) run(words ...any) []string {
	k.t.Helper()
	if _, err := fmt.Fprintln(k.in, words...); err != nil {
		k.t.Fatal(err)
	}
	var lines []string
	for k.out.Scan() {
		if k.out.Text() == "." {
			return lines
		}
		lines = append(lines, k.out.Text())
	}
	k.t.Fatalf("Kafka ended at %v: %v", words, lines)
	return nil
}

// frozen is an environment whose clock stands still.
type frozen struct {
	*real.Env
	now int64
}

func (f frozen) Now() time.Time { return time.UnixMilli(f.now) }

var partition = storage.TopicPartition{Topic: "compacted", Partition: 0}

// world is a partition in two log directories, with the same settings.
type world struct {
	t        *testing.T
	kafka    *kafka
	settings map[string]string
	slots    int
	dirs     [2]string
	now      int64
	first    int64 // the first offset that is not clean

	sameSegments bool // which batch is in which segment is compared
}

// options are the settings as words.
func (w *world) options() []any {
	var out []any
	for k, v := range w.settings {
		out = append(out, k+"="+v)
	}
	return out
}

func (w *world) folder(i int) string { return filepath.Join(w.dirs[i], partition.String()) }

// ottla opens a directory, does something with the log and shuts down in order.
func (w *world) ottla(i, cleaners int, fn func(l *storage.Log)) {
	w.t.Helper()
	entries, problems := config.ParseProperties("", []byte("process.roles=broker\nnode.id=1\ncontroller.quorum.bootstrap.servers=a:1\ncontroller.listener.names=C\n"))
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	node, err := config.New(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	topic := config.Topic{Layers: config.Layers{Node: node}, Own: w.settings}
	o := storage.ManagerOptionsFrom(node)
	o.Directories, o.Settings = []storage.DirectoryOptions{{Path: w.dirs[i], ID: uuid.UUID{1}}}, func(string) config.Topic { return topic }
	o.Cleaner = storage.CleanerOptions{Threads: cleaners, DedupeBuffer: int64(24 * w.slots), LoadFactor: 0.9, IOBuffer: 1 << 12, MaxBytesPerSecond: 1e12, Backoff: time.Millisecond}
	m, err := storage.OpenManager(frozen{real.New(real.Options{Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil))}), w.now}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	loaded := make(chan error)
	m.Load(func(err error) { loaded <- err })
	if err := <-loaded; err != nil {
		w.t.Fatal(err)
	}
	l, err := m.Open(partition, uuid.UUID{9}, uuid.Zero, topic)
	if err != nil {
		w.t.Fatal(err)
	}
	l.SetHighWatermark(l.EndOffset())
	fn(l)
	if bad := m.Uncleanable(); len(bad) > 0 {
		w.t.Errorf("uncleanable: %v", bad)
	}
	if err := m.Shutdown(1); err != nil {
		w.t.Fatal(err)
	}
}

// append writes the same batches into both directories.
func (w *world) append(r *rand.Rand, p *producers) {
	w.t.Helper()
	var batches []record.Batch
	for range 60 + r.IntN(40) {
		batches = append(batches, p.draw(r, w.now))
	}
	for i := range w.dirs {
		w.ottla(i, 0, func(l *storage.Log) {
			for _, b := range batches {
				o := storage.AppendOptions{ProduceVersion: 9}
				if b.IsControl() {
					o = storage.AppendOptions{Origin: storage.FromCoordinator, TransactionVersion: 1}
				}
				if _, err := l.AppendAsLeader(slices.Clone(b), p.epoch, o); err != nil {
					w.t.Fatal(err)
				}
			}
			l.SetHighWatermark(l.EndOffset())
		})
	}
	p.epoch++
}

// producers draws batches with the right sequences.
type producers struct {
	epoch        int32
	next         map[int64]int32
	open         map[int64]bool
	transactions bool
	codecs       int // compressed batches have another size after each cleaner, and so other segments; with one codec all is the same
}

func (p *producers) draw(r *rand.Rand, now int64) record.Batch {
	id := int64(r.IntN(5)) - 1
	b := record.NewBuilder(0, record.Compression(r.IntN(p.codecs)))
	if p.open[id] && r.IntN(3) == 0 {
		b.Reset(0, record.None)
		b.AppendEndTxn(now, id, 0, record.EndTxn{Commit: r.IntN(2) == 0})
		p.open[id] = false
		return p.build(b)
	}
	n := 1 + r.IntN(4)
	if id >= 0 {
		b.SetProducer(id, 0, p.next[id])
		p.next[id] += int32(n)
		if p.transactions && id%2 == 0 {
			p.open[id] = true
			b.SetTransactional()
		}
	}
	for range n {
		value := []byte("value-" + strconv.Itoa(r.IntN(1_000_000)))
		if r.IntN(4) == 0 {
			value = nil
		}
		var headers []record.Header
		if r.IntN(3) == 0 {
			headers = []record.Header{{Key: []byte("h")}}
		}
		b.Append(now-int64(r.IntN(500)), []byte("key-"+strconv.Itoa(r.IntN(25))), value, headers...)
	}
	return p.build(b)
}

func (*producers) build(b *record.Builder) record.Batch {
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(batch)
}

// clean has one directory cleaned by Kafka and the other by Ottla.
func (w *world) clean(byKafka, byOttla int) {
	w.t.Helper()
	words := append([]any{"clean", w.folder(byKafka), w.now, w.first, w.slots}, w.options()...)
	end, err := strconv.ParseInt(w.kafka.run(words...)[0], 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.dirs[byOttla], storage.CleanerCheckpoint)
	fsys := real.New(real.Options{}).FS()
	if err := storage.WriteOffsetCheckpoint(fsys, path, map[storage.TopicPartition]int64{partition: w.first}); err != nil {
		w.t.Fatal(err)
	}
	w.ottla(byOttla, 1, func(*storage.Log) {
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			offsets, err := storage.ReadOffsetCheckpoint(fsys, path)
			if err == nil && offsets[partition] == end {
				return
			}
			if time.Since(begin) > time.Minute {
				w.t.Fatalf("Kafka has cleaned up to %d, Ottla up to %d, %v", end, offsets[partition], err)
			}
		}
	})
	w.first = end
}

// dump is what Ottla sees in a directory, in the words of Clean.java.
func (w *world) dump(i int) (lines []string) {
	w.t.Helper()
	w.ottla(i, 0, func(l *storage.Log) {
		lines = append(lines, fmt.Sprintf("log %d %d %d", l.StartOffset(), l.EndOffset(), l.LastStableOffset()))
		files, err := filepath.Glob(filepath.Join(w.folder(i), "*.log"))
		if err != nil {
			w.t.Fatal(err)
		}
		slices.Sort(files)
		for _, f := range files {
			base, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
			lines = append(lines, fmt.Sprintf("segment %d", base))
			data, err := os.ReadFile(f)
			if err != nil {
				w.t.Fatal(err)
			}
			for len(data) > 0 {
				b, rest, err := record.Next(data)
				if err != nil {
					w.t.Fatal(err)
				}
				lines, data = append(lines, describe(w.t, b)...), rest
			}
		}
		aborted := []string{}
		for _, a := range l.AbortedTxns(0, l.EndOffset()) {
			aborted = append(aborted, fmt.Sprintf("%d:%d", a.ProducerID, a.FirstOffset))
		}
		lines = append(lines, "aborted ["+strings.Join(aborted, ", ")+"]")
		known := []string{}
		for _, p := range l.Producers() {
			known = append(known, fmt.Sprintf("%d=%d", p.ID, p.LastSequence))
		}
		lines = append(lines, "producers {"+strings.Join(known, ", ")+"}")
	})
	return lines
}

func describe(t *testing.T, b record.Batch) []string {
	t.Helper()
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	horizon, ok := b.DeleteHorizon()
	if !ok {
		horizon = -1
	}
	checksum := uint32(0) // of compressed bytes, which may differ
	if b.Compression() == record.None {
		checksum = b.CRC()
	}
	lines := []string{fmt.Sprintf("batch %d %d epoch=%d producer=%d/%d/%d txn=%t control=%t type=%d codec=%d horizon=%d max=%d crc=%d",
		b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.IsTransactional(), b.IsControl(),
		b.TimestampType(), b.Compression(), horizon, b.MaxTimestamp(), checksum)}
	text := func(v []byte) string {
		switch {
		case v == nil:
			return "null"
		case b.IsControl():
			return fmt.Sprintf("%x", v)
		}
		return string(v)
	}
	var r record.Record
	it := b.Iter(nil)
	for it.Next(&r) {
		lines = append(lines, fmt.Sprintf("record %d %d %s %s %d", r.Offset, r.Timestamp, text(r.Key), text(r.Value), len(r.Headers)))
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// compare looks at both directories with the eyes of both.
func (w *world) compare(byKafka, byOttla int) {
	w.t.Helper()
	bySegment := func(lines []string) []string {
		if w.sameSegments {
			return lines
		}
		return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "segment ") })
	}
	want := bySegment(w.dump(byKafka))
	for who, got := range map[string][]string{
		"what Ottla has cleaned, read by Ottla": w.dump(byOttla),
		"what Ottla has cleaned, read by Kafka": w.kafka.run(append([]any{"dump", w.folder(byOttla), w.now}, w.options()...)...),
		"what Kafka has cleaned, read by Kafka": w.kafka.run(append([]any{"dump", w.folder(byKafka), w.now}, w.options()...)...),
	} {
		if diff := cmp.Diff(want, bySegment(got)); diff != "" {
			w.t.Fatalf("what Kafka has cleaned, read by Ottla (-), and %s (+):\n%s", who, diff)
		}
	}
}

// The same batches are left by both cleaners, pass after pass, each going on with what the other has left.
func TestCleanedAlike(t *testing.T) {
	k := startKafka(t)
	dropped := 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := &world{t: t, kafka: k, slots: 1000, now: 1_700_000_000_000, dirs: [2]string{t.TempDir(), t.TempDir()}, settings: map[string]string{
			"cleanup.policy": "compact", "internal.segment.bytes": strconv.Itoa(400 + r.IntN(3000)), "delete.retention.ms": "1000", "min.cleanable.dirty.ratio": "0",
			"index.interval.bytes": "100", "file.delete.delay.ms": "0",
		}}
		if seed%2 == 1 {
			// The map is full before the end. Where it goes on in the middle of a segment, Kafka takes transactions for aborted whose
			// producer has aborted one earlier in the segment, and does not see that their records make others obsolete.
			w.slots = 4 + r.IntN(20)
		}
		if seed%4 >= 2 {
			w.settings["message.timestamp.type"] = "LogAppendTime"
		}
		p := &producers{next: map[int64]int32{}, open: map[int64]bool{}, transactions: w.slots == 1000, codecs: 1 + int(seed%3)*2}
		w.sameSegments = p.codecs == 1
		for round := range 5 {
			w.append(r, p)
			before := len(w.dump(0))
			byKafka := round % 2
			w.clean(byKafka, 1-byKafka)
			w.compare(byKafka, 1-byKafka)
			dropped += before - len(w.dump(0))
			w.now += int64(300 + r.IntN(1200))
		}
	}
	if dropped < 1000 {
		t.Errorf("only %d lines are gone: little was compared", dropped)
	}
}
