package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// serverLog writes log lines as Kafka's default layout does, so that what people grep for and cut out of them stays:
//
//	[2026-03-01 12:00:00,123] INFO message (key=value, key=value)
type serverLog struct {
	mu    *sync.Mutex
	w     io.Writer
	level slog.Leveler
	attrs string // given by WithAttrs, formatted
}

func newServerLog(w io.Writer, level slog.Leveler) *serverLog {
	return &serverLog{mu: &sync.Mutex{}, w: w, level: level}
}

// Enabled reports whether lines of a level are written.
func (h *serverLog) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs returns a handler whose lines end with attributes.
func (h *serverLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	var b bytes.Buffer
	b.WriteString(h.attrs)
	for _, a := range attrs {
		appendAttr(&b, a)
	}
	c.attrs = b.String()
	return &c
}

// WithGroup leaves attributes as they are: their names are unique.
func (h *serverLog) WithGroup(string) slog.Handler { return h }

// Handle writes one line, or several if the message has several.
func (h *serverLog) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[%s] %s %s", r.Time.Format("2006-01-02 15:04:05,000"), levelName(r.Level), plain(cut(r.Message)))
	var attrs bytes.Buffer
	attrs.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&attrs, a)
		return true
	})
	if attrs.Len() > 0 {
		fmt.Fprintf(&b, " (%s)", attrs.String())
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

func appendAttr(b *bytes.Buffer, a slog.Attr) {
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	v := cut(a.Value.Resolve().String())
	if v == "" || strings.Contains(v, "\"") || strings.ContainsFunc(v, isControl) {
		v = strconv.Quote(v)
	}
	b.WriteString(a.Key + "=" + v)
}

// Lines quote what clients send. Nobody shall forge a line, steer the terminal of who reads it, or fill the disk with one.

// maxText bounds a message, and each value, in bytes.
const maxText = 16 << 10

// cut shortens what is too long and says so.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + fmt.Sprintf("... (%d bytes)", len(s))
}

// plain replaces control characters in a message by their escapes, but lets lines that begin with a tab follow the first one: a
// line of the log begins with a bracket.
func plain(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		indented := r == '\n' && strings.HasPrefix(s[i+1:], "\t") || r == '\t'
		if !isControl(r) || indented {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

func isControl(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARN"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}
