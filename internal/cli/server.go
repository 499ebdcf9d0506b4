package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/node"
)

// defaultDir is where a server without a configuration keeps its data.
const defaultDir = "ottla-data"

// defaultProperties are the configuration of a server that was given none: one node, for this machine only, and, as in
// the example that comes with Kafka, groups that do not wait for more members.
const defaultProperties = `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=` + defaultDir + `
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

func newServer(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server [server.properties] [flags]",
		Short: "Run a node: broker, controller, or both",
		Long: `Run a node until it gets SIGTERM or ctrl-C. The configuration is a server.properties of Kafka; KAFKA_* environment
variables and --override win over it. Its directories must have been formatted, see ottla storage format.

Without a configuration the server is a broker and controller of its own on localhost:9092, and formats ./ottla-data
by itself when there is none.`,
		Example: `  ottla server
  ottla server --override log.dirs=/tmp/data --override listeners=PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093
  ottla server /etc/kafka/server.properties`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("Found non argument parameters: %s", strings.Join(args[1:], ","))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd.Context(), s, cmd, args) },
	}
	f := cmd.Flags()
	f.String("config", "", "the configuration, a `file` of properties")
	f.StringArray("override", nil, "a setting that wins over the file, `key=value`; may be repeated")
	f.String("log-level", "info", "the `level` from which to log: debug, info (the default), warn or error")
	oneOf(cmd, "log-level", "debug", "info", "warn", "error")
	versionFlag(cmd)
	return cmd
}

// serve runs a node to its end.
func serve(_ context.Context, s *streams, cmd *cobra.Command, args []string) error {
	settings, err := readSettings(cmd, args)
	if err != nil {
		return serverErrors(err)
	}
	cfg, err := config.Load(settings.path, settings.text, settings.more...)
	if err != nil {
		return serverErrors(err)
	}
	var level slog.Level
	if text, _ := cmd.Flags().GetString("log-level"); level.UnmarshalText([]byte(text)) != nil {
		return usagef("--log-level %s: it is debug, info, warn or error", text)
	}
	log := slog.New(newServerLog(s.out, level))
	slog.SetDefault(log)
	e := real.New(real.Options{Logger: log})
	if settings.ownDefaults {
		if err := formatDefaults(e, cfg, log); err != nil {
			return advised(err, cfg, settings)
		}
	}
	if os.Getenv("GOGC") == "" {
		boundGarbage()
	}
	faults := make(chan error, 1)
	n, err := node.Open(node.Options{Env: e, Config: cfg, Hostname: canonicalHostname(), OnFault: func(err error) {
		select {
		case faults <- err:
		default: // the first one is the cause
		}
	}})
	if err != nil {
		return advised(err, cfg, settings)
	}
	return runNode(n, faults)
}

// canonicalHostname is what listeners without a host are advertised as: the full name of the machine, as name servers know it, else the
// one it has itself.
func canonicalHostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if addresses, err := net.DefaultResolver.LookupHost(ctx, host); err == nil && len(addresses) > 0 {
		if names, err := net.DefaultResolver.LookupAddr(ctx, addresses[0]); err == nil && len(names) > 0 {
			return strings.TrimSuffix(names[0], ".")
		}
	}
	return host
}

// runNode starts a node and shuts it down at the first signal. A second signal does not wait.
func runNode(n *node.Node, faults chan error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	n.Start(func(err error) {
		if err != nil {
			faults <- err
		}
	})
	var sig os.Signal
	select {
	case err := <-faults:
		return serverErrors(err)
	case sig = <-signals:
	}
	slog.Info("Terminating process due to signal " + strings.ToUpper(sig.String()))
	done := make(chan struct{})
	n.Shutdown(func() { close(done) })
	select {
	case <-done:
	case err := <-faults:
		return serverErrors(err)
	case <-signals:
	}
	number, _ := sig.(syscall.Signal)
	return exitError{128 + int(number)} // what a JVM exits with
}

// settings are what the server was told.
type settings struct {
	path        string // of the file
	text        []byte // of the file
	more        []config.Entry
	ownDefaults bool // there is no file: the server may format its own folder
}

// readSettings collects file, environment and flags.
func readSettings(cmd *cobra.Command, args []string) (settings, error) {
	var out settings
	path, _ := cmd.Flags().GetString("config")
	if len(args) == 1 {
		if path != "" {
			return out, fmt.Errorf("the configuration is given twice: %s and --config %s", args[0], path)
		}
		path = args[0]
	}
	out.path, out.text = path, []byte(defaultProperties)
	if path == "" {
		out.ownDefaults = true
	} else {
		var err error
		if out.text, err = os.ReadFile(path); err != nil {
			return out, fmt.Errorf("read the configuration: %w", err)
		}
	}
	out.more = config.FromEnvironment(os.Environ())
	overrides, _ := cmd.Flags().GetStringArray("override")
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			return out, fmt.Errorf("--override %s: it must be key=value", o)
		}
		out.more = append(out.more, config.Entry{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), File: "--override"})
	}
	return out, nil
}

// formatDefaults formats the folders of a server that has no configuration file, unless they are.
func formatDefaults(e *real.Env, cfg *config.Node, log *slog.Logger) error {
	dirs := cfg.LogDirs
	if !slices.Contains(dirs, cfg.MetadataLogDir) {
		dirs = append(slices.Clone(dirs), cfg.MetadataLogDir)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look into %s: %w", dir, err)
		case len(entries) > 0:
			return nil // whatever it is, it is not ours to overwrite; opening it says what is wrong
		}
	}
	if err := node.Check(e, cfg); err != nil {
		return err // before there is a folder
	}
	id, err := format.Standalone(e.FS(), e.Rand(), e.Now(), cfg)
	if err != nil {
		return err
	}
	log.Info(fmt.Sprintf("Formatted %s for a new cluster with id %s", strings.Join(dirs, ", "), id))
	return nil
}
