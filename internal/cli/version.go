package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// kafkaVersion is the version of Kafka that the tools stand in for, and that --version prints.
const kafkaVersion = "4.4.0"

// ottlaVersion is the version of this build: a module version, or "devel" with the commit.
func ottlaVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func newVersion(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of Ottla and of the Kafka it stands in for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			fmt.Fprintln(s.out, versionText())
			return nil
		},
	}
}

func versionText() string {
	return fmt.Sprintf("ottla %s (Apache Kafka %s, %s %s/%s)", ottlaVersion(), kafkaVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
