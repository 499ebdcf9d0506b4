package cli

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/record"
)

func newDumpLog(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump-log --files FILE[,FILE…] [flags]",
		Short: "Print what is in log segments, indexes and snapshots",
		Long: `Print what is in the files of a partition, as kafka-dump-log.sh does: log segments (.log), snapshots of the
metadata (.checkpoint), offset and time indexes (.index, .timeindex), producer states (.snapshot) and aborted
transactions (.txnindex). Files may be read while a server writes them.`,
		Example: `  ottla dump-log --files ottla-data/orders-0/00000000000000000000.log --print-data-log
  ottla dump-log --files ottla-data/__cluster_metadata-0/00000000000000000000.log --cluster-metadata-decoder
  ottla dump-log --files ottla-data/orders-0/00000000000000000000.index --index-sanity-check`,
		Annotations: map[string]string{dialectKey: string(jopt)},
		RunE:        func(cmd *cobra.Command, args []string) error { return runDumpLog(cmd.Context(), s, cmd) },
	}
	f := cmd.Flags()
	versionFlag(cmd)
	const stringDecoder = "org.apache.kafka.tools.api.StringDecoder"
	f.String("files", "", "the `files`, separated by commas (required)")
	f.Bool("print-data-log", false, "print the records' keys and values; on when a decoder is chosen")
	f.Bool("deep-iteration", false, "print every record, not only the batches; on with --print-data-log")
	f.Bool("skip-record-metadata", false, "leave out offset, time and sizes of the records, and control records")
	f.Bool("verify-index-only", false, "check the index against the log without printing it")
	f.Bool("index-sanity-check", false, "only check the index as a broker does when it starts")
	f.Int32("max-bytes", math.MaxInt32, "read only so many `bytes` of a log")
	f.Int32("max-message-size", 5*1024*1024, "the size of the largest batch in `bytes`")
	f.Bool("cluster-metadata-decoder", false, "values are records of the cluster's metadata")
	f.Bool("offsets-decoder", false, "keys and values are those of __consumer_offsets")
	f.Bool("transaction-log-decoder", false, "keys and values are those of __transaction_state")
	f.Bool("share-group-state-decoder", false, "keys and values are those of __share_group_state")
	f.String("key-decoder-class", stringDecoder, "the `class` that reads keys: StringDecoder, IntegerDecoder, LongDecoder")
	f.String("value-decoder-class", stringDecoder, "the `class` that reads values")
	optional(cmd, "key-decoder-class", stringDecoder)
	optional(cmd, "value-decoder-class", stringDecoder)
	return cmd
}

// dump is one run of dump-log.
type dump struct {
	out          *bufio.Writer
	err          io.Writer
	ctx          context.Context
	deep, print  bool
	skipMetadata bool
	verifyOnly   bool
	sanityOnly   bool
	maxBytes     int64
	maxMessage   int64
	decode       recordDecoder

	indexMismatches complaints
	timeMismatches  complaints
	timeDisorder    complaints
	timeNotFound    complaints
	gaps            complaints
}

// complaints collects lines about files, in the order in which they came up.
type complaints struct {
	files []string
	lines map[string][]string
}

func (c *complaints) add(file, format string, a ...any) {
	if c.lines == nil {
		c.lines = map[string][]string{}
	}
	if c.lines[file] == nil {
		c.files = append(c.files, file)
	}
	c.lines[file] = append(c.lines[file], fmt.Sprintf(format, a...))
}

func (c *complaints) print(w io.Writer, head, indent string) {
	for _, file := range c.files {
		fmt.Fprintln(w, head+file)
		for _, line := range c.lines[file] {
			fmt.Fprintln(w, indent+line)
		}
	}
}

