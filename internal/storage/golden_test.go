package storage

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// unpack gives the path of a folder that Apache Kafka 4.4.0 wrote: clean was stopped in order, kill9 was not.
func unpack(t testing.TB, name string) string {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func nodeSettings(t testing.TB) *config.Node {
	t.Helper()
	entries, _ := config.ParseProperties("", []byte("process.roles=broker\nnode.id=1\ncontroller.quorum.bootstrap.servers=a:1\ncontroller.listener.names=C\nlog.segment.delete.delay.ms=0\n"))
	n, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func topicSettings(n *config.Node) func(string) config.Topic {
	return func(string) config.Topic { return config.Topic{Layers: config.Layers{Node: n}} }
}

func openManager(t testing.TB, dir string) *Manager {
	t.Helper()
	return openManagerWith(t, dir, func(*ManagerOptions) {})
}

func openManagerWith(t testing.TB, dir string, change func(*ManagerOptions)) *Manager {
	t.Helper()
	e := real.New(real.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	n := nodeSettings(t)
	o := ManagerOptionsFrom(n)
	o.Directories, o.Settings = []DirectoryOptions{{Path: dir}}, topicSettings(n)
	change(&o)
	m, err := OpenManager(e, o)
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	m.Load(func(err error) { loaded <- err })
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	return m
}

// contents are what a consumer sees of a partition.
type contents struct {
	start, end, stable int64
	records            int
	first, last        int64
	hash               string
}

func (c contents) String() string {
	return fmt.Sprintf("start %d end %d lso %d records %d first %d last %d %s", c.start, c.end, c.stable, c.records, c.first, c.last, c.hash)
}

// read reads a log as a consumer does. Committed readers stop at the last stable offset and skip aborted transactions.
func read(t testing.TB, l *Log, committed bool) contents {
	t.Helper()
	l.SetHighWatermark(l.EndOffset())
	c := contents{start: l.StartOffset(), end: l.EndOffset(), stable: l.LastStableOffset(), first: -1, last: -1}
	upTo := c.end
	if committed {
		upTo = c.stable
	}
	var aborted []AbortedTxn
	if committed {
		aborted = l.AbortedTxns(c.start, upTo)
	}
	open := map[int64]bool{}
	sum := sha256.New()
	for offset := c.start; offset < upTo; {
		s, err := l.Read(offset, 4000, true, upTo)
		if err != nil {
			t.Fatalf("read %s at %d: %v", l.TopicPartition(), offset, err)
		}
		b, err := s.Bytes()
		s.Release()
		if err != nil || len(b) == 0 {
			t.Fatalf("read %s at %d: %d bytes, %v", l.TopicPartition(), offset, len(b), err)
		}
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				t.Fatal(err)
			}
			for len(aborted) > 0 && aborted[0].FirstOffset <= batch.LastOffset() {
				open[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			if batch.IsControl() {
				delete(open, batch.ProducerID())
			} else if !batch.IsTransactional() || !open[batch.ProducerID()] {
				c.count(t, sum, batch, offset)
			}
			b, offset = rest, batch.NextOffset()
		}
		if s.Next != offset {
			t.Errorf("%s: read says that %d comes next, it is %d", l.TopicPartition(), s.Next, offset)
		}
	}
	c.hash = fmt.Sprintf("%x", sum.Sum(nil))
	return c
}

func (c *contents) count(t testing.TB, sum io.Writer, batch record.Batch, from int64) {
	text := func(b []byte) string {
		if b == nil {
			return "NULL"
		}
		return string(b)
	}
	it := batch.Iter(nil)
	var r record.Record
	for it.Next(&r) {
		if r.Offset < from {
			continue
		}
		if c.records == 0 {
			c.first = r.Offset
		}
		c.last = r.Offset
		c.records++
		fmt.Fprintf(sum, "%d|%d|%s|%s", r.Offset, r.Timestamp, text(r.Key), text(r.Value))
		for _, h := range r.Headers {
			fmt.Fprintf(sum, "|%s=%s", h.Key, text(h.Value))
		}
		fmt.Fprintln(sum)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
}

// inBoth is what Apache Kafka answered about the partitions of both folders.
const inBoth = `
codecs-0    all       0 40 40 40 0 39 961e733790ad6293e26eeab9c3dcfd3b3eec34cf90cf74cc98369a147f3e8f05
codecs-1    all       0 40 40 40 0 39 11fd026761a07073ef43eecc1b747431553584f317dec7c9ab2a4d8c1223111f
codecs-2    all       0 40 40 40 0 39 93cdb9d7a0c1b40d9f06d4de2be1ebb5a188ab8d46d67a917415797b67eaa45b
codecs-3    all       0 40 40 40 0 39 80c684e81628d975f89b298db3e4db9d6055d09134336207b140e73ad154c814
codecs-4    all       0 40 40 40 0 39 c24d52d3692b26ff91286476951f50a8d31acb8468a538e28610b4d75776bda4
compacted-0 all       0 42 42 21 21 41 9c7678109bd6fc8e8ec85419d2d381cb0f1612ef1a8dc9ca59391295dd5175e5
lat-0       all       0 3 3 3 0 2 61f3394c7b79a69a22039b1f6c428c4cc59cfe77168574085f4583badab54084
txn-0       all       0 17 17 13 0 14 f1b1407fc6a13097596c9020d4dd59589cfb49a59f733218db2cf944f16b91d6
txn-0       committed 0 17 17 7 0 14 19e1d2012ebfc96e1b9c7189681ca10b999a763c4754fb345291059ad8348128
`

const inKilled = `
crash-0     all       0 30 30 30 0 29 9f9c8788ca7fc371806486ef26e03172b6f52f578baac34c1e695e956301adc0
crash-1     all       0 15 10 12 0 13 25b2e797d6c88b8b5e3d41629802c4aa9467e6bf1bce0c781bdccc0013e8e3d7
crash-1     committed 0 15 10 4 0 3 32c467a0a08864a890641f35ed590ee21102a581b1fd6b5cfc5d2c4db0fd7335
crash-2     all       0 2300 2300 2300 0 2299 cc3eb2626bffea5f79f546af8ef6b61f1fb6d0e3499c8f79553c4e385523f5ff
`

// check compares partitions with what Apache Kafka answered.
func check(t *testing.T, m *Manager, answers string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(answers)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name, isolation string
		var want contents
		if _, err := fmt.Sscan(line, &name, &isolation, &want.start, &want.end, &want.stable, &want.records, &want.first, &want.last, &want.hash); err != nil {
			t.Fatal(err)
		}
		tp, _ := parsePartitionDir(name)
		l := m.Log(tp)
		if l == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		if got := read(t, l, isolation == "committed"); got != want {
			t.Errorf("%s %s\n got %s\nwant %s", name, isolation, got, want)
		}
	}
}

func TestFoldersOfKafka(t *testing.T) {
	killed := strings.Replace(inKilled, "crash-2     all       0 2300 2300 2300 0 2299 cc3eb2626bffea5f79f546af8ef6b61f1fb6d0e3499c8f79553c4e385523f5ff",
		"crash-2     all       0 2296 2296 2296 0 2295 39295a10b65a7cb36c464c1556751b78154dd9249a6f7cc1709ecbda8e019644", 1)
	for _, c := range []struct {
		name, folder, answers string
		damage                func(t *testing.T, dir string)
	}{
		{"clean", "clean", inBoth, nil},
		{"killed", "kill9", inBoth + inKilled, nil},
		{"last batch cut", "kill9", inBoth + killed, func(t *testing.T, dir string) {
			path := filepath.Join(dir, "crash-2", "00000000000000002124.log")
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-100)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"garbage at the end", "kill9", inBoth + inKilled, func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "codecs-2", "00000000000000000000.log"), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\x00\x01garbage")
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"no indexes", "kill9", inBoth + inKilled, func(t *testing.T, dir string) {
			for _, suffix := range []string{".index", ".timeindex"} {
				if err := os.Remove(filepath.Join(dir, "codecs-1", "00000000000000000000"+suffix)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"no indexes of a clean folder", "clean", inBoth, func(t *testing.T, dir string) {
			for _, suffix := range []string{".index", ".timeindex"} {
				if err := os.Remove(filepath.Join(dir, "txn-0", "00000000000000000000"+suffix)); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, c.folder)
			if c.damage != nil {
				c.damage(t, dir)
			}
			m := openManager(t, dir)
			check(t, m, c.answers)
			if err := m.Shutdown(7); err != nil {
				t.Fatal(err)
			}
			again := openManager(t, dir)
			if epoch := again.PreviousEpoch(); epoch != -1 {
				t.Errorf("the mark of the clean shutdown is there although the logs are open: epoch %d", epoch)
			}
			check(t, again, c.answers)
			again.Abandon()
			third := openManager(t, dir)
			check(t, third, c.answers)
			third.Abandon()
		})
	}
}

// Recovery makes the indexes that Kafka made.
func TestRecoveryMakesKafkasIndexes(t *testing.T) {
	dir := unpack(t, "kill9")
	want := map[string][]byte{}
	for _, base := range []string{"00000000000000000000", "00000000000000001064"} {
		for _, suffix := range []string{".index", ".timeindex"} {
			path := filepath.Join(dir, "crash-2", base+suffix)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want[path] = data
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := openManager(t, dir)
	if err := m.Shutdown(-1); err != nil {
		t.Fatal(err)
	}
	for path, data := range want {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != string(data) {
			t.Errorf("%s: %d bytes (%v), Kafka's has %d", path, len(got), err, len(data))
		}
	}
}

// A log of another topic is put aside.
func TestStrays(t *testing.T) {
	dir := unpack(t, "kill9")
	m := openManager(t, dir)
	defer m.Abandon()
	if err := m.RenameStrays(func(tp TopicPartition, _ uuid.UUID) bool { return tp.Topic != "lat" }); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "lat-0.*-stray"))
	if _, err := os.Stat(filepath.Join(dir, "lat-0")); !errors.Is(err, fs.ErrNotExist) || len(found) != 1 {
		t.Errorf("lat-0: %v; strays: %v", err, found)
	}
}
