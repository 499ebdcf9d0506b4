package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/record"
)

// load is the progress of replaying a log.
type load struct {
	started time.Duration
	offset  int64 // next to replay
	records int64
	bytes   int64
}

// start begins to load; the chunks follow as events of their own, so that requests which come meanwhile are
// told to wait instead of waiting.
func (sh *Shard) start(logs Logs) {
	if status(sh.status.Load()) != loading {
		return
	}
	sh.load.started = sh.env.Monotonic()
	log, err := logs.CoordinatorLog(sh.topic, sh.partition)
	if err != nil {
		sh.fail(err)
		return
	}
	sh.log = log
	sh.load.offset = log.StartOffset()
	sh.chunk()
}

// chunk replays about Config.LoadBufferSize bytes.
func (sh *Shard) chunk() {
	if status(sh.status.Load()) != loading {
		return
	}
	end := sh.log.EndOffset()
	if sh.load.offset >= end {
		sh.activate(end)
		return
	}
	b, err := sh.log.Read(sh.load.offset, sh.cfg.LoadBufferSize)
	if err == nil {
		err = sh.replay(b)
	}
	if err != nil {
		sh.fail(fmt.Errorf("load %s-%d at offset %d: %w", sh.topic, sh.partition, sh.load.offset, err))
		return
	}
	if len(b) == 0 { // nothing up to the end: compaction left no batch
		sh.activate(end)
		return
	}
	sh.queue.Post("load chunk", sh.chunk)
}

// replay applies whole batches; a cut one at the end is read again with the next chunk.
func (sh *Shard) replay(b []byte) error {
	dec := record.GetDecompressor()
	defer dec.Release()
	sh.load.bytes += int64(len(b))
	for first := true; len(b) > 0; first = false {
		batch, rest, err := record.Next(b)
		if errors.Is(err, record.ErrShort) && !first {
			return nil
		}
		if err != nil {
			return err
		}
		if err := sh.replayBatch(batch, dec); err != nil {
			return err
		}
		b = rest
		sh.load.offset = batch.NextOffset()
	}
	return nil
}

func (sh *Shard) replayBatch(batch record.Batch, dec *record.Decompressor) error {
	producerID, producerEpoch := batch.ProducerID(), batch.ProducerEpoch()
	if !batch.IsTransactional() {
		producerID, producerEpoch = record.NoProducerID, record.NoProducerEpoch
	}
	it := batch.Iter(dec)
	var r record.Record
	for it.Next(&r) {
		if r.Offset < sh.load.offset {
			continue // the chunk began inside of a batch
		}
		sh.load.records++
		var err error
		if batch.IsControl() {
			var marker record.EndTxn
			var ok bool
			if marker, ok, err = r.EndTxn(); ok && err == nil {
				err = sh.state.ReplayEndTxn(batch.ProducerID(), batch.ProducerEpoch(), marker.Commit)
			}
		} else {
			err = sh.state.Replay(r.Offset, producerID, producerEpoch, r.Key, r.Value)
		}
		if err != nil {
			return fmt.Errorf("replay offset %d: %w", r.Offset, err)
		}
	}
	return it.Err()
}

// activate opens the shard. What was loaded may still be above the high watermark: the first answers wait for it.
func (sh *Shard) activate(end int64) {
	sh.written = end
	sh.removeWatch = sh.log.OnHighWatermark(sh.watch)
	sh.advance(sh.log.HighWatermark())
	if !sh.status.CompareAndSwap(int32(loading), int32(active)) {
		return // unloaded meanwhile; unload is behind us on the queue
	}
	sh.loaded = true
	took := sh.env.Monotonic() - sh.load.started
	sh.logger.Info("Finished loading of metadata", "leaderEpoch", sh.epoch, "ms", took.Milliseconds(),
		"records", sh.load.records, "bytes", sh.load.bytes)
	sh.state.Loaded()
}

func (sh *Shard) fail(err error) {
	sh.status.CompareAndSwap(int32(loading), int32(failed))
	sh.logger.Error("Failed to load metadata", "leaderEpoch", sh.epoch, "error", err)
}
