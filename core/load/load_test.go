package load

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseStat(t *testing.T) {
	const real = "cpu  1000 20 300 8000 500 6 70 8 900 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n"
	if idle, total, err := parseStat(real); err != nil || idle != 8500 || total != 9904 {
		t.Errorf("%v of %v, %v", idle, total, err)
	}
	for _, text := range []string{"", "\n", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5", "cpu 1 2 3 x 5", "cpu 1 2 3 -4 5", "cpu 1 2 3 99999999999999999999 5"} {
		if _, _, err := parseStat(text); !errors.Is(err, errNoTimes) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseSelfStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 250 130 15 16 17"
	for _, name := range []string{"(server)", "(a b)", "(a) b) 1 2 3)", "((()"} {
		if s, err := parseSelfStat("77 " + name + rest); err != nil || s != 3.8 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	for _, text := range []string{"", "77 server" + rest, "77 (server) S 1 2", "77 (server) S 1 2 3 4 5 6 7 8 9 10 x 130", "77 (server) S 1 2 3 4 5 6 7 8 9 10 -1 130"} {
		if _, err := parseSelfStat(text); !errors.Is(err, errNoTimes) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("cpu  1 2 3 4 5 6 7 8 9 10")
	f.Add("77 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 130 15")
	f.Fuzz(func(t *testing.T, text string) {
		if idle, total, err := parseStat(text); err == nil && (idle < 0 || idle > total) {
			t.Errorf("%q: %v of %v", text, idle, total)
		}
		if s, err := parseSelfStat(text); err == nil && !(s >= 0) {
			t.Errorf("%q: %v", text, s)
		}
	})
}

// The scarcer one counts: the machine, or the process's part of it.
func TestIdleCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		procs := float64(runtime.GOMAXPROCS(0))
		now, failing := times{}, false
		idle := newSampler(newCPU(func() (times, error) {
			now.at = time.Now()
			if failing {
				return times{}, errNoTimes
			}
			return now, nil
		}).idle, cpuEvery, cpuHalfLife).spare
		pass := func(machineIdle, processUsed float64, d time.Duration) float64 {
			for range d / cpuEvery {
				time.Sleep(cpuEvery)
				now.idle += machineIdle * cpuEvery.Seconds()
				now.total += cpuEvery.Seconds()
				now.process += processUsed * procs * cpuEvery.Seconds()
				idle()
			}
			return idle()
		}
		if got := idle(); got != 0 {
			t.Errorf("after one sample it is %v, want 0: nothing is known", got)
		}
		for _, c := range []struct {
			what          string
			machine, used float64
			want          float64
		}{
			{"an idle machine", 1, 0, 1},
			{"a machine that others use", 0.25, 0, 0.25},
			{"a process at its quota", 0.9, 1, 0},
			{"both", 0.5, 0.25, 0.5},
		} {
			if got := pass(c.machine, c.used, 20*time.Second); math.Abs(got-c.want) > 0.001 {
				t.Errorf("%s: %v, want %v", c.what, got, c.want)
			}
		}
		pass(1, 0, 20*time.Second)
		if got := pass(0, 0, cpuHalfLife); math.Abs(got-0.5) > 0.001 {
			t.Errorf("a half-life after it became busy, it is %v, want 0.5", got)
		}
		failing = true
		if got := pass(1, 0, cpuEvery); got != 0 {
			t.Errorf("unreadable, it is %v, want 0", got)
		}
		failing = false
		if got := pass(1, 0, 20*time.Second); got < 0.999 {
			t.Errorf("readable again, it is %v, want 1", got)
		}
		now = times{} // the counters went back
		if got := pass(1, 0, cpuEvery); got != 0 {
			t.Errorf("counters that went back say %v, want 0", got)
		}
	})
}

// A process that uses all it may leaves nothing idle.
func TestIdleCPUOfThisMachine(t *testing.T) {
	c := newCPU(readTimes)
	if _, ok := c.idle(); ok {
		t.Fatal("one sample is a share")
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !stop.Load() {
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	deadline := time.Now().Add(20 * time.Second)
	for {
		time.Sleep(200 * time.Millisecond) // what is measured is time that passes
		got, ok := c.idle()
		if ok && got < 0.5 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("all CPUs are busy, and %v is idle, %v", got, ok)
		}
	}
}

func TestSmooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value, calls := 1.0, 0
		smooth := Smooth(func() float64 { calls++; return value }, 8*time.Second)
		if got := smooth(); got != 1 {
			t.Errorf("at first it is %v", got)
		}
		value = 0
		for range 80 {
			time.Sleep(100 * time.Millisecond)
			smooth()
		}
		if got := smooth(); math.Abs(got-0.5) > 0.001 || calls > 10 {
			t.Errorf("after a half-life it is %v with %d calls, want 0.5 and 9", got, calls)
		}
		value = math.NaN()
		time.Sleep(time.Second)
		if got := smooth(); got != 0 {
			t.Errorf("no number is %v", got)
		}
	})
}

func TestInFlight(t *testing.T) {
	f := NewInFlight(4)
	for i, want := range []float64{1, 0.75, 0.5, 0.25, 0, 0} {
		if got := f.Spare(); got != want || f.Count() != i {
			t.Errorf("with %d of 4 there is %v to spare, want %v", f.Count(), got, want)
		}
		f.Begin()
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(f.End)
	}
	wg.Wait()
	if f.Spare() != 1 {
		t.Errorf("all have ended, and %v is free", f.Spare())
	}
}

func TestMin(t *testing.T) {
	signal := func(v float64) func() float64 { return func() float64 { return v } }
	if got := Min(signal(0.5), signal(0.25), signal(1))(); got != 0.25 {
		t.Error(got)
	}
	if got := Min(signal(0.5), signal(math.NaN()))(); !math.IsNaN(got) {
		t.Errorf("a signal that is no number gives %v", got) // which Elastic takes for 0
	}
}

func TestPanics(t *testing.T) {
	for want, f := range map[string]func(){
		"load: NewInFlight: the most is 0, less than 1":   func() { NewInFlight(0) },
		"load: InFlight: End without Begin":               func() { NewInFlight(1).End() },
		"load: Min: no signals":                           func() { Min() },
		"load: Min: a signal is nil":                      func() { Min(nil) },
		"load: Smooth: the signal is nil":                 func() { Smooth(nil, 1) },
		"load: Smooth: the half-life is 0s, not positive": func() { Smooth(math.NaN, 0) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panicked with %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func TestConcurrency(t *testing.T) {
	idle, smooth := IdleCPU(), Smooth(func() float64 { return 0.5 }, time.Microsecond)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 1000 {
				if a, b := idle(), smooth(); a < 0 || a > 1 || b < 0 || b > 1 {
					t.Errorf("%v, %v", a, b)
				}
			}
		})
	}
	wg.Wait()
}

func TestNothingIsAllocated(t *testing.T) {
	smooth, f := Smooth(func() float64 { return 0.5 }, time.Hour), NewInFlight(5)
	both := Min(smooth, f.Spare)
	both()
	if n := testing.AllocsPerRun(1000, func() { f.Begin(); both(); f.End() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIdleCPU(b *testing.B) {
	idle := IdleCPU()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			idle()
		}
	})
}
