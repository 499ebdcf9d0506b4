//go:build interop

package codec

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/schemas"
)

// Error codes, APIs, features, levels of metadata.version and record types are Kafka's.
func TestTables(t *testing.T) {
	kafka := map[string][]string{}
	for _, line := range judge(t, "", "tables") {
		kind, rest, _ := strings.Cut(line, "\t")
		kafka[kind] = append(kafka[kind], rest)
	}
	ours := map[string][]string{
		"error": ourErrors(), "api": ourAPIs(), "feature": ourFeatures(), "level": ourLevels(), "recordtype": ourRecordTypes(),
	}
	for kind, want := range kafka {
		got := ours[kind]
		sort.Strings(want)
		sort.Strings(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Kafka +ours):\n%s", kind, diff)
		}
	}
	if len(kafka) != len(ours) {
		t.Errorf("Judge knows %d tables, want %d", len(kafka), len(ours))
	}
}

func row(cells ...any) string {
	var s []string
	for _, c := range cells {
		s = append(s, fmt.Sprint(c))
	}
	return strings.Join(s, "\t")
}

func ourErrors() []string {
	rows := []string{row(0, "NONE", false)}
	for code := int16(-1); ; code++ {
		if code == 0 {
			continue
		}
		err := kerr.FromCode(code)
		if strings.HasPrefix(err.Error(), "UNKNOWN_ERROR_CODE") {
			return rows
		}
		rows = append(rows, row(kerr.Code(err), err, kerr.Retriable(err)))
	}
}

func ourAPIs() []string {
	var rows []string
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		var on, headers []string
		if a.On&protocol.OnBroker != 0 {
			on = append(on, "broker")
		}
		if a.On&protocol.OnController != 0 {
			on = append(on, "controller")
		}
		for v := a.Min; v <= a.Max; v++ {
			headers = append(headers, fmt.Sprintf("%d/%d", protocol.RequestHeaderVersion(a.Key, v), protocol.ResponseHeaderVersion(a.Key, v)))
		}
		rows = append(rows, row(a.Key, a.Name, a.Min, a.Max, a.MaxStable(), strings.Join(on, ","), a.Forward, a.ClusterAction, strings.Join(headers, ",")))
	}
	return rows
}

func ourFeatures() []string {
	var rows []string
	for i := range metadata.Features {
		f := &metadata.Features[i]
		if f.Name == metadata.FeatureMetadata {
			continue // Kafka keeps it apart
		}
		for l := f.Min; l <= f.Max; l++ {
			needs := "{}"
			for v := metadata.MinVersion; v <= metadata.TestingVersion; v++ {
				if f.Check(l, v) == nil && v > metadata.MinVersion && f.Check(l, v-1) != nil {
					needs = fmt.Sprintf("{metadata.version=%d}", v)
				}
			}
			rows = append(rows, row(f.Name, l, int16(f.BootstrapVersion(l)), needs))
		}
	}
	return rows
}

func ourLevels() []string {
	var rows []string
	for v := metadata.MinVersion; v <= metadata.TestingVersion; v++ {
		rows = append(rows, row(int16(v), v, v.Production(), v.ChangesMetadata(), v.FetchVersion(), v.ListOffsetsVersion(),
			v.RecordVersion(&metadata.PartitionRecord{}), v.RecordVersion(&metadata.PartitionChangeRecord{}), v.RecordVersion(&metadata.RegisterBrokerRecord{}),
			v.Scram(), v.BumpsLeaderEpochOnShrink(), v.Transactions(), v.DelegationTokens(), v.ControllerRegistration(), v.DirectoryAssignment(), v.ELR(),
			v.CordonedLogDirs(), v.CIDRACLs(), v.ControllerUnregistration()))
	}
	return rows
}

func ourRecordTypes() []string {
	var rows []string
	for key := int16(0); key < 100; key++ {
		if name := metadata.Name(key); name != "" {
			rows = append(rows, row(key, name, 0, metadata.MaxVersion(key)))
		}
	}
	return rows
}

// jsonField and jsonMessage are Kafka's schema files, reduced to what decides about bytes.
type jsonField struct {
	Name, Type       string
	Versions         string
	NullableVersions string
	TaggedVersions   string
	FlexibleVersions string
	Tag              *int
	Default          json.RawMessage
	Ignorable        flag
	MapKey           flag
	ZeroCopy         flag
	EntityType       string
	Fields           []jsonField
}

