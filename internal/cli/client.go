package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/config"
)

// defaultBootstrap is where tools look for a cluster when nobody says where it is.
const defaultBootstrap = "localhost:9092"

// quiet is how long a tool with time enough tries before it says so: a node may take as long to start.
const quiet = time.Second

// defaultAPITimeout is how long a tool tries, default.api.timeout.ms of Kafka's admin client.
const defaultAPITimeout = time.Minute

// bootstrapFlags adds --bootstrap-server and --command-config to a tool.
func bootstrapFlags(cmd *cobra.Command) {
	cmd.Flags().String("bootstrap-server", "", "a broker of the cluster, as `host:port[,host:port]`"+
		" (default "+defaultBootstrap+"; required when called as Kafka's script)")
	cmd.Flags().String("command-config", "", "a properties `file` with settings of the client")
}

// bootstrap is the value of --bootstrap-server; ok is false when Kafka's tool would miss it.
func (s *streams) bootstrap(cmd *cobra.Command) (value string, ok bool) {
	if value, _ = cmd.Flags().GetString("bootstrap-server"); value != "" {
		return value, true
	}
	if s.asKafka {
		return "", false
	}
	return defaultBootstrap, true
}

// parseBootstrap checks host:port[,host:port…]; an IPv6 address stands in brackets.
func parseBootstrap(list string) ([]string, error) {
	var seeds []string
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		// A listener's name may stand in front: PLAINTEXT://host:port.
		address := item
		if _, rest, ok := strings.Cut(item, "://"); ok {
			address = rest
		}
		host, port, err := net.SplitHostPort(address)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("Invalid url in bootstrap.servers: %s", item) //nolint:staticcheck // Kafka's words
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	if len(seeds) == 0 {
		return nil, errors.New("No resolvable bootstrap urls given in bootstrap.servers") //nolint:staticcheck // Kafka's words
	}
	return seeds, nil
}

// readProperties reads a properties file of a client.
func readProperties(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	entries, problems := config.ParseProperties(file, data)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	props := make(map[string]string, len(entries))
	for _, e := range entries {
		props[e.Key] = e.Value
	}
	return props, nil
}

// commandConfig reads the file of --command-config, if there is one.
func commandConfig(cmd *cobra.Command) (map[string]string, error) {
	file, _ := cmd.Flags().GetString("command-config")
	if file == "" {
		return map[string]string{}, nil
	}
	return readProperties(file)
}

// clientOptions are the options that all tools share, from a client's properties.
func clientOptions(seeds []string, props map[string]string) ([]kgo.Opt, error) {
	if p := props["security.protocol"]; p != "" && !strings.EqualFold(p, "PLAINTEXT") {
		return nil, fmt.Errorf("security.protocol %s: ottla's tools speak PLAINTEXT only", p)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.SoftwareNameAndVersion("ottla", ottlaVersion()),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(50*time.Millisecond<<min(tries, 5), time.Second)
		}),
	}
	if id := props["client.id"]; id != "" {
		opts = append(opts, kgo.ClientID(id))
	} else {
		opts = append(opts, kgo.ClientID("ottla"))
	}
	return opts, nil
}

// patience is default.api.timeout.ms.
func patience(props map[string]string) time.Duration {
	if ms, err := strconv.Atoi(props["default.api.timeout.ms"]); err == nil && ms >= 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return defaultAPITimeout
}

// admin asks the brokers it was given, one after the other, until one answers. It needs no metadata of its own:
// brokers pass what the controller has to decide on to the controller, so a question costs one round trip.
type admin struct {
	s       *streams
	client  *kgo.Client
	seeds   []string
	props   map[string]string
	timeout time.Duration
	told    bool // that the cluster is out of reach
}

// dialAdmin makes an admin for a list of brokers. Nothing is sent yet.
func dialAdmin(s *streams, bootstrap string, props map[string]string) (*admin, error) {
	seeds, err := parseBootstrap(bootstrap)
	if err != nil {
		return nil, err
	}
	opts, err := clientOptions(seeds, props)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &admin{s: s, client: client, seeds: seeds, props: props, timeout: patience(props)}, nil
}

func (a *admin) Close() { a.client.Close() }

// errTimedOut is what Kafka's admin client says when no broker was there.
type errTimedOut struct{ call string }

func (e errTimedOut) Error() string {
	return "Timed out waiting for a node assignment. Call: " + e.call
}

// ask sends a request to the first broker that can be reached, and tries again for as long as the tool is
// patient: a script may start a broker and its first tool at the same time.
func (a *admin) ask(ctx context.Context, call string, req kmsg.Request) (kmsg.Response, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for tries := 0; ; tries++ {
		for _, broker := range a.client.SeedBrokers() {
			resp, err := broker.Request(ctx, req)
			switch {
			case err == nil:
				return resp, nil
			case ctx.Err() != nil:
				return nil, errTimedOut{call}
			case errors.Is(err, kerr.UnsupportedVersion) || unsupported(err):
				return nil, kerr.UnsupportedVersion
			}
			if !a.told && time.Since(began) > min(quiet, a.timeout/20) {
				a.told = true
				fmt.Fprintf(a.s.err, "%s: %v; trying for %v\n", strings.Join(a.seeds, ","), err, a.timeout)
			}
		}
		select {
		case <-ctx.Done():
			return nil, errTimedOut{call}
		case <-time.After(min(20*time.Millisecond<<min(tries, 6), time.Second)):
		}
	}
}

// unsupported says whether the broker does not know the request at all.
func unsupported(err error) bool {
	return strings.Contains(err.Error(), "broker is too old")
}

// answerError is the error of an answer with the message that came along, or with that of Kafka's clients.
func answerError(code int16, message *string) error {
	if code == 0 {
		return nil
	}
	if message != nil && *message != "" {
		return kafkaError{code, *message}
	}
	err := kerr.TypedErrorForCode(code)
	return kafkaError{code, err.Description}
}

// kafkaError is an error of the protocol as Kafka's tools word it.
type kafkaError struct {
	code int16
	text string
}

func (e kafkaError) Error() string { return e.text }
