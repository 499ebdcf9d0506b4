// Command ottla is a Kafka 4.4 cluster as one static binary: server and tools.
package main

import (
	"os"

	"github.com/ottla-io/ottla/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
