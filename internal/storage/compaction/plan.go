package compaction

import "math"

// Segment is what has to be known of a segment to decide about it.
type Segment struct {
	Base int64
	Size int64 // bytes
	// Offsets and Times are the bytes of the entries of its indexes.
	Offsets, Times int64
	// Largest is the largest timestamp of its records in ms, or when it was changed last if it has none; First is the largest
	// timestamp of its first batch. They are needed only for min.compaction.lag.ms, max.compaction.lag.ms.
	Largest, First int64
}

// Log is what has to be known of a log.
type Log struct {
	Segments []Segment // all, by base; the last one is the active one
	Start    int64
	End      int64
	Stable   int64 // the last stable offset, at most the high watermark
	Noted    int64 // up to where it was cleaned according to the checkpoint; -1 if that is not known
	MinLag   int64 // ms, min.compaction.lag.ms
	MaxLag   int64 // ms, max.compaction.lag.ms
}

// Dirt is how dirty a log is.
type Dirt struct {
	// FirstDirty is where the records begin that were not looked at yet, FirstUncleanable where those begin that must not be
	// cleaned yet: always the beginning of a segment.
	FirstDirty, FirstUncleanable int64
	// BelowStart and BehindEnd say that what was noted cannot be, and FirstDirty is the start of the log.
	BelowStart, BehindEnd      bool
	CleanBytes, CleanableBytes int64
	// Delay is for how many ms max.compaction.lag.ms is over for the oldest dirty segment; 0 if it is not.
	Delay int64
}

// Ratio is the part of the log that may be cleaned and was not yet; NaN of an empty log.
func (d Dirt) Ratio() float64 {
	return float64(d.CleanableBytes) / float64(d.CleanBytes+d.CleanableBytes)
}

// Assess says how dirty a log is at a time in ms.
func Assess(l Log, now int64) Dirt {
	d := Dirt{FirstDirty: l.Noted}
	switch {
	case l.Noted < 0:
		d.FirstDirty = l.Start
	case l.Noted < l.Start:
		d.FirstDirty, d.BelowStart = l.Start, true
	case l.Noted > l.End:
		d.FirstDirty, d.BehindEnd = l.Start, true
	}
	active := len(l.Segments) - 1
	var dirty []Segment // and not active
	if d.FirstDirty < l.Segments[active].Base {
		dirty = l.Segments[floor(l.Segments, d.FirstDirty):active]
	}
	bound := min(l.Stable, l.Segments[active].Base)
	if l.MinLag > 0 {
		for _, s := range dirty {
			if s.Largest > now-l.MinLag {
				bound = min(bound, s.Base)
				break
			}
		}
	}
	bound = max(d.FirstDirty, bound)
	uncleanable := floor(l.Segments, bound)
	d.FirstUncleanable = l.Segments[uncleanable].Base
	for _, s := range l.Segments {
		if s.Base < d.FirstDirty {
			d.CleanBytes += s.Size
		}
	}
	for _, s := range l.Segments[floor(l.Segments, min(d.FirstDirty, d.FirstUncleanable)):uncleanable] {
		d.CleanableBytes += s.Size
	}
	d.Delay = delay(dirty, now, max(l.MaxLag, 0))
	return d
}

// delay is for how long the first batches of some segments are older than maxLag.
func delay(dirty []Segment, now, maxLag int64) int64 {
	earliest := int64(math.MaxInt64)
	for _, s := range dirty {
		if s.First > 0 {
			earliest = min(earliest, s.First)
		}
	}
	if until := now - maxLag; earliest < until {
		return until - earliest
	}
	return 0
}

// floor is the index of the segment that offset lies in: the first one if it is below all.
func floor(segments []Segment, offset int64) int {
	i := 0
	for i+1 < len(segments) && segments[i+1].Base <= offset {
		i++
	}
	return i
}

// Group says how many segments, from the first on, become one each time: as many as fit into the sizes of a segment and of an index.
// next is the offset behind the last of them.
func Group(segments []Segment, maxSize, maxIndex, next int64) []int {
	var groups []int
	for i := 0; i < len(segments); {
		first := i
		size, offsets, times := segments[i].Size, segments[i].Offsets, segments[i].Times
		for i++; i < len(segments); i++ {
			s := segments[i]
			size, offsets, times = size+s.Size, offsets+s.Offsets, times+s.Times
			if size > maxSize || offsets > maxIndex || times > maxIndex {
				break
			}
			last := next - 1
			if i+1 < len(segments) {
				last = segments[i+1].Base - 1
			}
			if s.Size > 0 && last-segments[first].Base > math.MaxInt32 {
				break // an offset relative to the first would not fit into an index entry
			}
		}
		groups = append(groups, i-first)
	}
	return groups
}
