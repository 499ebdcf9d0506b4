package storage

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
)

// prefixed puts something before each message.
type prefixed struct {
	slog.Handler
	prefix string
}

func (p prefixed) Handle(ctx context.Context, r slog.Record) error {
	r.Message = p.prefix + r.Message
	return p.Handler.Handle(ctx, r)
}

// report says what a pass has done, in Kafka's words.
func (c *cleaning) report(id int, logger *slog.Logger) {
	s := c.stats
	total, index := (s.ended - s.begun).Seconds(), (s.mapped - s.begun).Seconds()
	read, written, mapped := megabytes(s.BytesRead), megabytes(s.BytesWritten), megabytes(s.mapBytes)
	var b strings.Builder
	fmt.Fprintf(&b, "\n\tLog cleaner thread %d cleaned log %s (dirty section = [%d, %d])\n", id, c.l.tp, c.dirt.FirstDirty, c.end)
	fmt.Fprintf(&b, "\t%s MB of log processed in %s seconds (%s MB/sec).\n", figure(read), figure(total), figure(read/total))
	fmt.Fprintf(&b, "\tIndexed %s MB in %s seconds (%s Mb/sec, %s%% of total time)\n", figure(mapped), figure(index), figure(mapped/index), figure(100*index/total))
	fmt.Fprintf(&b, "\tBuffer utilization: %s%%\n", figure(100*s.utilization))
	fmt.Fprintf(&b, "\tCleaned %s MB in %s seconds (%s Mb/sec, %s%% of total time)\n", figure(read), figure(total-index), figure(read/(total-index)), figure(100*(total-index)/total))
	fmt.Fprintf(&b, "\tStart size: %s MB (%s messages)\n", figure(read), grouped(fmt.Sprint(s.MessagesRead)))
	fmt.Fprintf(&b, "\tEnd size: %s MB (%s messages)\n", figure(written), grouped(fmt.Sprint(s.MessagesWritten)))
	fmt.Fprintf(&b, "\t%s%% size reduction (%s%% fewer messages)\n", figure(100*(1-written/read)), figure(100*(1-float64(s.MessagesWritten)/float64(s.MessagesRead))))
	logger.Info(b.String())
	if c.delayed > 0 {
		logger.Info(fmt.Sprintf("\tCleanable partitions: %d, Delayed partitions: %d, max delay: %d", c.cleanable, c.delayed, c.maxDelay))
	}
	if s.InvalidMessages > 0 {
		logger.Warn(fmt.Sprintf("\tFound %d invalid messages during compaction.", s.InvalidMessages))
	}
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// figure has one digit behind the point, as Java writes it.
func figure(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	}
	return grouped(fmt.Sprintf("%.1f", f))
}

// grouped puts commas between thousands.
func grouped(number string) string {
	whole, rest, _ := strings.Cut(number, ".")
	sign := ""
	if digits, ok := strings.CutPrefix(whole, "-"); ok {
		sign, whole = "-", digits
	}
	var parts []string
	for len(whole) > 3 {
		parts = append([]string{whole[len(whole)-3:]}, parts...)
		whole = whole[:len(whole)-3]
	}
	out := sign + strings.Join(append([]string{whole}, parts...), ",")
	if rest != "" {
		out += "." + rest
	}
	return out
}
