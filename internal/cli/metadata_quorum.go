package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/uuid"
)

func newMetadataQuorum(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metadata-quorum",
		Short: "Show the controllers: who leads, who follows, how far",
		Long: `Show the quorum of controllers that keeps the cluster's metadata, as kafka-metadata-quorum.sh does:
who leads it, since which epoch, and how far each voter and each broker has read.`,
		Example: `  ottla metadata-quorum describe --status
  ottla metadata-quorum describe --replication --human-readable
  ottla metadata-quorum --bootstrap-controller localhost:9093 describe --status`,
		Annotations: map[string]string{dialectKey: string(argparse)},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("invalid choice: '%s' (choose from 'describe')", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return usageError{"too few arguments"} },
	}
	p := cmd.PersistentFlags()
	p.String("bootstrap-server", "", "brokers to ask, as `host:port[,host:port]` (default "+defaultBootstrap+
		"; one of the two is required when called as Kafka's script)")
	p.String("bootstrap-controller", "", "controllers to ask instead, as `host:port[,host:port]`")
	p.String("command-config", "", "a properties `file` with settings of the client")
	describe := &cobra.Command{
		Use:   "describe (--status | --replication [--human-readable])",
		Short: "Show the state of the quorum",
		Args:  argparseNoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return describeQuorum(cmd.Context(), s, cmd) },
	}
	f := describe.Flags()
	f.Bool("status", false, "a summary: leader, epoch, high watermark, voters, observers")
	f.Bool("replication", false, "a table: the log end and the lag of each voter and observer")
	f.Bool("human-readable", false, "with --replication: times as \"123 ms ago\"")
	cmd.AddCommand(describe)
	return cmd
}

func describeQuorum(ctx context.Context, s *streams, cmd *cobra.Command) error {
	server, _ := cmd.Flags().GetString("bootstrap-server")
	controller, _ := cmd.Flags().GetString("bootstrap-controller")
	switch {
	case server != "" && controller != "":
		return usageError{"argument --bootstrap-controller: not allowed with argument --bootstrap-server"}
	case server == "" && controller == "" && s.asKafka:
		return usageError{"one of the arguments --bootstrap-server --bootstrap-controller is required"}
	case server == "" && controller == "":
		server = defaultBootstrap
	}
	if file, _ := cmd.Flags().GetString("command-config"); file != "" {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("Properties file %s does not exists!", file) //nolint:staticcheck // Kafka's words
		}
	}
	props, err := commandConfig(cmd)
	if err != nil {
		return err
	}
	status, replication := given(cmd, "status"), given(cmd, "replication")
	human, _ := cmd.Flags().GetBool("human-readable")
	switch {
	case status && replication:
		return errors.New("Only one of --status or --replication should be specified with describe sub-command") //nolint:staticcheck // Kafka's words
	case status && human:
		return errors.New("The option --human-readable is only supported along with --replication") //nolint:staticcheck // Kafka's words
	case !status && !replication:
		return errors.New("One of --status or --replication must be specified with describe sub-command") //nolint:staticcheck // Kafka's words
	}
	q := &quorumView{}
	if err := q.load(ctx, s, server, controller, props); err != nil {
		return err
	}
	if status {
		return q.printStatus(s.out)
	}
	return q.printReplication(s.out, human, time.Now().UnixMilli())
}

// quorumView is what one run of the tool learned.
type quorumView struct {
	clusterID     string
	leader        int32
	epoch         int32
	highWatermark int64
	voters        []quorumReplica
	observers     []quorumReplica
	endpoints     map[int32][]string // by node, NAME://host:port
}

type quorumReplica struct {
	id                        int32
	dir                       uuid.UUID
	logEnd                    int64
	lastFetch, lastCaughtUpMs int64 // -1 when the leader does not know
}

// load asks the cluster. Controllers are asked for the active one first: only that one knows.
func (q *quorumView) load(ctx context.Context, s *streams, server, controller string, props map[string]string) error {
	bootstrap := server
	if controller != "" {
		bootstrap = controller
	}
	a, err := dialAdmin(s, bootstrap, props)
	if err != nil {
		return err
	}
	defer func() { a.Close() }()
	req := kmsg.NewPtrDescribeClusterRequest()
	if controller != "" {
		req.EndpointType = 2
	}
	answer, err := a.ask(ctx, "describeCluster", req)
	if err != nil {
		return err
	}
	cluster := answer.(*kmsg.DescribeClusterResponse)
	if err := answerError(cluster.ErrorCode, cluster.ErrorMessage); err != nil {
		return err
	}
	q.clusterID = cluster.ClusterID
	if controller != "" {
		for _, b := range cluster.Brokers {
			address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			if b.NodeID != cluster.ControllerID || slices.Equal(a.seeds, []string{address}) {
				continue
			}
			a.Close()
			if a, err = dialAdmin(s, address, props); err != nil {
				return err
			}
		}
	}
	quorumReq := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorumReq.Topics = append(quorumReq.Topics, rt)
	answer, err = a.ask(ctx, "describeMetadataQuorum", quorumReq)
	if err != nil {
		return err
	}
	return q.read(answer.(*kmsg.DescribeQuorumResponse))
}

