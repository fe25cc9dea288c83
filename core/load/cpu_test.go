package load

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeCPU has the CPU times that a test sets.
type fakeCPU struct{ cpuSeconds }

func (f *fakeCPU) read() cpuSeconds { return f.cpuSeconds }

// use lets d pass, in which the process used a share of GOMAXPROCS processors.
func (f *fakeCPU) use(d time.Duration, share float64) {
	time.Sleep(d)
	f.used += share * d.Seconds() * float64(runtime.GOMAXPROCS(0))
}

// collect ends a garbage collection, with an idle share since the one before.
func (f *fakeCPU) collect(idle float64) {
	f.idle += 8 * idle
	f.total += 8
}

func expect(t *testing.T, when string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: got %v, expected %v", when, got, want)
	}
}

func TestCPU_Free(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeCPU
		c := &cpu{read: f.read}
		expect(t, "first sample", c.free(), 0)
		f.use(time.Second, 0.25)
		expect(t, "a quarter is used", c.free(), 0.75)
		f.use(time.Hour, 0.5)
		expect(t, "after a pause", c.free(), 0.5)
		f.collect(0.125)
		f.use(time.Second, 0.25)
		expect(t, "the first collection: its share of the whole past does not count", c.free(), 0.75)
		for _, step := range []struct {
			when               string
			idle, used, expect float64 // no collection if idle is negative
		}{
			{"goroutines wait for a CPU", 0.125, 0.25, 0.125},
			{"no collection since", -1, 0.25, 0.125},
			{"the scheduler is idle, and code in C runs", 1, 0.75, 0.25},
			{"goroutines wait again", 0, 0.5, 0},
			{"1 s after the collection", -1, 0, 0},
			{"2 s", -1, 0, 0},
			{"3 s", -1, 0, 0},
			{"4 s", -1, 0, 0},
			{"5 s", -1, 0, 1},
		} {
			if step.idle >= 0 {
				f.collect(step.idle)
			}
			f.use(time.Second, step.used)
			expect(t, step.when, c.free(), step.expect)
		}
		f.used = math.NaN()
		time.Sleep(time.Second)
		if got := c.free(); !math.IsNaN(got) {
			t.Errorf("unknown CPU time: got %v, expected NaN", got)
		}
	})
}

func TestIdleCPU_Smoothed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeCPU
		signal := idleCPU(&cpu{read: f.read})
		expect(t, "one sample", signal(), 0)
		f.use(cpuEvery-1, 0)
		expect(t, "before the second", signal(), 0)
		f.use(1, 0)
		expect(t, "the second: a quarter of a half-life at 1", signal(), 1-math.Exp2(-0.25))
		for _, step := range []struct {
			when         string
			samples      int
			used, expect float64
		}{
			{"idle for a half-life", 3, 0, 0.5},
			{"idle for long", 60, 0, 1},
			{"busy for a quarter of a half-life", 1, 1, math.Exp2(-0.25)},
			{"busy for a half-life", 3, 1, 0.5},
		} {
			for range step.samples {
				f.use(cpuEvery, step.used)
				signal()
			}
			expect(t, step.when, signal(), step.expect)
		}
		f.use(time.Hour, 0.2)
		expect(t, "after a pause", signal(), 0.8)
		f.used = math.NaN()
		time.Sleep(time.Minute)
		expect(t, "unknown CPU time", signal(), 0)
	})
}

// The signal rises before the second call, because IdleCPU takes the first sample.
func TestIdleCPU_FirstSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeCPU
		signal := idleCPU(&cpu{read: f.read})
		f.use(cpuHalfLife, 0)
		expect(t, "the first call after a half-life", signal(), 0.5)
	})
}

// The test polls with a deadline, because other processes may use the machine.
func TestCPU_Free_ThisProcess(t *testing.T) {
	if signal := IdleCPU(); signal() != 0 {
		t.Errorf("after one sample: got %v, expected 0", signal())
	}
	deadline := time.Now().Add(10 * time.Second)
	c := newCPU()
	runtime.GC()
	c.free()
	for idle := 0.0; idle < 0.5; idle = c.free() {
		if time.Now().After(deadline) {
			t.Fatalf("got %v while this process waits, expected at least 0.5", idle)
		}
		<-time.After(50 * time.Millisecond)
		runtime.GC()
	}
	used := c.last.used
	for idle := 1.0; idle > 0.25 || c.last.used < used+0.05; idle = c.free() {
		if time.Now().After(deadline) {
			t.Fatalf("got %v while GOMAXPROCS goroutines run, expected at most 0.25; CPU time %v s", idle, c.last.used-used)
		}
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
				}
			})
		}
		all.Wait()
		runtime.GC()
	}
}

func TestFloat_UnknownMetric(t *testing.T) {
	for _, name := range []string{"/no/such:cpu-seconds", "/gc/heap/allocs:bytes"} {
		samples := []metrics.Sample{{Name: name}}
		metrics.Read(samples)
		if got := float(samples[0]); got != 0 {
			t.Errorf("%s: got %v, expected 0", name, got)
		}
	}
}
