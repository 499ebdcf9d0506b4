package raft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// A snapshot is a file <end offset>-<epoch>.checkpoint of record batches whose offsets count from 0: a control batch with
// SnapshotHeader (and, from kraft.version 1 on, KRaftVersion and KRaftVoters), batches of metadata records, and a control
// batch with SnapshotFooter. Without the footer the file is not valid. It is written under a name that ends in .part,
// synced, and renamed.
const (
	snapshotSuffix = ".checkpoint"
	partSuffix     = ".part"
	deletedSuffix  = ".deleted"
)

// DefaultMaxBatchBytes is the largest batch of the metadata log and of snapshots
// (internal.metadata.max.batch.size.in.bytes).
const DefaultMaxBatchBytes = 8 << 20

// SnapshotPath is the file of a snapshot in the folder of the metadata log.
func SnapshotPath(logDir string, id SnapshotID) string {
	return filepath.Join(logDir, id.String()+snapshotSuffix)
}

// tempSnapshotPath is the file of a snapshot until it is frozen.
func tempSnapshotPath(logDir string, id SnapshotID, suffix string) string {
	return filepath.Join(logDir, id.String()+"-"+suffix+snapshotSuffix+partSuffix)
}

// ParseSnapshotName reads the name of a snapshot's file.
func ParseSnapshotName(name string) (SnapshotID, bool) {
	base, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(base) != 31 || base[20] != '-' {
		return SnapshotID{}, false
	}
	end, err1 := strconv.ParseInt(base[:20], 10, 64)
	epoch, err2 := strconv.ParseInt(base[21:], 10, 32)
	if err1 != nil || err2 != nil || end < 0 || epoch < 0 {
		return SnapshotID{}, false
	}
	return SnapshotID{end, int32(epoch)}, true
}

// SnapshotHead is what the first batch of a snapshot says.
type SnapshotHead struct {
	LastContainedLogTime int64 // milliseconds
	KRaftVersion         int16 // 0 if not said
	Voters               *VoterSet
}

// SnapshotReader reads a snapshot from its file, which it keeps open. One goroutine at a time.
type SnapshotReader struct {
	id       SnapshotID
	file     env.File
	size     int64
	pos      int64
	head     SnapshotHead
	finished bool
}

// OpenSnapshot opens a snapshot in the folder of the metadata log and reads its head.
func OpenSnapshot(fsys env.FS, logDir string, id SnapshotID) (*SnapshotReader, error) {
	name := SnapshotPath(logDir, id)
	f, err := fsys.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	r := &SnapshotReader{id: id, file: f}
	if r.size, err = f.Size(); err == nil {
		err = r.readHead()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open snapshot %s: %w", name, err), f.Close())
	}
	return r, nil
}

// ID is the snapshot's name.
func (r *SnapshotReader) ID() SnapshotID { return r.id }

// LastContainedLogTime is when the last record in the snapshot was appended, in milliseconds.
func (r *SnapshotReader) LastContainedLogTime() int64 { return r.head.LastContainedLogTime }

// Head is what the first batch says.
func (r *SnapshotReader) Head() SnapshotHead { return r.head }

