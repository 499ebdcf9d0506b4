package cli

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runTool runs ottla as a process would and returns what it wrote.
func runTool(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"ottla"}, args...), strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

// dumpCases are the names and arguments in testdata/dump/cases.txt.
func dumpCases(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/dump/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]string{}
	for _, line := range strings.Split(string(data), "\n") {
		if name, args, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			cases[name] = strings.Fields(args)
		}
	}
	return cases
}

// Files that Kafka wrote are printed as Kafka prints them.
func TestDumpLogPrintsWhatKafkaPrints(t *testing.T) {
	cases := dumpCases(t)
	if len(cases) < 15 {
		t.Fatalf("%d cases in testdata/dump/cases.txt", len(cases))
	}
	for name, args := range cases {
		want, err := os.ReadFile(filepath.Join("testdata/dump", name+".out"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Chdir("testdata/dump")
			out, errs, code := runTool(t, "", append([]string{"dump-log"}, args...)...)
			if code != 0 {
				t.Errorf("exit code %d: %s", code, errs)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("output differs from Kafka's (-kafka +ottla):\n%s", diff)
			}
		})
	}
}

// What is wrong with a file is said in one line, or in Kafka's lists at the end.
func TestDumpLogComplains(t *testing.T) {
	log, err := os.ReadFile("testdata/dump/index/00000000000000002124.log")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("00000000000000002124.log", log)
	write("00000000000000000009.log", nil)
	zeros := write("00000000000000000001.log", append(bytes.Clone(log[:3949]), make([]byte, 100)...))
	badCRC := bytes.Clone(log[:3949])
	badCRC[3000] ^= 1
	garbled := write("00000000000000000002.log", badCRC)
	wrongOffset := write("00000000000000002124.index", []byte{0, 0, 0, 5, 0, 0, 0, 0})
	oddSize := write("00000000000000000009.index", make([]byte, 12))
	future := write("00000000000000000005.snapshot", []byte{0, 2, 0, 0, 0, 0, 0, 0, 0, 0})

	for _, tc := range []struct {
		name           string
		args           []string
		stdout, stderr string // parts of it
		code           int
	}{
		{"zeros behind the last batch", []string{zeros}, "baseOffset: 2124", "Found record size 0 smaller than minimum record overhead (14)", 1},
		{"wrong CRC", []string{garbled}, "isvalid: false", "", 0},
		{"entry with another offset", []string{wrongOffset}, "offset: 2129 position: 0", "Index offset: 2129, log offset: 2127", 0},
		{"odd size", []string{oddSize, "--index-sanity-check"}, "", "found 12 bytes which is neither positive nor a multiple of 8", 1},
		{"unknown snapshot", []string{future}, "Dumping", "unknown file version 2", 0},
		{"no such file", []string{filepath.Join(dir, "00000000000000000077.log")}, "Log starting offset: 77", "no such file", 1},
		{"no offset in the name", []string{filepath.Join(dir, "orders.log")}, "", "does not begin with an offset", 1},
		{"key missing", []string{"testdata/dump/codecs/00000000000000000000.log", "--offsets-decoder"}, "| offset: 0",
			"Failed to decode message at offset 0 using the specified decoder (message had a missing key)", 1},
		{"unknown class", []string{zeros, "--value-decoder-class", "com.example.Avro"}, "", "no decoder class com.example.Avro", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, errs, code := runTool(t, "", append([]string{"dump-log", "--files"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out, tc.stdout) || !strings.Contains(errs, tc.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nwant: %s\nstderr: %s\nwant: %s", code, tc.code, out, tc.stdout, errs, tc.stderr)
			}
		})
	}
}

// No log file makes dump-log panic or hang.
func FuzzDumpLog(f *testing.F) {
	for _, seed := range []string{"txn/00000000000000000005.log", "meta/00000000000000000000.log", "codecs/00000000000000000000.log"} {
		data, err := os.ReadFile(filepath.Join("testdata/dump", seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, decoder uint8) {
		decoders := []recordDecoder{metadataDecoder, coordinatorDecoder(groupTypes), coordinatorDecoder(transactionTypes),
			coordinatorDecoder(shareTypes), bytesDecoder(dumpDecoders["org.apache.kafka.tools.api.StringDecoder"], deserializers["BytesDeserializer"])}
		d := &dump{out: bufio.NewWriter(io.Discard), err: io.Discard, ctx: t.Context(), deep: true, print: true,
			maxBytes: math.MaxInt32, maxMessage: 1 << 20, decode: decoders[int(decoder)%len(decoders)]}
		_ = d.batches(&batchReader{f: bytes.NewReader(data), name: "00000000000000000000.log", end: int64(len(data))})
	})
}
