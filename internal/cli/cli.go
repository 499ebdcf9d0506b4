package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// streams are where one run reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// asKafka says that the tool was called by the name of Kafka's script, and then keeps to its letter where
	// ottla's own name allows more: --bootstrap-server is required, --help goes to standard error with exit code 1.
	asKafka bool
	// helped says that help was asked for, and shown unless it was for a subcommand that is not there.
	helped    bool
	helpError error
}

// exitError ends a tool with a code after it has said what there was to say.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// usageError is a mistake in the arguments: it is printed above the tool's usage.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// asUsage makes a usageError of an error that is none.
func asUsage(err error) error {
	if err == nil || errors.As(err, new(usageError)) {
		return err
	}
	return usageError{err.Error()}
}

func usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// Main runs the command that args names, args[0] being the name of the program, and returns the exit code:
// 0 for success, 1 for everything else, as Kafka's tools do.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks the tool to finish, a second one ends the process.
	context.AfterFunc(ctx, stop)
	return run(ctx, args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &streams{in: stdin, out: stdout, err: stderr}
	rest := args[1:]
	if tool := kafkaTool(args[0]); tool != "" {
		s.asKafka = true
		rest = append([]string{tool}, rest...)
	}
	root := newRoot(s)
	cmd, toolArgs, err := root.Find(rest)
	if err == nil && cmd != root && dialectOf(cmd) == jopt {
		names := strings.Fields(cmd.CommandPath())[1:]
		toolArgs, err = normaliseJopt(cmd.Flags(), toolArgs)
		if err != nil {
			return report(s, cmd, err)
		}
		rest = append(names, toolArgs...)
	}
	if err == nil && cmd != root && dialectOf(cmd) == argparse {
		cmd.InheritedFlags() // so that cmd.Flags has those of its parents
		toolArgs, err = expandArgparse(cmd.Flags(), toolArgs)
		if err != nil {
			return report(s, cmd, err)
		}
		rest = append(strings.Fields(cmd.CommandPath())[1:], toolArgs...)
	}
	root.SetArgs(rest)
	cmd, err = root.ExecuteContextC(ctx)
	if s.helpError != nil {
		return report(s, cmd, s.helpError)
	}
	if s.helped && s.asKafka && dialectOf(cmd) == jopt {
		return 1
	}
	return report(s, cmd, err)
}

// report prints what went wrong, if anything did, and chooses the exit code.
func report(s *streams, cmd *cobra.Command, err error) int {
	var exit exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		if dialectOf(cmd) == plainCobra { // which prints its usage when it is asked for
			fmt.Fprintf(s.err, "%s: %s; see %s --help\n", cmd.CommandPath(), usage.text, cmd.CommandPath())
			return 1
		}
		if dialectOf(cmd) == argparse {
			fmt.Fprintf(s.err, "%s%s: error: %s\n", cmd.UsageString(), kafkaName(cmd), usage.text)
			return 1
		}
		fmt.Fprintln(s.err, strings.TrimRight(usage.text, "\n"))
		fmt.Fprint(s.err, cmd.UsageString())
		return 1
	default:
		fmt.Fprintln(s.err, err)
		return 1
	}
}

// kafkaTool is the command that stands in for the script of Kafka that program is named after, or empty.
func kafkaTool(program string) string {
	name := filepath.Base(program)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".sh")
	for _, c := range commands {
		if name != "" && name == c.script {
			return c.name
		}
	}
	return ""
}
