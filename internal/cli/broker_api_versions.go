package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/protocol"
)

func newBrokerAPIVersions(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "broker-api-versions",
		Short: "Show which requests, in which versions, each broker understands",
		Long: `Show which requests, in which versions, each broker of a cluster understands, and which of them a client of
Kafka 4.4 would use, as kafka-broker-api-versions.sh does.`,
		Example:     `  ottla broker-api-versions --bootstrap-server localhost:9092`,
		Annotations: map[string]string{dialectKey: string(jopt)},
		RunE:        func(cmd *cobra.Command, args []string) error { return brokerAPIVersions(cmd.Context(), s, cmd) },
	}
	bootstrapFlags(cmd)
	versionFlag(cmd)
	return cmd
}

// versionsTimeout is how long this tool waits for an answer; others have more patience, default.api.timeout.ms.
const versionsTimeout = 5 * time.Second

// unknownNodes are brokers of which only the address is known, as Kafka prints them.
func unknownNodes(addresses []string) (nodes []string) {
	for _, address := range addresses {
		nodes = append(nodes, address+" (id: -1 rack: null isFenced: false)")
	}
	return nodes
}

func brokerAPIVersions(ctx context.Context, s *streams, cmd *cobra.Command) error {
	if printedVersion(s, cmd) {
		return nil
	}
	bootstrap, ok := s.bootstrap(cmd)
	if !ok {
		return requireFlags(cmd, "bootstrap-server")
	}
	props, err := commandConfig(cmd)
	if err != nil {
		return err
	}
	a, err := dialAdmin(s, bootstrap, props)
	if err != nil {
		return err
	}
	defer a.Close()
	a.timeout = min(a.timeout, versionsTimeout)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := a.ask(ctx, "metadata", req)
	if err != nil {
		return fmt.Errorf("Request METADATA failed on brokers [%s]", strings.Join(unknownNodes(a.seeds), ", ")) //nolint:staticcheck // Kafka's words
	}
	brokers := answer.(*kmsg.MetadataResponse).Brokers
	slices.SortFunc(brokers, func(x, y kmsg.MetadataResponseBroker) int { return int(x.NodeID) - int(y.NodeID) })
	for _, b := range brokers {
		rack := "null"
		if b.Rack != nil {
			rack = *b.Rack
		}
		node := fmt.Sprintf("%s:%d (id: %d rack: %s isFenced: false)", b.Host, b.Port, b.NodeID, rack)
		keys, err := apiVersionsOf(ctx, s, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), props)
		if err != nil {
			fmt.Fprintf(s.out, "%s -> ERROR: %v\n", node, err)
			continue
		}
		fmt.Fprintf(s.out, "%s -> (\n\t%s\n)\n", node, strings.Join(apiVersionLines(keys), ",\n\t"))
	}
	return nil
}

func apiVersionsOf(ctx context.Context, s *streams, address string, props map[string]string) ([]kmsg.ApiVersionsResponseApiKey, error) {
	a, err := dialAdmin(s, address, props)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "ottla", ottlaVersion()
	answer, err := a.ask(ctx, "apiVersions", req)
	if err != nil {
		return nil, err
	}
	versions := answer.(*kmsg.ApiVersionsResponse)
	return versions.ApiKeys, answerError(versions.ErrorCode, nil)
}

// apiVersionLines are the lines of one broker, by key: what it has, and what a client of Kafka 4.4 knows and it
// does not have.
func apiVersionLines(keys []kmsg.ApiVersionsResponseApiKey) []string {
	lines := map[int16]string{}
	for _, k := range keys {
		span := strconv.Itoa(int(k.MinVersion))
		if k.MaxVersion != k.MinVersion {
			span += " to " + strconv.Itoa(int(k.MaxVersion))
		}
		api := protocol.Lookup(k.ApiKey)
		if api == nil {
			lines[k.ApiKey] = fmt.Sprintf("UNKNOWN(%d): %s", k.ApiKey, span)
			continue
		}
		usable := fmt.Sprintf("[usable: %d]", min(api.Max, k.MaxVersion))
		switch {
		case api.Max < k.MinVersion:
			usable = "[unusable: node too new]"
		case k.MaxVersion < api.Min:
			usable = "[unusable: node too old]"
		}
		lines[k.ApiKey] = fmt.Sprintf("%s(%d): %s %s", api.Name, k.ApiKey, span, usable)
	}
	for _, api := range protocol.APIs {
		if lines[api.Key] == "" && api.On&protocol.OnBroker != 0 {
			lines[api.Key] = fmt.Sprintf("%s(%d): UNSUPPORTED", api.Name, api.Key)
		}
	}
	ordered := make([]int16, 0, len(lines))
	for k := range lines {
		ordered = append(ordered, k)
	}
	slices.Sort(ordered)
	var out []string
	for _, k := range ordered {
		out = append(out, lines[k])
	}
	return out
}
