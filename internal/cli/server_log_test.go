package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestServerLogLines(t *testing.T) {
	var out strings.Builder
	log := slog.New(newServerLog(&out, slog.LevelInfo))
	log.Debug("not written")
	log.With("node", 1).Warn("Connection closed", "peer", "127.0.0.1:5", "err", errors.New("two\nlines"))
	log.Info("Kafka Server started")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), out.String())
	}
	if !strings.HasSuffix(lines[0], `] WARN Connection closed (node=1, peer=127.0.0.1:5, err="two\nlines")`) {
		t.Errorf("got %s", lines[0])
	}
	if len(lines[1]) < 28 || lines[1][0] != '[' || lines[1][20] != ',' || lines[1][24:] != "] INFO Kafka Server started" {
		t.Errorf("got %s", lines[1])
	}
}

// What clients send is quoted in lines, and makes no lines of its own.
func TestServerLogIsNotForged(t *testing.T) {
	for _, c := range []struct{ message, value, want string }{
		{"topic a\n[2026-01-01 00:00:00,000] INFO all is well", "b", `] INFO topic a\n[2026-01-01 00:00:00,000] INFO all is well (v=b)`},
		{"settings:\n\ta = b\n\tc = d", "b", "] INFO settings:\n\ta = b\n\tc = d (v=b)"},
		{"\x1b[2J\r\u0085\u2028", "\x1b[2J\x7f", `] INFO \x1b[2J\r\u0085\u2028 (v="\x1b[2J\x7f")`},
		{strings.Repeat("m", 17<<10), strings.Repeat("v", 1<<20), "] INFO " + strings.Repeat("m", 16<<10) + "... (17408 bytes) (v=" + strings.Repeat("v", 16<<10) + "... (1048576 bytes))"},
	} {
		var out strings.Builder
		slog.New(newServerLog(&out, slog.LevelInfo)).Info(c.message, "v", c.value)
		if got := out.String()[24:]; got != c.want+"\n" {
			t.Errorf("got  %.300q\nwant %.300q", got, c.want)
		}
	}
}