type jsonMessage struct {
	Type, Name            string
	APIKey                *int `json:"apiKey"`
	ValidVersions         string
	FlexibleVersions      string
	LatestVersionUnstable flag
	Listeners             []string
	Fields                []jsonField
	CommonStructs         []jsonField
}

// flag is a boolean that may stand in quotes.
type flag bool

func (f *flag) UnmarshalJSON(b []byte) error {
	*f = strings.Trim(string(b), `"`) == "true"
	return nil
}

// uncomment removes comments, which JSON does not have.
func uncomment(b []byte) []byte {
	var out []byte
	inString := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			out = append(out, c)
			i++
		case c == '"':
			inString = !inString
		case !inString && bytes.HasPrefix(b[i:], []byte("//")):
			for i < len(b) && b[i] != '\n' {
				i++
			}
		case !inString && bytes.HasPrefix(b[i:], []byte("/*")):
			i += bytes.Index(b[i:], []byte("*/")) + 2
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}

// Every schema of the jars is ours and the other way round, field by field.
func TestSchemas(t *testing.T) {
	ours := map[string][]string{}
	for _, m := range load(t) {
		ours[m.Name] = describe(m)
	}
	jars, err := filepath.Glob(filepath.Join(libs(t), "kafka-*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`(^|/)(message|metadata)/[^/]+\.json$`)
	seen := 0
	for _, jar := range jars {
		z, err := zip.OpenReader(jar)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, f := range z.File {
			if !file.MatchString(f.Name) {
				continue
			}
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			var m jsonMessage
			if err := json.Unmarshal(uncomment(b), &m); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if m.ValidVersions == "none" {
				continue
			}
			seen++
			if diff := cmp.Diff(m.describe(), ours[m.Name]); diff != "" {
				t.Errorf("%s (-Kafka +ours):\n%s", m.Name, diff)
			}
			delete(ours, m.Name)
		}
	}
	if seen != 279 || len(ours) > 0 {
		t.Errorf("%d schemas in the jars; only ours: %v", seen, ours)
	}
}

func (m *jsonMessage) describe() []string {
	key := -1
	if m.APIKey != nil {
		key = *m.APIKey
	}
	kind := map[string]string{"coordinator-key": "key", "coordinator-value": "value", "metadata": "record"}[m.Type]
	if kind == "" {
		kind = m.Type
	}
	lines := []string{row(kind, m.Name, key, m.ValidVersions, m.FlexibleVersions, strings.Join(m.Listeners, ","), m.LatestVersionUnstable)}
	var walk func(fs []jsonField, depth int)
	walk = func(fs []jsonField, depth int) {
		for _, f := range fs {
			tag := -1
			if f.Tag != nil {
				tag = *f.Tag
			}
			if f.Versions == "" {
				f.Versions = f.TaggedVersions
			}
			def := strings.Trim(string(f.Default), `"`)
			if string(f.Default) == "null" {
				// JSON's null is no default at all; the word "null" is.
				def = ""
			}
			lines = append(lines, strings.Repeat("  ", depth)+row(f.Name, f.Type, f.Versions, f.NullableVersions, tag, f.TaggedVersions, f.FlexibleVersions, def, f.Ignorable, f.MapKey, f.ZeroCopy, f.EntityType))
			walk(f.Fields, depth+1)
		}
	}
	walk(m.Fields, 1)
	for _, s := range m.CommonStructs {
		lines = append(lines, row("struct", s.Name, s.Versions))
		walk(s.Fields, 1)
	}
	return lines
}

func describe(m *schemas.Message) []string {
	lines := []string{row(m.Kind, m.Name, m.ID, m.Versions, m.Flexible, strings.Join(m.Listeners, ","), m.Unstable)}
	text := func(v schemas.Versions) string {
		if v.Empty() {
			return ""
		}
		return v.String()
	}
	var walk func(fs []*schemas.Field, depth int)
	walk = func(fs []*schemas.Field, depth int) {
		for _, f := range fs {
			flexible := ""
			if f.Flexible != nil {
				flexible = f.Flexible.String()
			}
			lines = append(lines, strings.Repeat("  ", depth)+row(f.Name, f.Type, f.Versions, text(f.Null), f.Tag, text(f.Tagged), flexible, f.Default, f.Ignorable, f.MapKey, f.ZeroCopy, f.Entity))
			if f.Inline {
				walk(f.Struct.Fields, depth+1)
			}
		}
	}
	walk(m.Root.Fields, 1)
	for _, s := range m.Common {
		lines = append(lines, row("struct", s.Name, s.Versions))
		walk(s.Fields, 1)
	}
	return lines
}
