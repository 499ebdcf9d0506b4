package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ReadPartitionMetadata reads which topic a partition's folder belongs to; the zero id without an error if there is no such
// file (KIP-516).
func ReadPartitionMetadata(fsys env.FS, dir string) (uuid.UUID, error) {
	path := filepath.Join(dir, PartitionMetadataFile)
	data, err := env.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return uuid.Zero, nil
	}
	if err != nil {
		return uuid.Zero, fmt.Errorf("read %s: %w", path, err)
	}
	first, second, _ := strings.Cut(strings.TrimSuffix(string(data), "\n"), "\n")
	version, ok := strings.CutPrefix(first, "version:")
	text, ok2 := strings.CutPrefix(second, "topic_id:")
	if !ok || !ok2 || strings.TrimSpace(version) != "0" {
		return uuid.Zero, fmt.Errorf("read %s: not a file of version 0 with a topic_id", path)
	}
	id, err := uuid.Parse(strings.TrimSpace(text))
	if err == nil && id.IsZero() {
		err = errors.New("the id is zero")
	}
	if err != nil {
		return uuid.Zero, fmt.Errorf("read %s: %w", path, err)
	}
	return id, nil
}

// WritePartitionMetadata makes that file.
func WritePartitionMetadata(fsys env.FS, dir string, id uuid.UUID) error {
	return env.WriteFileAtomic(fsys, filepath.Join(dir, PartitionMetadataFile), []byte("version: 0\ntopic_id: "+id.String()), 0o644)
}

// MetaProperties is what the file meta.properties of a log directory says.
type MetaProperties struct {
	Version     int // 0 or 1
	ClusterID   string
	NodeID      int32     // -1 if it does not say
	DirectoryID uuid.UUID // zero if it does not say
}

// ReadMetaProperties reads meta.properties. Errors: fs.ErrNotExist; a file that is not one of version 0 or 1.
func ReadMetaProperties(fsys env.FS, dir string) (MetaProperties, error) {
	path := filepath.Join(dir, MetaPropertiesFile)
	data, err := env.ReadFile(fsys, path)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("read %s: %w", path, err)
	}
	entries, problems := config.ParseProperties(path, data)
	if len(problems) > 0 {
		return MetaProperties{}, errors.Join(problems...)
	}
	values := map[string]string{}
	for _, e := range entries {
		values[e.Key] = e.Value
	}
	p, err := parseMetaProperties(values)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("read %s: %w", path, err)
	}
	return p, nil
}

// parseMetaProperties complains in Kafka's words. A file without version is of version 0.
func parseMetaProperties(values map[string]string) (MetaProperties, error) {
	p := MetaProperties{NodeID: -1, ClusterID: values["cluster.id"]}
	idKey := "broker.id"
	if text, ok := values["version"]; ok {
		v, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil:
			return p, fmt.Errorf("Invalid meta.properties version string '%.20s'", text) //nolint:staticcheck // Kafka's words
		case v == 1:
			p.Version, idKey = 1, "node.id"
		case v != 0:
			return p, fmt.Errorf("Unknown meta.properties version number %d", v) //nolint:staticcheck // Kafka's words
		}
	}
	if text, ok := values[idKey]; ok {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return p, fmt.Errorf("Unable to read %s as a base-10 number.", idKey) //nolint:staticcheck // Kafka's words
		}
		p.NodeID = int32(id)
	} else if p.Version == 1 {
		return p, fmt.Errorf("Failed to find %s", idKey) //nolint:staticcheck // Kafka's words
	}
	if text, ok := values["directory.id"]; ok {
		id, err := uuid.Parse(text)
		switch {
		case err != nil:
			return p, fmt.Errorf("Unable to read directory.id as a Uuid: %w", err) //nolint:staticcheck // Kafka's words
		case id.Reserved():
			return p, fmt.Errorf("Invalid reserved directory ID %s", id) //nolint:staticcheck // Kafka's words
		}
		p.DirectoryID = id
	}
	if _, ok := values["cluster.id"]; !ok && p.Version == 1 {
		return p, errors.New("cluster.id was not found.") //nolint:staticcheck // Kafka's words
	}
	return p, nil
}

// WriteMetaProperties replaces meta.properties. now is only for people who look at the file.
func WriteMetaProperties(fsys env.FS, dir string, p MetaProperties, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "#\n#%s\n", now.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	switch {
	case p.Version > 0:
		fmt.Fprintf(&b, "node.id=%d\n", p.NodeID)
	case p.NodeID != -1:
		fmt.Fprintf(&b, "broker.id=%d\n", p.NodeID)
	}
	if !p.DirectoryID.IsZero() {
		fmt.Fprintf(&b, "directory.id=%s\n", p.DirectoryID)
	}
	fmt.Fprintf(&b, "version=%d\n", p.Version)
	if p.Version > 0 || p.ClusterID != "" {
		fmt.Fprintf(&b, "cluster.id=%s\n", escapeProperty(p.ClusterID))
	}
	return env.WriteFileAtomic(fsys, filepath.Join(dir, MetaPropertiesFile), []byte(b.String()), 0o644)
}

// escapeProperty writes a value so that java.util.Properties reads it.
func escapeProperty(value string) string {
	var b strings.Builder
	for i, u := range utf16.Encode([]rune(value)) {
		switch {
		case u == '\t':
			b.WriteString(`\t`)
		case u == '\n':
			b.WriteString(`\n`)
		case u == '\r':
			b.WriteString(`\r`)
		case u == '\f':
			b.WriteString(`\f`)
		case u == ' ' && i == 0, u == '\\', u == '=', u == ':', u == '#', u == '!':
			b.WriteByte('\\')
			b.WriteByte(byte(u))
		case u < ' ' || u > '~':
			fmt.Fprintf(&b, `\u%04X`, u)
		default:
			b.WriteByte(byte(u))
		}
	}
	return b.String()
}

// cleanShutdown is the content of .kafka_cleanshutdown.
type cleanShutdown struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

// ReadCleanShutdown reads the mark of a directory that was shut down in order, and the broker epoch of that life: -1 if it does not
// say. clean is false if there is no such file.
func ReadCleanShutdown(fsys env.FS, dir string) (brokerEpoch int64, clean bool, err error) {
	path := filepath.Join(dir, CleanShutdownFile)
	data, err := env.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, false, nil
	}
	if err != nil {
		return -1, false, fmt.Errorf("read %s: %w", path, err)
	}
	c := cleanShutdown{BrokerEpoch: -1}
	if json.Unmarshal(data, &c) != nil {
		return -1, true, nil // empty in old versions; the mark counts
	}
	return c.BrokerEpoch, true, nil
}

// WriteCleanShutdown marks a directory.
func WriteCleanShutdown(fsys env.FS, dir string, brokerEpoch int64) error {
	data, err := json.Marshal(cleanShutdown{0, brokerEpoch})
	if err != nil {
		return err
	}
	return env.WriteFileAtomic(fsys, filepath.Join(dir, CleanShutdownFile), data, 0o644)
}

// RemoveCleanShutdown takes the mark away. It is gone, durably, when nil is returned.
func RemoveCleanShutdown(fsys env.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, CleanShutdownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mark of clean shutdown: %w", err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
