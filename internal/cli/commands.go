package cli

import (
	"github.com/spf13/cobra"
)

// commands is the table of tools: ottla's name, the script of Kafka that it stands in for, and what makes it.
// The order is that of the help page.
var commands = []struct {
	name   string
	script string
	group  string
	make   func(s *streams) *cobra.Command
}{
	{"server", "kafka-server-start", groupServer, newServer},                                 // server.go
	{"storage", "kafka-storage", groupServer, newStorage},                                    // storage.go
	{"topics", "kafka-topics", groupCluster, newTopics},                                      // topics.go
	{"metadata-quorum", "kafka-metadata-quorum", groupCluster, newMetadataQuorum},            // metadata_quorum.go
	{"broker-api-versions", "kafka-broker-api-versions", groupCluster, newBrokerAPIVersions}, // broker_api_versions.go
	{"console-producer", "kafka-console-producer", groupRecords, newConsoleProducer},         // console_producer.go
	{"console-consumer", "kafka-console-consumer", groupRecords, newConsoleConsumer},         // console_consumer.go
	{"metadata-shell", "kafka-metadata-shell", groupFiles, newMetadataShell},                 // metadata_shell.go
	{"dump-log", "kafka-dump-log", groupFiles, newDumpLog},                                   // dump_log.go
	{"version", "", groupOther, newVersion},                                                  // version.go
}

const (
	groupServer  = "server"
	groupCluster = "cluster"
	groupRecords = "records"
	groupFiles   = "files"
	groupOther   = "other"
)

// dialect is how a tool of Kafka reads its arguments.
type dialect string

const (
	dialectKey         = "dialect"
	jopt       dialect = "joptsimple" // -topic means --topic, --codec may lack its value
	argparse   dialect = "argparse4j" // subcommands; errors as "kafka-storage: error: …"
	plainCobra dialect = ""
	scriptKey          = "script"
)

func dialectOf(cmd *cobra.Command) dialect {
	for c := cmd; c != nil; c = c.Parent() {
		if d, ok := c.Annotations[dialectKey]; ok {
			return dialect(d)
		}
	}
	return plainCobra
}

// kafkaName is the script a command stands in for, as Kafka's own error lines begin.
func kafkaName(cmd *cobra.Command) string {
	for c := cmd; c != nil; c = c.Parent() {
		if name := c.Annotations[scriptKey]; name != "" {
			return name
		}
	}
	return cmd.CommandPath()
}

func newRoot(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "ottla",
		Short: "Apache Kafka 4.4 as one small binary: server and tools",
		Long: `Ottla is a Kafka 4.4 cluster as one small binary: the server, and the tools that come with Kafka.

Start a broker in an empty folder, then talk to it:

  ottla server
  ottla topics --create --topic greetings
  echo hello | ottla console-producer --topic greetings
  ottla console-consumer --topic greetings --from-beginning --max-messages 1

Each tool takes the flags of Kafka's tool of the same name and prints what that one prints. Called through a
link named like Kafka's script (kafka-topics.sh), ottla acts as that tool. Tools work against any Kafka cluster;
without --bootstrap-server they talk to localhost:9092.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddGroup(
		&cobra.Group{ID: groupServer, Title: "Run a node:"},
		&cobra.Group{ID: groupCluster, Title: "Look at a cluster and change it:"},
		&cobra.Group{ID: groupRecords, Title: "Write and read records:"},
		&cobra.Group{ID: groupFiles, Title: "Look into files:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(newHelp(root))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	for _, c := range commands {
		cmd := c.make(s)
		cmd.GroupID = c.group
		if cmd.Annotations == nil {
			cmd.Annotations = map[string]string{}
		}
		cmd.Annotations[scriptKey] = c.script
		cmd.Flags().SortFlags = true
		root.AddCommand(cmd)
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	prepare(s, root)
	return root
}

// prepare gives a tool and its subcommands what all of them share: error texts of its dialect, help that goes where
// Kafka's goes, and completions.
func prepare(s *streams, cmd *cobra.Command) {
	nameValues(cmd.Flags())
	nameValues(cmd.PersistentFlags())
	if check := cmd.Args; check != nil && dialectOf(cmd) == plainCobra {
		cmd.Args = func(c *cobra.Command, args []string) error { return asUsage(check(c, args)) }
	}
	if dialectOf(cmd) == jopt { // those have no arguments but flags
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.SetUsageFunc(func(c *cobra.Command) error { return printUsage(c.OutOrStderr(), c) })
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(dialectOf(c), err) })
	for _, sub := range cmd.Commands() {
		prepare(s, sub)
	}
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		s.helped = true
		if names := c.Flags().Args(); c.HasSubCommands() && len(names) > 0 {
			s.helpError = c.ValidateArgs(names)
			return
		}
		if s.asKafka && dialectOf(c) == jopt {
			c.SetOut(s.err)
		}
		help(c, args)
	})
}