// Close gives the file back. After Next has returned false it does nothing.
func (r *SnapshotReader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// Next returns the next batch of metadata records; false after the footer, and then the file is closed. A file that ends
// without footer, or is damaged, is an error.
func (r *SnapshotReader) Next() (Batch, bool, error) {
	for !r.finished {
		b, controls, err := r.nextBatch()
		if err != nil {
			return Batch{}, false, errors.Join(fmt.Errorf("read snapshot %s: %w", r.id, err), r.Close())
		}
		for _, c := range controls {
			if _, ok := c.message.(*protocol.SnapshotFooterRecord); ok {
				r.finished = true
			}
		}
		if len(b.Records) > 0 {
			return b, true, nil
		}
	}
	if r.file != nil && r.pos != r.size {
		return Batch{}, false, errors.Join(fmt.Errorf("read snapshot %s: %d bytes behind the footer", r.id, r.size-r.pos), r.Close())
	}
	return Batch{}, false, r.Close()
}

func (r *SnapshotReader) nextBatch() (Batch, []controlRecord, error) {
	if r.file == nil {
		return Batch{}, nil, fs.ErrClosed
	}
	var head [record.HeaderSizeUpToMagic]byte
	if r.size-r.pos < int64(len(head)) {
		return Batch{}, nil, fmt.Errorf("no footer: %w", record.ErrShort)
	}
	if _, err := r.file.ReadAt(head[:], r.pos); err != nil {
		return Batch{}, nil, fmt.Errorf("at position %d: %w", r.pos, err)
	}
	n, err := record.NextSize(head[:])
	if err != nil {
		return Batch{}, nil, fmt.Errorf("at position %d: %w", r.pos, err)
	}
	if int64(n) > r.size-r.pos {
		return Batch{}, nil, fmt.Errorf("at position %d: %w", r.pos, record.ErrShort)
	}
	buf := make([]byte, n)
	if _, err := r.file.ReadAt(buf, r.pos); err != nil {
		return Batch{}, nil, fmt.Errorf("at position %d: %w", r.pos, err)
	}
	batch, _, err := record.Next(buf)
	if err == nil {
		err = batch.CheckCRC()
	}
	if err != nil {
		return Batch{}, nil, fmt.Errorf("at position %d: %w", r.pos, err)
	}
	r.pos += int64(n)
	return decodeBatch(batch)
}

func (r *SnapshotReader) readHead() error {
	_, controls, err := r.nextBatch()
	if err != nil {
		return err
	}
	if len(controls) == 0 {
		return errors.New("the first batch has no control records")
	}
	for i, c := range controls {
		switch m := c.message.(type) {
		case *protocol.SnapshotHeaderRecord:
			r.head.LastContainedLogTime = m.LastContainedLogTimestamp
		case *protocol.KRaftVersionRecord:
			r.head.KRaftVersion = m.KRaftVersion
		case *protocol.VotersRecord:
			r.head.Voters = votersFromRecord(m)
		}
		if _, ok := c.message.(*protocol.SnapshotHeaderRecord); ok != (i == 0) {
			return errors.New("the first record is not a snapshot header")
		}
	}
	return nil
}

// SnapshotWriter writes a snapshot. One goroutine at a time; it only touches its file.
type SnapshotWriter struct {
	clock     func() int64 // milliseconds
	fsys      env.FS
	dir       string
	id        SnapshotID
	temp      string
	file      env.File
	pos       int64
	builder   *record.Builder
	started   int64 // time of the batch being built
	maxBatch  int
	value     []byte
	frozen    bool
	failed    error // of an earlier write: what was to be written is missing
	onFrozen  func(SnapshotID)
	nextBatch int64 // offset of the next record
}

type snapshotOptions struct {
	suffix   string // of the temporary name, so that two never meet
	maxBatch int
	clock    func() int64     // milliseconds
	onFrozen func(SnapshotID) // may be nil
}

func newSnapshotWriter(fsys env.FS, logDir string, id SnapshotID, head SnapshotHead, o snapshotOptions) (*SnapshotWriter, error) {
	w := &SnapshotWriter{
		clock: o.clock, fsys: fsys, dir: logDir, id: id, maxBatch: o.maxBatch, onFrozen: o.onFrozen,
		temp:    tempSnapshotPath(logDir, id, o.suffix),
		builder: record.NewBuilder(0, record.None),
	}
	f, err := fsys.Open(w.temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o400)
	if err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	w.file = f
	header := protocol.NewSnapshotHeaderRecord()
	header.LastContainedLogTimestamp = head.LastContainedLogTime
	messages := []protocol.Message{header}
	if head.KRaftVersion > 0 {
		m := protocol.NewKRaftVersionRecord()
		m.KRaftVersion = head.KRaftVersion
		messages = append(messages, m)
		if head.Voters != nil {
			messages = append(messages, head.Voters.record())
		}
	}
	if err := w.writeControl(messages...); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// ID is the snapshot's name.
func (w *SnapshotWriter) ID() SnapshotID { return w.id }

// Append adds metadata records. They are written in batches of up to the largest size of a batch.
func (w *SnapshotWriter) Append(records []metadata.Versioned) error {
	for _, v := range records {
		value, err := metadata.AppendRecord(w.value[:0], v.Record, v.Version)
		if err != nil {
			return fmt.Errorf("write snapshot %s: %w", w.id, err)
		}
		w.value = value
		if w.builder.Count() > 0 && w.builder.SizeWith(w.started, nil, value, nil) > w.maxBatch {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if w.builder.Count() == 0 {
			w.started = w.clock()
			w.builder.Reset(w.nextBatch, record.None)
			w.builder.SetLeaderEpoch(w.id.Epoch)
		}
		w.builder.Append(w.started, nil, value)
	}
	return nil
}

func (w *SnapshotWriter) flush() error {
	if w.builder.Count() == 0 {
		return nil
	}
	b, err := w.builder.Build()
	if err == nil {
		err = w.write(b)
	}
	w.builder.Reset(w.nextBatch, record.None)
	return err
}

func (w *SnapshotWriter) writeControl(messages ...protocol.Message) error {
	b, err := controlBatch(w.nextBatch, w.id.Epoch, w.clock(), messages...)
	if err != nil {
		return err
	}
	return w.write(b)
}

func (w *SnapshotWriter) write(b record.Batch) error {
	if w.file == nil {
		return fmt.Errorf("write snapshot %s: %w", w.id, fs.ErrClosed)
	}
	if w.failed != nil {
		return w.failed
	}
	if _, err := w.file.WriteAt(b, w.pos); err != nil {
		w.failed = fmt.Errorf("write snapshot %s: %w", w.temp, err)
		return w.failed
	}
	w.pos += int64(len(b))
	w.nextBatch = b.NextOffset()
	return nil
}

// Freeze writes the footer, makes the file durable and gives it its name. The snapshot exists once Freeze has returned
// nil.
func (w *SnapshotWriter) Freeze() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.writeControl(protocol.NewSnapshotFooterRecord()); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("sync snapshot %s: %w", w.temp, err)
	}
	if err := w.fsys.Rename(w.temp, SnapshotPath(w.dir, w.id)); err != nil {
		return fmt.Errorf("freeze snapshot: %w", err)
	}
	if err := w.fsys.SyncDir(w.dir); err != nil {
		return fmt.Errorf("freeze snapshot: %w", err)
	}
	w.frozen = true
	if w.onFrozen != nil {
		w.onFrozen(w.id)
	}
	return nil
}

// Close closes the file, and removes it unless it was frozen.
func (w *SnapshotWriter) Close() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	err := f.Close()
	if !w.frozen {
		err = errors.Join(err, w.fsys.Remove(w.temp))
	}
	return err
}
