//go:build interop

package codec

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/protocoltest"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/schemas"
)

// libs is the folder of Kafka's jars.
func libs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KAFKA_LIBS")
	if dir == "" {
		t.Fatal("KAFKA_LIBS must name the folder of Kafka's jars")
	}
	if jars, err := filepath.Glob(filepath.Join(dir, "kafka-clients-*.jar")); err != nil || len(jars) != 1 {
		t.Fatalf("KAFKA_LIBS=%s has %d kafka-clients jars, want 1", dir, len(jars))
	}
	return dir
}

var compile struct {
	once sync.Once
	dir  string
	err  error
}

// judge runs Judge.java, compiled against the jars, and returns the lines it writes.
func judge(t *testing.T, input string, args ...string) []string {
	t.Helper()
	cp := filepath.Join(libs(t), "*")
	compile.once.Do(func() {
		if compile.dir, compile.err = os.MkdirTemp("", "judge"); compile.err != nil {
			return
		}
		if out, err := exec.Command("javac", "-nowarn", "-cp", cp, "-d", compile.dir, "Judge.java").CombinedOutput(); err != nil {
			compile.err = fmt.Errorf("javac: %w\n%s", err, out)
		}
	})
	if compile.err != nil {
		t.Fatal(compile.err)
	}
	cmd := exec.Command("java", append([]string{"-Xmx512m", "-cp", compile.dir + string(os.PathListSeparator) + cp, "Judge"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Judge %v: %v\n%s", args, err, stderr.String())
	}
	var lines []string
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<26)
	for sc.Scan() {
		lines = append(lines, sc.Text())
	}
	return lines
}

func TestMain(m *testing.M) {
	code := m.Run()
	if compile.dir != "" {
		os.RemoveAll(compile.dir)
	}
	os.Exit(code)
}

func load(t *testing.T) []*schemas.Message {
	t.Helper()
	ms, err := schemas.Load()
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// Kafka reads what we write, sees the same values in it, and writes the same bytes.
func TestOursReadByKafka(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 21))
	var in strings.Builder
	pairs, lines := 0, 0
	for _, m := range load(t) {
		for v := m.Versions.Low; v <= m.Versions.High; v++ {
			pairs++
			for i := range 12 {
				msg := protocoltest.Random(r, m, v, i%3 == 0)
				b, err := msg.Encode(nil, v)
				if err != nil {
					t.Fatal(err)
				}
				// JSON cannot hold unknown tagged fields.
				js := []byte{}
				if i%3 != 0 {
					if js, err = protocoltest.JSON(m, msg, v); err != nil {
						t.Fatal(err)
					}
				}
				fmt.Fprintf(&in, "%s\t%d\t%x\t%s\n", m.Name, v, b, js)
				lines++
				if rec, ok := msg.(metadata.Record); ok && m.Package == "metadata" {
					framed, err := metadata.AppendRecord(nil, rec, v)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&in, "record\t%s\t%d\t%x\n", m.Name, v, framed)
					lines++
				}
			}
		}
	}
	out := judge(t, in.String(), "check")
	if len(out) == 0 || out[len(out)-1] != fmt.Sprintf("checked %d", lines) {
		t.Fatalf("Judge did not check all %d lines", lines)
	}
	report(t, out[:len(out)-1])
	if pairs != 755 {
		t.Errorf("%d messages and versions, want 755", pairs)
	}
	t.Logf("%d messages and versions, %d messages", pairs, lines)
}

// report shows the first differences.
func report(t *testing.T, lines []string) {
	t.Helper()
	for i, line := range lines {
		if i == 20 {
			t.Errorf("and %d more", len(lines)-i)
			return
		}
		t.Error(line[:min(len(line), 1000)])
	}
}