func (q *quorumView) read(answer *kmsg.DescribeQuorumResponse) error {
	if err := answerError(answer.ErrorCode, answer.ErrorMessage); err != nil {
		return err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return fmt.Errorf("DescribeMetadataQuorum received %d topics when 1 was expected", len(answer.Topics))
	}
	p := answer.Topics[0].Partitions[0]
	if err := answerError(p.ErrorCode, p.ErrorMessage); err != nil {
		return err
	}
	q.leader, q.epoch, q.highWatermark = p.LeaderID, p.LeaderEpoch, p.HighWatermark
	for _, v := range p.CurrentVoters {
		q.voters = append(q.voters, quorumReplica{v.ReplicaID, v.ReplicaDirectoryID, v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp})
	}
	for _, v := range p.Observers {
		q.observers = append(q.observers, quorumReplica{v.ReplicaID, v.ReplicaDirectoryID, v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp})
	}
	q.endpoints = map[int32][]string{}
	for _, n := range answer.Nodes {
		for _, l := range n.Listeners {
			q.endpoints[n.NodeID] = append(q.endpoints[n.NodeID],
				fmt.Sprintf("%s://%s", l.Name, net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))))
		}
	}
	return nil
}

// leaderReplica is the leader's row among the voters.
func (q *quorumView) leaderReplica() (quorumReplica, error) {
	for _, v := range q.voters {
		if v.id == q.leader {
			return v, nil
		}
	}
	return quorumReplica{}, fmt.Errorf("leader %d of the metadata quorum is not among its voters", q.leader)
}

func (q *quorumView) printStatus(w io.Writer) error {
	leader, err := q.leaderReplica()
	if err != nil {
		return err
	}
	slowest := slices.MinFunc(q.voters, func(a, b quorumReplica) int { return cmp.Compare(a.logEnd, b.logEnd) })
	lagMs := int64(-1)
	switch {
	case slowest.id == leader.id && slowest.dir == leader.dir:
		lagMs = 0
	case leader.lastCaughtUpMs >= 0 && slowest.lastCaughtUpMs >= 0:
		lagMs = leader.lastCaughtUpMs - slowest.lastCaughtUpMs
	}
	_, err = fmt.Fprintf(w, "ClusterId:              %s\n"+
		"LeaderId:               %d\n"+
		"LeaderEpoch:            %d\n"+
		"HighWatermark:          %d\n"+
		"MaxFollowerLag:         %d\n"+
		"MaxFollowerLagTimeMs:   %d\n"+
		"CurrentVoters:          %s\n"+
		"CurrentObservers:       %s\n",
		q.clusterID, q.leader, q.epoch, q.highWatermark, leader.logEnd-slowest.logEnd, lagMs,
		q.replicaList(q.voters), q.replicaList(q.observers))
	return err
}

// replicaList is a list of replicas in the JSON-like form of Kafka's tool.
func (q *quorumView) replicaList(replicas []quorumReplica) string {
	var items []string
	for _, r := range replicas {
		dir := "null"
		if r.dir != uuid.Zero {
			dir = `"` + r.dir.String() + `"`
		}
		item := fmt.Sprintf(`{"id": %d, "directoryId": %s`, r.id, dir)
		if ends := q.endpoints[r.id]; len(ends) > 0 {
			item += `, "endpoints": ["` + strings.Join(ends, `", "`) + `"]`
		}
		items = append(items, item+"}")
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func (q *quorumView) printReplication(w io.Writer, human bool, nowMs int64) error {
	leader, err := q.leaderReplica()
	if err != nil {
		return err
	}
	rows := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	add := func(r quorumReplica, status string) error {
		fetched, err := quorumTime(r.lastFetch, "last fetch", human, nowMs)
		if err != nil {
			return err
		}
		caught, err := quorumTime(r.lastCaughtUpMs, "last caught up", human, nowMs)
		if err != nil {
			return err
		}
		rows = append(rows, []string{strconv.Itoa(int(r.id)), r.dir.String(), strconv.FormatInt(r.logEnd, 10),
			strconv.FormatInt(leader.logEnd-r.logEnd, 10), fetched, caught, status})
		return nil
	}
	if err := add(leader, "Leader"); err != nil {
		return err
	}
	for _, v := range q.voters {
		if v.id != q.leader {
			if err := add(v, "Follower"); err != nil {
				return err
			}
		}
	}
	for _, o := range q.observers {
		if err := add(o, "Observer"); err != nil {
			return err
		}
	}
	return printTable(w, rows)
}

// quorumTime is a time of the leader's clock in milliseconds, as a number or as how long ago that was.
func quorumTime(ms int64, what string, human bool, nowMs int64) (string, error) {
	if ms == -1 || !human {
		return strconv.FormatInt(ms, 10), nil
	}
	if ms <= 0 || ms > nowMs {
		return "", fmt.Errorf("Error while computing relative time, possible drift in system clock.\n"+ //nolint:staticcheck // Kafka's words
			"Current timestamp is %d, %s timestamp is %d", nowMs, what, ms)
	}
	return fmt.Sprintf("%d ms ago", nowMs-ms), nil
}

// printTable prints rows as Kafka's tools do: columns padded to the widest cell, each followed by a tab.
func printTable(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&out, "%-*s\t", widths[i], cell)
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}