func runDumpLog(ctx context.Context, s *streams, cmd *cobra.Command) error {
	if printedVersion(s, cmd) {
		return nil
	}
	if !given(cmd, "files") {
		return requireFlags(cmd, "files")
	}
	flags := cmd.Flags()
	on := func(name string) bool { v, _ := flags.GetBool(name); return v }
	d := &dump{out: bufio.NewWriterSize(s.out, 1<<16), err: s.err, ctx: ctx, skipMetadata: on("skip-record-metadata"),
		verifyOnly: on("verify-index-only"), sanityOnly: on("index-sanity-check")}
	maxBytes, _ := flags.GetInt32("max-bytes")
	maxMessage, _ := flags.GetInt32("max-message-size")
	d.maxBytes, d.maxMessage = int64(maxBytes), int64(maxMessage)
	d.print = on("print-data-log")
	decoders := []struct {
		flag   string
		decode recordDecoder
	}{
		{"offsets-decoder", coordinatorDecoder(groupTypes)},
		{"transaction-log-decoder", coordinatorDecoder(transactionTypes)},
		{"cluster-metadata-decoder", metadataDecoder},
		{"share-group-state-decoder", coordinatorDecoder(shareTypes)},
	}
	for _, dec := range decoders {
		if on(dec.flag) {
			d.print = true
			if d.decode == nil {
				d.decode = dec.decode
			}
		}
	}
	var chosen [2]deserializer
	for i, name := range []string{"key-decoder-class", "value-decoder-class"} {
		class, _ := flags.GetString(name)
		d.print = d.print || given(cmd, name)
		if chosen[i] = dumpDecoders[class]; chosen[i] == nil {
			return fmt.Errorf("no decoder class %s; there are StringDecoder, IntegerDecoder and LongDecoder of org.apache.kafka.tools.api", class)
		}
	}
	if d.decode == nil {
		d.decode = bytesDecoder(chosen[0], chosen[1])
	}
	d.deep = on("deep-iteration") || d.print

	files, _ := flags.GetString("files")
	for _, file := range strings.Split(strings.TrimRight(files, ","), ",") {
		if err := d.file(file); err != nil {
			return errors.Join(err, d.out.Flush())
		}
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	d.complain()
	return nil
}

// complain prints what was found wrong, after all files.
func (d *dump) complain() {
	d.indexMismatches.print(d.err, "Mismatches in :", "  ")
	d.timeMismatches.print(d.err, "Found timestamp mismatch in :", "  ")
	d.timeDisorder.print(d.err, "Found out of order timestamp in :", "  ")
	d.timeNotFound.print(d.err, "The following indexed offsets are not found in :", "")
	d.gaps.print(d.err, "Non-consecutive offsets in ", "  ")
}

// file prints one file by the kind that its name shows.
func (d *dump) file(name string) error {
	fmt.Fprintf(d.out, "Dumping %s\n", name)
	switch filepath.Ext(name) {
	case ".log", ".checkpoint":
		return d.log(name)
	case ".index":
		return d.index(name)
	case ".timeindex":
		return d.timeIndex(name)
	case ".snapshot":
		return d.producerSnapshot(name)
	case ".txnindex":
		return d.txnIndex(name)
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(d.err, "Ignoring unknown file %s\n", name)
	return nil
}

// baseOffset is the offset in a file's name.
func baseOffset(name string) (int64, error) {
	base, _, _ := strings.Cut(filepath.Base(name), ".")
	n, err := strconv.ParseInt(base, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: the name does not begin with an offset", name)
	}
	return n, nil
}

// absolute is a file's name as complaints give it.
func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

func (d *dump) log(name string) error {
	if filepath.Ext(name) == ".log" {
		base, err := baseOffset(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "Log starting offset: %d\n", base)
	} else {
		switch base := filepath.Base(name); base {
		case "bootstrap.checkpoint":
			fmt.Fprintln(d.out, "KRaft bootstrap snapshot")
		default:
			offset, epoch, ok := snapshotID(base)
			if !ok {
				return fmt.Errorf("%s: the name is not that of a snapshot, <end offset>-<epoch>.checkpoint", name)
			}
			fmt.Fprintf(d.out, "Snapshot end offset: %d, epoch: %d\n", offset, epoch)
		}
	}
	r, err := openBatches(name, d.maxBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	return d.batches(r)
}

// batches prints the batches of a log, and how much of it is none.
func (d *dump) batches(r *batchReader) error {
	var dec record.Decompressor
	last := int64(-1)
	for {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		at := r.pos
		batch, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		d.batch(batch, at)
		if !d.deep {
			continue
		}
		if last, err = d.records(r.name, batch, &dec, last); err != nil {
			return fmt.Errorf("%s, batch at offset %d: %w", r.name, batch.BaseOffset(), err)
		}
	}
	if trailing := r.end - r.pos; trailing > 0 && d.maxBytes == math.MaxInt32 {
		fmt.Fprintf(d.out, "Found %d invalid bytes at the end of %s\n", trailing, filepath.Base(r.name))
	}
	return nil
}

// snapshotID reads the name of a metadata snapshot.
func snapshotID(base string) (offset int64, epoch int32, ok bool) {
	left, right, found := strings.Cut(strings.TrimSuffix(base, ".checkpoint"), "-")
	o, err1 := strconv.ParseInt(left, 10, 64)
	e, err2 := strconv.ParseInt(right, 10, 32)
	return o, int32(e), found && err1 == nil && err2 == nil
}

func (d *dump) batch(b record.Batch, at int64) {
	horizon := "OptionalLong.empty"
	if ms, ok := b.DeleteHorizon(); ok {
		horizon = fmt.Sprintf("OptionalLong[%d]", ms)
	}
	fmt.Fprintf(d.out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d "+
		"producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s "+
		"position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
		b.BaseOffset(), b.LastOffset(), b.Count(), b.BaseSequence(), b.LastSequence(), b.ProducerID(),
		b.ProducerEpoch(), b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon,
		at, timestampType(b), b.MaxTimestamp(), len(b), b.Magic(), b.Compression(), b.CRC(), b.CheckCRC() == nil)
}

func timestampType(b record.Batch) string {
	if b.Attributes()&record.LogAppendTimeBit != 0 {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// records prints the records of a batch and returns the offset of the last one.
func (d *dump) records(name string, b record.Batch, dec *record.Decompressor, last int64) (int64, error) {
	it := b.Iter(dec)
	var r record.Record
	for it.Next(&r) {
		if r.Offset != last+1 {
			d.gaps.add(absolute(name), "%d is followed by %d", last, r.Offset)
		}
		last = r.Offset
		prefix := "| "
		if !d.skipMetadata {
			d.recordMetadata(b, &r)
			prefix = " "
		}
		if d.print && !b.IsControl() {
			key, payload, hasKey, hasPayload, err := d.decode(&r)
			if err != nil {
				d.out.WriteByte('\n')
				return last, err
			}
			if hasKey {
				d.out.WriteString(prefix + "key: " + key)
				prefix = " "
			}
			if hasPayload {
				d.out.WriteString(prefix + "payload: " + payload)
			}
		}
		d.out.WriteByte('\n')
	}
	return last, it.Err()
}

func (d *dump) recordMetadata(b record.Batch, r *record.Record) {
	sequence := record.NoSequence
	if b.BaseSequence() != record.NoSequence {
		sequence = record.IncrementSequence(b.BaseSequence(), int32(r.Offset-b.BaseOffset()))
	}
	keys := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		keys[i] = wire.Text(h.Key)
	}
	fmt.Fprintf(d.out, "| offset: %d %s: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]", r.Offset,
		timestampType(b), r.Timestamp, sizeOrMinus(r.Key), sizeOrMinus(r.Value), sequence, strings.Join(keys, ","))
	if b.IsControl() {
		d.out.WriteString(controlText(r))
	}
}

func sizeOrMinus(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// controlText is what a control record says.
func controlText(r *record.Record) string {
	t, err := record.ParseControlKey(r.Key)
	if err != nil {
		return " " + err.Error()
	}
	var msg protocol.Message
	name := ""
	switch t {
	case record.Abort, record.Commit:
		m, _, err := r.EndTxn()
		if err != nil {
			return " " + err.Error()
		}
		marker := "ABORT"
		if t == record.Commit {
			marker = "COMMIT"
		}
		return fmt.Sprintf(" endTxnMarker: %s coordinatorEpoch: %d", marker, m.CoordinatorEpoch)
	case record.LeaderChange:
		name, msg = "LeaderChange:", protocol.NewLeaderChangeMessage()
	case record.SnapshotHeader:
		name, msg = "SnapshotHeader", protocol.NewSnapshotHeaderRecord()
	case record.SnapshotFooter:
		name, msg = "SnapshotFooter", protocol.NewSnapshotFooterRecord()
	case record.KRaftVersion:
		name, msg = "KRaftVersion", protocol.NewKRaftVersionRecord()
	case record.KRaftVoters:
		name, msg = "KRaftVoters", protocol.NewVotersRecord()
	default:
		return fmt.Sprintf(" controlType: UNKNOWN(%d)", t)
	}
	if len(r.Value) < 2 {
		return fmt.Sprintf(" %s value of %d bytes", name, len(r.Value))
	}
	version := int16(binary.BigEndian.Uint16(r.Value))
	if err := msg.Decode(wire.NewDecoder(r.Value), version); err != nil {
		return " " + name + " " + err.Error()
	}
	text, err := messageJSON(msg, version)
	if err != nil {
		return " " + name + " " + err.Error()
	}
	return " " + name + " " + string(text)
}

// batchReader reads a log file batch by batch.
type batchReader struct {
	f    io.ReaderAt
	name string
	pos  int64 // of the next batch
	end  int64 // of what may be read
	buf  []byte
}

func openBatches(name string, limit int64) (*batchReader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &batchReader{f: f, name: name, end: min(info.Size(), limit)}, nil
}

func (r *batchReader) Close() {
	if c, ok := r.f.(io.Closer); ok {
		c.Close()
	}
}

// size is the size of the batch at the position; io.EOF where no whole batch follows.
func (r *batchReader) size() (int64, error) {
	if r.end-r.pos < record.HeaderSizeUpToMagic {
		return 0, io.EOF
	}
	var head [record.HeaderSizeUpToMagic]byte
	if _, err := r.f.ReadAt(head[:], r.pos); err != nil {
		return 0, err
	}
	if n := int32(binary.BigEndian.Uint32(head[8:])); n < 14 {
		return 0, fmt.Errorf("Found record size %d smaller than minimum record overhead (14) in file %s.", n, r.name) //nolint:staticcheck // Kafka's words
	}
	if head[16] < record.MagicV2 {
		return 0, fmt.Errorf("%s at byte %d: %w", r.name, r.pos, record.ErrOldMagic)
	}
	n, err := record.NextSize(head[:])
	if err != nil {
		return 0, fmt.Errorf("%s at byte %d: %w", r.name, r.pos, err)
	}
	if int64(n) > r.end-r.pos {
		return 0, io.EOF
	}
	return int64(n), nil
}

// next reads the batch at the position and goes behind it. The batch lasts until the next call.
func (r *batchReader) next() (record.Batch, error) {
	n, err := r.size()
	if err != nil {
		return nil, err
	}
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	if _, err := r.f.ReadAt(r.buf[:n], r.pos); err != nil {
		return nil, err
	}
	r.pos += n
	b, _, err := record.Next(r.buf[:n])
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", r.name, r.pos-n, err)
	}
	return b, nil
}
