package storage

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
)

// epochStart says where the records of a leader epoch begin.
type epochStart struct {
	epoch int32
	start int64
}

// leaderEpochs are the epochs in a log, and the file leader-epoch-checkpoint that keeps them. Epochs and starts rise.
type leaderEpochs struct {
	fsys env.FS
	path string

	mu      sync.RWMutex
	entries []epochStart
	dirty   bool
}

func openLeaderEpochs(fsys env.FS, path string) (*leaderEpochs, error) {
	c := &leaderEpochs{fsys: fsys, path: path}
	lines, err := readCheckpoint(fsys, path, 2)
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		epoch, err1 := strconv.ParseInt(l[0], 10, 32)
		start, err2 := strconv.ParseInt(l[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("read %s: malformed line %d", path, i+3)
		}
		c.assign(int32(epoch), start)
	}
	c.dirty = false
	return c, nil
}

// flush writes the file if anything changed since it was written.
func (c *leaderEpochs) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil
	}
	lines := make([]string, len(c.entries))
	for i, e := range c.entries {
		lines[i] = fmt.Sprintf("%d %d", e.epoch, e.start)
	}
	if err := writeCheckpoint(c.fsys, c.path, lines); err != nil {
		return err
	}
	c.dirty = false
	return nil
}

// assign notes that an epoch begins at start. Entries of later epochs, or that begin later, contradict it and go. It
// reports whether anything changed.
func (c *leaderEpochs) assign(epoch int32, start int64) bool {
	if epoch < 0 || start < 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.entries); n > 0 && c.entries[n-1].epoch == epoch && c.entries[n-1].start <= start {
		return false
	}
	for len(c.entries) > 0 {
		last := c.entries[len(c.entries)-1]
		if last.epoch < epoch && last.start < start {
			break
		}
		c.entries = c.entries[:len(c.entries)-1]
	}
	c.entries = append(c.entries, epochStart{epoch, start})
	c.dirty = true
	return true
}

// latest is the last epoch, -1 if there is none.
func (c *leaderEpochs) latest() int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := len(c.entries); n > 0 {
		return c.entries[n-1].epoch
	}
	return -1
}

// endOffsetFor gives the largest epoch up to epoch that is known, and where it ended, given the end of the log; -1, -1 if epoch
// lies behind all that is known. Of an epoch before all that is known only that it ended where they begin (KIP-279).
func (c *leaderEpochs) endOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := len(c.entries)
	switch {
	case epoch == -1 || n == 0 || epoch > c.entries[n-1].epoch:
		return -1, -1
	case epoch == c.entries[n-1].epoch:
		return epoch, logEnd
	}
	i, _ := slices.BinarySearchFunc(c.entries, epoch+1, func(e epochStart, epoch int32) int { return int(e.epoch) - int(epoch) })
	if i == 0 {
		return epoch, c.entries[0].start
	}
	return c.entries[i-1].epoch, c.entries[i].start
}

// at is the epoch of the record at offset, -1 if it lies before all that is known.
func (c *leaderEpochs) at(offset int64) int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := len(c.entries) - 1; i >= 0; i-- {
		if c.entries[i].start <= offset {
			return c.entries[i].epoch
		}
	}
	return -1
}

// truncateEnd forgets what begins at or above offset.
func (c *leaderEpochs) truncateEnd(offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.entries); n > 0 && c.entries[n-1].start >= offset; n = len(c.entries) {
		c.entries, c.dirty = c.entries[:n-1], true
	}
}

// truncateStart forgets epochs that ended at or below offset; the one that offset lies in begins there now.
func (c *leaderEpochs) truncateStart(offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.entries) && c.entries[n].start <= offset {
		n++
	}
	if n == 0 || n == 1 && c.entries[0].start == offset {
		return
	}
	c.entries = slices.Clone(c.entries[n-1:])
	c.entries[0].start, c.dirty = offset, true
}

func (c *leaderEpochs) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = c.dirty || len(c.entries) > 0
	c.entries = nil
}