// We read what Kafka writes, see the same values in it, and write the same bytes.
func TestKafkasReadByUs(t *testing.T) {
	var in strings.Builder
	byName := map[string]*schemas.Message{}
	want := 0
	for _, m := range load(t) {
		byName[m.Name] = m
		fmt.Fprintf(&in, "%s\t%d\t%d\n", m.Name, m.Versions.Low, m.Versions.High)
		want += 12 * int(m.Versions.High-m.Versions.Low+1)
	}
	out := judge(t, in.String(), "make", "12", "22")
	if len(out) != want {
		t.Fatalf("Judge made %d messages, want %d", len(out), want)
	}
	bad := 0
	for _, line := range out {
		f := strings.Split(line, "\t")
		m := byName[f[0]]
		v, _ := strconv.Atoi(f[1])
		if err := readKafkas(m, int16(v), f[2], f[3], f[4]); err != nil {
			if bad++; bad < 20 {
				t.Errorf("%s version %d: %v", m.Name, v, err)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d messages differ", bad, len(out))
	}
}

func readKafkas(m *schemas.Message, v int16, loose, strict, js string) error {
	want, err := hex.DecodeString(strict)
	if err != nil {
		return err
	}
	var msg protocol.Message
	for _, text := range []string{loose, strict} {
		b, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		msg = protocoltest.New(m.Name)
		d := wire.NewDecoder(b)
		if err := msg.Decode(d, v); err != nil {
			return fmt.Errorf("%w: %x", err, b)
		}
		if d.Remaining() > 0 {
			return fmt.Errorf("%d bytes left over of %x", d.Remaining(), b)
		}
		if got, err := msg.Encode(nil, v); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("we write %x, %v, Kafka %x, for %x", got, err, want, b)
		}
	}
	if js == "" {
		return nil
	}
	ours, err := protocoltest.JSON(m, msg, v)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(tree(js), tree(string(ours))); diff != "" {
		return fmt.Errorf("values differ (-Kafka +ours):\n%s", diff)
	}
	return nil
}

// tree is JSON with exact integers, in normal form.
func tree(js string) any {
	d := json.NewDecoder(strings.NewReader(js))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return err.Error()
	}
	return normal(x)
}

// normal makes 5 and 5.0 the same, and gives records as Kafka's converters write them: their size.
func normal(x any) any {
	switch x := x.(type) {
	case json.Number:
		if _, err := x.Int64(); err == nil {
			return x.String()
		}
		f, _ := x.Float64()
		return strconv.FormatFloat(f, 'f', -1, 64)
	case []any:
		for i := range x {
			x[i] = normal(x[i])
		}
	case map[string]any:
		for _, name := range []string{"records", "unalignedRecords"} {
			if s, ok := x[name].(string); ok {
				b, _ := base64.StdEncoding.DecodeString(s)
				delete(x, name)
				x[name+"SizeInBytes"] = json.Number(strconv.Itoa(len(b)))
			}
		}
		for k := range x {
			x[k] = normal(x[k])
		}
	}
	return x
}

// Kafka's broker does not mind bytes after a request, and so Decode leaves them to its caller.
func TestTrailingBytes(t *testing.T) {
	var in strings.Builder
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		b, err := protocol.NewRequest(a.Key).Encode(nil, a.Max)
		if err != nil {
			t.Fatal(err)
		}
		// Once as it is: some classes refuse the default values of their schema.
		fmt.Fprintf(&in, "%d\t%d\t%x\n%[1]d\t%[2]d\t%[3]x010203\n", a.Key, a.Max, b)
	}
	out := judge(t, in.String(), "requests")
	if len(out) != 2*len(protocol.APIs) {
		t.Fatalf("%d answers for %d requests", len(out), 2*len(protocol.APIs))
	}
	parsed := 0
	for i := range protocol.APIs {
		if out[2*i] != out[2*i+1] {
			t.Errorf("%s: %s, with trailing bytes %s", protocol.APIs[i].Name, out[2*i], out[2*i+1])
		}
		if out[2*i+1] == "parsed" {
			parsed++
		}
	}
	if parsed < 85 {
		t.Errorf("only %d requests were parsed", parsed)
	}
}

// Strings that are not UTF-8 become the strings that Java makes of them.
func TestBadText(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	pieces := []string{"a", "\x80", "\xbf", "\xc0", "\xc2", "\xe0", "\xe0\x80", "\xe2\x82", "\xed\xa0\x80", "\xed\xbf", "\xef\xbf\xbd", "\xf0", "\xf0\x80", "\xf0\x90\x80", "\xf4\x90\x80\x80", "\xf4\x8f\xbf", "\xf5", "\xff", "\u00e4", "\u20ac", "\U0001f600"}
	var in strings.Builder
	var requests [][]byte
	for range 5000 {
		m := protocol.NewSaslHandshakeRequest()
		for range 1 + r.IntN(5) {
			m.Mechanism += pieces[r.IntN(len(pieces))]
		}
		b, err := m.Encode(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, b)
		fmt.Fprintf(&in, "SaslHandshakeRequest\t1\t%x\n", b)
	}
	out := judge(t, in.String(), "rewrite")
	if len(out) != len(requests) {
		t.Fatalf("%d answers for %d requests", len(out), len(requests))
	}
	bad := 0
	for i, want := range out {
		m := protocol.NewSaslHandshakeRequest()
		if err := m.Decode(wire.NewDecoder(requests[i]), 1); err != nil {
			t.Fatal(err)
		}
		got, err := m.Encode(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%x", got) != want {
			if bad++; bad < 10 {
				t.Errorf("%x: Kafka makes %s of it, we %x", requests[i], want, got)
			}
		}
	}
}
