package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	envsim "github.com/ottla-io/ottla/internal/env/sim"
)

// play is one run: lives of a node that end in one of three ways, and a check after each.
func play(w *World, lives int) error { return playWith(NewWorkload(w), lives) }

func playWith(l *Workload, lives int) error {
	w := l.w
	powerCut := false
	for life := range lives {
		if err := w.StartAndWait(); err != nil {
			return fmt.Errorf("invariant 7: life %d: %w", life, err)
		}
		if err := l.Check(powerCut); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		ending := w.Crashes.IntN(4)
		if ending == 0 {
			w.machine.CrashAfter(w.Crashes.IntN(400))
		}
		for range 10 + w.Workload.IntN(20) {
			if !w.Running() {
				break
			}
			l.Step()
		}
		powerCut = false
		switch {
		case !w.machine.Alive(): // in the middle of something
			powerCut = true
		case ending <= 1:
			w.machine.Crash()
			powerCut = true
		case ending == 2:
			w.machine.Kill()
		default:
			if err := w.StopInOrder(); err != nil {
				return err
			}
			if !w.machine.Alive() {
				powerCut = true
			} else {
				w.machine.Crash() // what was closed in order survives
			}
		}
		w.Restart()
	}
	if err := w.StartAndWait(); err != nil {
		return fmt.Errorf("invariant 7: %w", err)
	}
	return l.Check(powerCut)
}

// disks lose names, tear pages and garble what was not synced; the network is late and breaks.
func faults() envsim.Options {
	return envsim.Options{
		Disk:    envsim.DiskFaults{Torn: 0.3, Garbled: 0.2},
		Network: envsim.NetworkFaults{Late: 0.01, LateBy: 100 * time.Millisecond, Lose: 0.005, Reset: 0.002},
	}
}

// TestSeeds plays many runs. OTTLA_SIM_SEEDS says how many, OTTLA_SIM_FIRST which is the first; 1,000 take about two minutes.
func TestSeeds(t *testing.T) {
	first, n := number(t, "OTTLA_SIM_FIRST", 1), number(t, "OTTLA_SIM_SEEDS", 60)
	records, commits := 0, 0
	for seed := first; seed < first+n; seed++ {
		w, err := New(uint64(seed), Options{Env: faults()})
		l := NewWorkload(w)
		if err == nil {
			err = playWith(l, 4)
		}
		if err != nil {
			w.Report(t.Output(), 80)
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, topic := range l.topics {
			records += len(topic.acked)
		}
		if l.committed > 0 {
			commits++
		}
	}
	t.Logf("%d records acknowledged and found again, in %d runs a group's offset too", records, commits)
	if records < 10*n || commits == 0 {
		t.Error("hardly anything was written: the workload does not work")
	}
}

func number(t *testing.T, name string, dflt int) int {
	s := os.Getenv(name)
	if s == "" {
		return dflt
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// One seed gives one run.
func TestRunsRepeat(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		var hashes [2]uint64
		var events [2]uint64
		for i := range hashes {
			w, err := New(seed, Options{Env: faults()})
			if err == nil {
				err = play(w, 2)
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			hashes[i], events[i] = w.Hash(), w.Events()
		}
		if hashes[0] != hashes[1] {
			t.Errorf("seed %d: two runs have the hashes %x (%d events) and %x (%d events)", seed, hashes[0], events[0], hashes[1], events[1])
		}
	}
}

// lazyFS is a disk that forgets to sync.
type lazyFS struct{ env.FS }

type lazyFile struct{ env.File }

func (lazyFile) Sync() error { return nil }

func (f lazyFS) Open(name string, flag int, perm os.FileMode) (env.File, error) {
	file, err := f.FS.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return lazyFile{file}, nil
}

// A build that does not sync is found out.
func TestMissingSyncsAreFound(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		w, err := New(seed, Options{Env: faults(), FS: func(fs env.FS) env.FS { return lazyFS{fs} }})
		if err != nil {
			t.Fatal(err)
		}
		if err := play(w, 4); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("twenty runs without a single sync were found to be in order")
}
