package sim

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"time"
)

// logHandler turns a node's log lines into lines of the trace, so that a run's log is part of its hash.
type logHandler struct {
	n    *Node
	buf  *bytes.Buffer
	text slog.Handler
}

func newLogHandler(n *Node) *logHandler {
	buf := &bytes.Buffer{}
	return &logHandler{n, buf, slog.NewTextHandler(buf, &slog.HandlerOptions{Level: n.w.o.LogLevel})}
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.text.Enabled(ctx, l) }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{} // that of the machine that simulates
	h.buf.Reset()
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	h.n.w.note(h.n, "log", strings.TrimSuffix(h.buf.String(), "\n"))
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.n, h.buf, h.text.WithAttrs(attrs)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.n, h.buf, h.text.WithGroup(name)}
}
