// Command replication runs a controller and three brokers of Ottla, then of Apache Kafka 4.4.0, under one load after the other, and prints
// what replication costs and how long it stands still when a broker dies. bench/README.md says what the numbers mean.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ottla-io/ottla/bench/beside"
)

func main() {
	libs := flag.String("kafka-libs", os.Getenv("KAFKA_LIBS"), "folder with the jars of Apache Kafka 4.4.0")
	only := flag.String("only", "", "ottla or kafka: measure one of them")
	s := size{}
	flag.IntVar(&s.megabytes, "mb", 1000, "MB to produce")
	flag.IntVar(&s.seconds, "seconds", 20, "how long records are sent at a fixed rate")
	flag.IntVar(&s.partitions, "partitions", 1000, "how many partitions the broker has that is killed and restarted")
	flag.Parse()
	if *libs == "" && *only != "ottla" {
		fmt.Fprintln(os.Stderr, "replication: set KAFKA_LIBS or -kafka-libs: export KAFKA_LIBS=$(test/interop/libs.sh)")
		os.Exit(1)
	}
	if err := run(*libs, *only, s); err != nil {
		fmt.Fprintln(os.Stderr, "replication:", err)
		os.Exit(1)
	}
}

// size is how much is measured.
type size struct{ megabytes, seconds, partitions int }

// figure is one number about each kind.
type figure struct {
	name, unit string
	limit      float64 // of ours / Kafka's, where less is better; 0: none
	values     []float64
}

// figures are the numbers in the order in which they were first measured.
type figures []*figure

func (f *figures) add(name, unit string, limit, value float64) {
	fmt.Fprintf(os.Stderr, "  %-60s %10.2f %s\n", name, value, unit)
	for _, x := range *f {
		if x.name == name {
			x.values = append(x.values, value)
			return
		}
	}
	*f = append(*f, &figure{name, unit, limit, []float64{value}})
}

func (f *figures) print() {
	for _, x := range *f {
		fmt.Printf("%-60s", x.name)
		for _, v := range x.values {
			fmt.Printf(" %10.2f", v)
		}
		fmt.Printf(" %-6s", x.unit)
		if len(x.values) == 2 {
			ratio := x.values[0] / x.values[1]
			fmt.Printf(" ratio %.3f", ratio)
			switch {
			case x.limit > 0 && ratio <= x.limit:
				fmt.Printf(" (limit %.2f reached)", x.limit)
			case x.limit > 0:
				fmt.Printf(" (limit %.2f MISSED)", x.limit)
			}
		}
		fmt.Println()
	}
}

func run(libs, only string, s size) error {
	dir, err := os.MkdirTemp("", "ottla-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var kinds []*beside.Kind
	if only != "kafka" {
		k, err := beside.Ottla(dir)
		if err != nil {
			return err
		}
		kinds = append(kinds, k)
	}
	if only != "ottla" {
		kinds = append(kinds, beside.Kafka(dir, libs))
	}
	var all figures
	for _, k := range kinds {
		fmt.Fprintln(os.Stderr, k.Name)
		if err := measure(dir, k, s, &all); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	all.print()
	return nil
}

// measure runs a cluster of one kind through everything.
func measure(dir string, k *beside.Kind, s size, out *figures) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := start(ctx, dir, k)
	if err != nil {
		return err
	}
	defer c.stop()
	for _, step := range []func(context.Context, size, *figures) error{c.throughput, c.latency, c.gap, c.restart, c.replace, c.idle} {
		if err := step(ctx, s, out); err != nil {
			return err
		}
	}
	return nil
}
