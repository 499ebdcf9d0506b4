// Command controllers runs three controllers of Ottla, then three of Apache Kafka 4.4.0, with pretended brokers - registered and
// heartbeating over the wire, without a process of their own - and grows the cluster to many partitions, so that only controllers work.
// bench/README.md says what the numbers mean.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	partitions := flag.Int("partitions", 200_000, "how many partitions the cluster grows to, of three replicas each")
	libs := flag.String("kafka-libs", os.Getenv("KAFKA_LIBS"), "folder with the jars of Apache Kafka 4.4.0")
	only := flag.String("only", "", "ottla or kafka: measure one of them")
	flag.Parse()
	if *libs == "" && *only != "ottla" {
		fmt.Fprintln(os.Stderr, "controllers: set KAFKA_LIBS or -kafka-libs: export KAFKA_LIBS=$(test/interop/libs.sh)")
		os.Exit(1)
	}
	if err := run(*libs, *only, *partitions); err != nil {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		os.Exit(1)
	}
}

// result is what was measured of one kind.
type result struct {
	rate               float64 // partitions created a second
	small, smallAtSize float64 // ms: one topic of one partition, median of 20
	held               float64 // ms: the longest answer while a broker gets fenced and comes back
	failover           float64 // s
	restart            float64 // s: from the start of all three to the next change
	memory             float64 // MB, of the active controller
}

func run(libs, only string, partitions int) error {
	dir, err := os.MkdirTemp("", "ottla-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kinds := []kind{}
	if only != "kafka" {
		k, err := newOttla(dir)
		if err != nil {
			return err
		}
		kinds = append(kinds, k)
	}
	if only != "ottla" {
		kinds = append(kinds, newKafka(dir, libs))
	}
	var results []result
	for _, k := range kinds {
		r, err := k.measure(dir, partitions)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		results = append(results, r)
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	fmt.Printf("%d partitions of three replicas, %v\n", partitions, names)
	show := func(name, unit string, of func(result) float64) {
		fmt.Printf("%-58s", name)
		for _, r := range results {
			fmt.Printf(" %10.2f", of(r))
		}
		fmt.Printf(" %s", unit)
		if len(results) == 2 {
			fmt.Printf(" ratio %.3f", of(results[0])/of(results[1]))
		}
		fmt.Println()
	}
	show("partitions created", "1/s", func(r result) float64 { return r.rate })
	show("one small change at 1,000 partitions", "ms", func(r result) float64 { return r.small })
	show("one small change at full size", "ms", func(r result) float64 { return r.smallAtSize })
	show("longest answer while a broker is fenced", "ms", func(r result) float64 { return r.held })
	show("kill -9 of the active controller to the next change", "s", func(r result) float64 { return r.failover })
	show("start of all three to the next change", "s", func(r result) float64 { return r.restart })
	show("resident memory of the active controller", "MB", func(r result) float64 { return r.memory })
	return nil
}

// measure runs a cluster of one kind through everything.
func (k kind) measure(dir string, partitions int) (r result, err error) {
	c, err := k.start(dir)
	if err != nil {
		return r, err
	}
	defer c.stop()
	if err := c.register(3); err != nil {
		return r, err
	}
	beats := c.heartbeats()
	defer beats.end()
	if _, err := c.grow(1000); err != nil {
		return r, err
	}
	if r.small, err = c.small(20); err != nil {
		return r, err
	}
	took, err := c.grow(partitions - 1000)
	if err != nil {
		return r, err
	}
	r.rate = float64(partitions-1000) / took.Seconds()
	if r.smallAtSize, err = c.small(20); err != nil {
		return r, err
	}
	if r.memory, err = c.leader().residentMB(); err != nil {
		return r, err
	}
	beats.silence(3)
	held, err := c.probe(20 * time.Second)
	if err != nil {
		return r, err
	}
	beats.silence(0)
	back, err := c.probe(10 * time.Second)
	if err != nil {
		return r, err
	}
	r.held = float64(max(held, back).Microseconds()) / 1000
	if r.failover, err = c.failover(); err != nil {
		return r, err
	}
	r.restart, err = c.restart()
	return r, err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

var errNoLeader = errors.New("no controller is active")
