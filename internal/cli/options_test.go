package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// Arguments are read as jopt-simple reads them.
func TestNormaliseJopt(t *testing.T) {
	cmd := &cobra.Command{}
	f := cmd.Flags()
	f.String("topic", "", "")
	f.String("compression-codec", "", "")
	optional(cmd, "compression-codec", "gzip")
	f.StringArray("property", nil, "")
	f.Bool("list", false, "")
	for _, tc := range []struct{ args, want, wantErr string }{
		{"--topic a --list", "--topic=a --list", ""},
		{"-topic a -list", "--topic=a --list", ""},
		{"-topic=a", "--topic=a", ""},
		{"--topic -3", "--topic=-3", ""},
		{"--property a=b --property c=d", "--property=a=b --property=c=d", ""},
		{"--compression-codec", "--compression-codec", ""},
		{"--compression-codec --list", "--compression-codec --list", ""},
		{"--compression-codec zstd --list", "--compression-codec=zstd --list", ""},
		{"--list --list extra", "--list --list extra", ""},
		{"-- --topic", "-- --topic", ""},
		{"--help -h", "--help -h", ""},
		{"--topic a --topic b", "", "Found multiple arguments for option topic, but you asked for only one"},
		{"--list --topic", "", "Option topic requires an argument"},
		{"--top a", "", "top is not a recognized option"}, // no abbreviations
	} {
		got, err := normaliseJopt(f, strings.Fields(tc.args))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(tc.wantErr, text); diff != "" {
			t.Errorf("%s: error (-want +got):\n%s", tc.args, diff)
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.args, diff)
		}
	}
}

func TestParseBootstrap(t *testing.T) {
	for _, tc := range []struct{ list, want string }{
		{"localhost:9092", "localhost:9092"},
		{"a:1, b:2,", "a:1 b:2"},
		{"[::1]:9092", "[::1]:9092"},
		{"PLAINTEXT://host:9092", "host:9092"},
		{"localhost", "error"},
		{"localhost:0", "error"},
		{"localhost:x", "error"},
		{":9092", "error"},
		{"::1:9092", "error"},
		{",", "error"},
	} {
		seeds, err := parseBootstrap(tc.list)
		got := strings.Join(seeds, " ")
		if err != nil {
			got = "error"
		}
		if got != tc.want {
			t.Errorf("%q: %s (%v), want %s", tc.list, got, err, tc.want)
		}
	}
}

func TestTopicPattern(t *testing.T) {
	for _, tc := range []struct {
		pattern, topic string
		want           bool
	}{
		{"orders", "orders", true},
		{"orders", "orders2", false},
		{"order.", "orders", true},
		{"a,b", "b", true},
		{`"a" , b`, "a", true},
		{"a|bc", "abc", false},
		{".*", "", true},
	} {
		re, err := topicPattern(tc.pattern)
		if err != nil || re.MatchString(tc.topic) != tc.want {
			t.Errorf("%q matches %q: %t, want %t (%v)", tc.pattern, tc.topic, !tc.want, tc.want, err)
		}
	}
	if _, err := topicPattern("["); err == nil || err.Error() != "[ is an invalid regex." {
		t.Errorf("invalid pattern: %v", err)
	}
}

func TestParseAssignment(t *testing.T) {
	for _, tc := range []struct {
		list, wantErr string
		want          [][]int32
	}{
		{"", "", nil},
		{"1:2,2:3", "", [][]int32{{1, 2}, {2, 3}}},
		{"1 : 2", "", [][]int32{{1, 2}}},
		{"1:1", "Partition replica lists may not contain duplicate entries: 1", nil},
		{"1:2,3", "Partition 1 has different replication factor: [3]", nil},
		{"x", `For input string: "x"`, nil},
	} {
		got, err := parseAssignment(tc.list)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tc.wantErr || !cmp.Equal(got, tc.want) {
			t.Errorf("%q: %v %q, want %v %q", tc.list, got, text, tc.want, tc.wantErr)
		}
	}
}
