package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readBatches(t *testing.T, name string) []Batch {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []Batch
	for len(b) > 0 {
		batch, rest, err := Next(b)
		if errors.Is(err, ErrShort) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		out, b = append(out, batch), rest
	}
	return out
}

func readRecords(t *testing.T, b Batch, each func(*Record)) {
	t.Helper()
	var r Record
	it := b.Iter(nil)
	for it.Next(&r) {
		each(&r)
	}
	if err := it.Err(); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

// describe writes a record in the notation of the checksums: offset|timestamp|key|value|header=value and so on.
func describe(r *Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "NULL"
		}
		return string(b)
	}
	s := fmt.Sprintf("%d|%d|%s|%s", r.Offset, r.Timestamp, text(r.Key), text(r.Value))
	for _, h := range r.Headers {
		s += "|" + string(h.Key) + "=" + text(h.Value)
	}
	return s + "\n"
}

// TestKafkaData reads what Kafka wrote; the checksums are over what Kafka's consumer read.
func TestKafkaData(t *testing.T) {
	for _, c := range []struct {
		file, sum string
		records   int
	}{
		{"none.log", "961e733790ad6293e26eeab9c3dcfd3b3eec34cf90cf74cc98369a147f3e8f05", 40},
		{"gzip.log", "11fd026761a07073ef43eecc1b747431553584f317dec7c9ab2a4d8c1223111f", 40},
		{"snappy.log", "93cdb9d7a0c1b40d9f06d4de2be1ebb5a188ab8d46d67a917415797b67eaa45b", 40},
		{"lz4.log", "80c684e81628d975f89b298db3e4db9d6055d09134336207b140e73ad154c814", 40},
		{"zstd.log", "c24d52d3692b26ff91286476951f50a8d31acb8468a538e28610b4d75776bda4", 40},
		{"compacted.log", "9c7678109bd6fc8e8ec85419d2d381cb0f1612ef1a8dc9ca59391295dd5175e5", 21},
		{"lat.log", "61f3394c7b79a69a22039b1f6c428c4cc59cfe77168574085f4583badab54084", 3},
		{"txn.log", "f1b1407fc6a13097596c9020d4dd59589cfb49a59f733218db2cf944f16b91d6", 13},
	} {
		t.Run(c.file, func(t *testing.T) {
			h, n := sha256.New(), 0
			for _, b := range readBatches(t, c.file) {
				if _, err := Validate(b, ValidateOptions{Before: math.MaxInt64, After: math.MaxInt64}, nil); err != nil && c.file != "compacted.log" && c.file != "lat.log" {
					t.Errorf("%s: %v", b, err)
				}
				if b.IsControl() {
					continue
				}
				readRecords(t, b, func(r *Record) {
					n++
					h.Write([]byte(describe(r)))
				})
			}
			if sum := hex.EncodeToString(h.Sum(nil)); sum != c.sum || n != c.records {
				t.Errorf("%d records, sha256 %s, want %d, %s", n, sum, c.records, c.sum)
			}
		})
	}
}

// TestKafkaBatchesRebuilt builds Kafka's own batches again, byte for byte; compressed ones up to the
// codec's choices, with our compression read back.
func TestKafkaBatchesRebuilt(t *testing.T) {
	for _, file := range []string{"none.log", "gzip.log", "snappy.log", "lz4.log", "zstd.log", "compacted.log", "lat.log", "txn.log", "bootstrap.checkpoint", "metadata-start.bin"} {
		for _, want := range readBatches(t, file) {
			codec := want.Compression()
			b := NewBuilder(want.BaseOffset(), codec)
			b.SetLeaderEpoch(want.LeaderEpoch())
			b.SetProducer(want.ProducerID(), want.ProducerEpoch(), want.BaseSequence())
			if want.IsTransactional() {
				b.SetTransactional()
			}
			if want.IsControl() {
				b.SetControl()
			}
			if ms, ok := want.DeleteHorizon(); ok {
				b.SetDeleteHorizon(ms)
			}
			lat := want.TimestampType() == LogAppendTime
			if lat {
				b.SetLogAppendTime(want.MaxTimestamp())
			}
			b.SetLastOffset(want.LastOffset())
			var r Record
			for it := want.Iter(nil); it.Next(&r); {
				timestamp := r.Timestamp
				if lat {
					// The producer's time is still in the batch, but readers do not see it.
					timestamp = want.BaseTimestamp()
				}
				b.AppendAt(r.Offset, timestamp, r.Key, r.Value, r.Headers...)
			}
			got, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if codec == None {
				if !lat && !bytes.Equal(got, want) {
					t.Errorf("%s: built\n%x\nwant\n%x", file, []byte(got), []byte(want))
				}
				continue
			}
			plain, err := new(Decompressor).Decompress(nil, want.Payload(), codec)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := new(Decompressor).Decompress(nil, got.Payload(), codec)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours, plain) {
				t.Errorf("%s: records differ", file)
			}
			header := func(b Batch) Batch {
				b = append(Batch(nil), b[:BatchHeaderSize]...)
				clear(b[posLength : posLength+4])
				clear(b[posCRC : posCRC+4])
				return b
			}
			if diff := cmp.Diff(header(want), header(got)); diff != "" {
				t.Errorf("%s: header (-kafka +ours)\n%s", file, diff)
			}
		}
	}
}

// TestKafkaControlRecords lists the control records of a transaction log, a snapshot and a metadata log.
func TestKafkaControlRecords(t *testing.T) {
	var got strings.Builder
	for _, file := range []string{"txn.log", "bootstrap.checkpoint", "metadata-start.bin"} {
		for _, b := range readBatches(t, file) {
			if !b.IsControl() {
				continue
			}
			readRecords(t, b, func(r *Record) {
				typ, err := ParseControlKey(r.Key)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(ControlKey(typ), r.Key) {
					t.Errorf("key %x, want %x", ControlKey(typ), r.Key)
				}
				fmt.Fprintf(&got, "%s %d %s", file, r.Offset, typ)
				if m, ok, err := r.EndTxn(); err != nil {
					t.Fatal(err)
				} else if ok {
					fmt.Fprintf(&got, " producer=%d/%d commit=%v coordinatorEpoch=%d", b.ProducerID(), b.ProducerEpoch(), m.Commit, m.CoordinatorEpoch)
					mb := NewBuilder(b.BaseOffset(), None)
					mb.SetLeaderEpoch(b.LeaderEpoch())
					mb.AppendEndTxn(r.Timestamp, b.ProducerID(), b.ProducerEpoch(), m)
					if ours, err := mb.Build(); err != nil || !bytes.Equal(ours, b) {
						t.Errorf("marker %v %v, want %v", ours, err, b)
					}
				}
				got.WriteByte('\n')
			})
		}
	}
	want := `txn.log 5 COMMIT producer=6/1 commit=true coordinatorEpoch=0
txn.log 11 ABORT producer=7/1 commit=false coordinatorEpoch=0
txn.log 15 ABORT producer=7/2 commit=false coordinatorEpoch=0
txn.log 16 COMMIT producer=6/2 commit=true coordinatorEpoch=0
bootstrap.checkpoint 0 SNAPSHOT_HEADER
bootstrap.checkpoint 1 KRAFT_VERSION
bootstrap.checkpoint 2 KRAFT_VOTERS
bootstrap.checkpoint 9 SNAPSHOT_FOOTER
metadata-start.bin 0 LEADER_CHANGE
metadata-start.bin 1 KRAFT_VERSION
metadata-start.bin 2 KRAFT_VOTERS
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("control records (-want +got)\n%s", diff)
	}
}
