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
