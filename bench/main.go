// Command bench runs Ottla and Apache Kafka 4.4.0 side by side on this machine and prints ratios: start-up, memory, processor time per
// GB produced and consumed, throughput, the time of one topic creation and of a tool. bench/README.md says what it means.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often each measurement is repeated, the servers taking turns; the median counts")
	megabytes := flag.Int("mb", 512, "MB to produce and to consume in each round")
	libs := flag.String("kafka-libs", os.Getenv("KAFKA_LIBS"), "folder with the jars of Apache Kafka 4.4.0")
	flag.Parse()
	if *libs == "" {
		fmt.Fprintln(os.Stderr, "bench: set KAFKA_LIBS or -kafka-libs: export KAFKA_LIBS=$(test/interop/libs.sh)")
		os.Exit(1)
	}
	if err := run(*libs, *rounds, *megabytes); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure is one number about both servers.
type measure struct {
	name, unit   string
	limit        float64 // of ours / Kafka's, where less is better; 0: none
	ottla, kafka []float64
}

func (m *measure) add(s *server, v float64) {
	if s.name == "Ottla" {
		m.ottla = append(m.ottla, v)
	} else {
		m.kafka = append(m.kafka, v)
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func (m *measure) print() {
	a, b := median(m.ottla), median(m.kafka)
	ratio, limit, verdict := a/b, "", ""
	if m.limit > 0 {
		limit, verdict = fmt.Sprintf("%.2f", m.limit), "reached"
		if ratio > m.limit {
			verdict = "MISSED"
		}
	}
	fmt.Printf("%-44s %10.3f %10.3f %-8s %7.3f %6s %s\n", m.name, a, b, m.unit, ratio, limit, verdict)
}

func run(libs string, rounds, megabytes int) error {
	dir, err := os.MkdirTemp("", "ottla-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := build(dir)
	if err != nil {
		return err
	}
	startup := &measure{name: "start to first Metadata answer", unit: "s", limit: 0.1}
	idle := &measure{name: "resident memory, idle", unit: "MB", limit: 1.0 / 6}
	after := &measure{name: "resident memory, after the load", unit: "MB"}
	create := &measure{name: "one topic created", unit: "ms", limit: 0.2}
	tool := &measure{name: "topics --list", unit: "s"}
	loads := loadMeasures()
	for round := range rounds {
		for _, s := range []*server{newOttla(dir, binary), newKafka(dir, libs)} {
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, s.name)
			if err := s.run(megabytes, startup, idle, after, create, tool, loads); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	fmt.Printf("%-44s %10s %10s %-8s %7s %6s\n", "", "Ottla", "Kafka", "", "ratio", "limit")
	for _, m := range []*measure{startup, idle, after, create, tool} {
		m.print()
	}
	for _, l := range loads {
		for _, m := range []*measure{l.produceCPU, l.consumeCPU, l.produceSpeed, l.consumeSpeed} {
			m.print()
		}
	}
	return nil
}

// run measures everything about a server, from its start to its end.
func (s *server) run(megabytes int, startup, idle, after, create, tool *measure, loads []*load) error {
	took, err := s.start()
	if err != nil {
		return err
	}
	defer s.stop()
	startup.add(s, took.Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := s.settle(); err != nil {
		return err
	}
	rss, err := s.residentMB()
	if err != nil {
		return err
	}
	idle.add(s, rss)
	ms, err := createTopics(ctx, s, 40)
	if err != nil {
		return err
	}
	create.add(s, ms)
	d, err := s.list()
	if err != nil {
		return err
	}
	tool.add(s, d.Seconds())
	for _, l := range loads {
		if err := l.run(ctx, s, megabytes); err != nil {
			return err
		}
	}
	rss, err = s.residentMB()
	after.add(s, rss)
	return err
}

// settle waits until a server that has just started has no more to do: until it used less than a hundredth of a processor for a second.
func (s *server) settle() error {
	last, err := s.cpu()
	for range 20 {
		if err != nil {
			return err
		}
		time.Sleep(time.Second) // the interval that is measured
		var now time.Duration
		now, err = s.cpu()
		if now-last < 10*time.Millisecond {
			return err
		}
		last = now
	}
	fmt.Fprintf(os.Stderr, "%s is still at work 20 s after its start: its idle memory is measured all the same\n", s.name)
	return err
}
