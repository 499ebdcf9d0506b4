package compaction

import (
	"math"
	"slices"
	"testing"
)

// segments have 10 offsets and a size each; the last one is active.
func segments(sizes ...int64) []Segment {
	out := make([]Segment, len(sizes))
	for i, size := range sizes {
		at := int64(i) * 10
		out[i] = Segment{Base: at, Size: size, Offsets: 8, Times: 12, Largest: 1000 + at + 9, First: 1000 + at}
	}
	return out
}

func TestAssess(t *testing.T) {
	four := Log{Segments: segments(100, 200, 300, 400), End: 40, Stable: 40, Noted: -1, MaxLag: math.MaxInt64}
	for name, c := range map[string]struct {
		change func(*Log)
		want   Dirt
	}{
		"never cleaned":              {func(*Log) {}, Dirt{FirstUncleanable: 30, CleanableBytes: 600}},
		"cleaned up to a segment":    {func(l *Log) { l.Noted = 10 }, Dirt{FirstDirty: 10, FirstUncleanable: 30, CleanBytes: 100, CleanableBytes: 500}},
		"cleaned up to the middle":   {func(l *Log) { l.Noted = 15 }, Dirt{FirstDirty: 15, FirstUncleanable: 30, CleanBytes: 300, CleanableBytes: 500}},
		"cleaned as far as possible": {func(l *Log) { l.Noted = 30 }, Dirt{FirstDirty: 30, FirstUncleanable: 30, CleanBytes: 600}},
		"noted below the start":      {func(l *Log) { l.Noted, l.Start = 5, 12 }, Dirt{FirstDirty: 12, FirstUncleanable: 30, CleanBytes: 300, CleanableBytes: 500, BelowStart: true}},
		"noted behind the end":       {func(l *Log) { l.Noted = 41 }, Dirt{FirstUncleanable: 30, CleanableBytes: 600, BehindEnd: true}},
		"an open transaction":        {func(l *Log) { l.Stable = 22 }, Dirt{FirstUncleanable: 20, CleanableBytes: 300}},
		"stable below what is clean": {func(l *Log) { l.Noted, l.Stable = 25, 3 }, Dirt{FirstDirty: 25, FirstUncleanable: 20, CleanBytes: 600}},
		"too young":                  {func(l *Log) { l.MinLag = 100 }, Dirt{CleanableBytes: 0}},
		"the last is too young":      {func(l *Log) { l.MinLag = 71 }, Dirt{FirstUncleanable: 20, CleanableBytes: 300}},
		"old enough":                 {func(l *Log) { l.MinLag = 70 }, Dirt{FirstUncleanable: 30, CleanableBytes: 600}},
		"too old":                    {func(l *Log) { l.MaxLag, l.Noted = 40, 10 }, Dirt{FirstDirty: 10, FirstUncleanable: 30, CleanBytes: 100, CleanableBytes: 500, Delay: 49}},
		"not too old":                {func(l *Log) { l.MaxLag = 99 }, Dirt{FirstUncleanable: 30, CleanableBytes: 600}},
		"too old but active":         {func(l *Log) { l.MaxLag, l.Noted = 1, 30 }, Dirt{FirstDirty: 30, FirstUncleanable: 30, CleanBytes: 600}},
		"no time in the records":     {func(l *Log) { l.MaxLag, l.Segments[0].First = 80, -1 }, Dirt{FirstUncleanable: 30, CleanableBytes: 600, Delay: 9}},
		"active alone":               {func(l *Log) { l.Segments = segments(50) }, Dirt{}},
	} {
		l := four
		l.Segments = slices.Clone(four.Segments)
		c.change(&l)
		if got := Assess(l, 1099); got != c.want {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}

func TestGroup(t *testing.T) {
	far := segments(10, 10, 10)
	far[2].Base = math.MaxInt32 - 5
	hollow := slices.Clone(far)
	hollow[2].Size = 0
	for name, c := range map[string]struct {
		segments    []Segment
		size, index int64
		next        int64
		want        []int
	}{
		"all fit":                   {segments(10, 20, 30), 60, 36, 30, []int{3}},
		"a byte too large":          {segments(10, 20, 30), 59, 36, 30, []int{2, 1}},
		"each for itself":           {segments(10, 20, 30), 5, 36, 30, []int{1, 1, 1}},
		"a time index too large":    {segments(10, 20, 30), 60, 35, 30, []int{2, 1}},
		"offsets just near enough":  {far, 60, 36, math.MaxInt32 + 1, []int{3}},
		"offsets too far":           {far, 60, 36, math.MaxInt32 + 2, []int{2, 1}},
		"too far, but without them": {hollow, 60, 36, math.MaxInt32 + 2, []int{3}},
		"none":                      {nil, 60, 36, 0, nil},
	} {
		if got := Group(c.segments, c.size, c.index, c.next); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
