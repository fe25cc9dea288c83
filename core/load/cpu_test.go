package load

import (
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleCPUIsSmooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMachine()
		signal := idleCPU(newProcCPU(m.read, m.maxProcs).free)
		quarter := func(busy uint64) float64 {
			time.Sleep(cpuEvery)
			m.user += busy
			m.idle += 50 - busy
			m.write()
			return signal()
		}
		expect := func(when string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		expect("one sample", signal(), 0)
		time.Sleep(cpuEvery - 1)
		expect("before the second", signal(), 0)
		time.Sleep(time.Nanosecond)
		m.idle += 50
		m.write()
		expect("the second: a quarter of a half-life at 1", signal(), 1-math.Exp2(-0.25))
		for range 3 {
			quarter(0)
		}
		expect("one half-life", signal(), 0.5)
		for range 60 {
			quarter(0)
		}
		expect("many of them", signal(), 1)
		expect("all busy for a quarter of a half-life", quarter(50), math.Exp2(-0.25))
		for range 3 {
			quarter(50)
		}
		expect("for a half-life", signal(), 0.5)

		// An hour of which nobody asked, a fifth of it busy.
		time.Sleep(time.Hour)
		m.user += 3600 * 200 / 5
		m.idle += 3600 * 200 * 4 / 5
		m.write()
		expect("after a pause", signal(), 0.8)

		m.fakeProc["/proc/stat"] = ""
		time.Sleep(time.Minute)
		expect("a file that is gone", signal(), 0)
	})
}

// A service need not wait for its second request until the signal says something.
func TestIdleCPUTakesTheFirstSampleItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMachine()
		signal := idleCPU(newProcCPU(m.read, m.maxProcs).free)
		time.Sleep(cpuHalfLife)
		m.idle += 200
		m.write()
		if got := signal(); got != 0.5 {
			t.Errorf("asked for the first time after a half-life: %v, want 0.5", got)
		}
	})
}

// On the files of this machine. Others may use it, so a share that is low is no
// proof of anything; one that was high and falls is.
func TestIdleCPUOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc here")
	}
	if signal := IdleCPU(); signal() != 0 {
		t.Errorf("IdleCPU says %v after one sample", signal())
	}
	cpu := newProcCPU(readFile, maxProcs)
	cpu.free()
	if !cpu.machine.known || !cpu.process.known {
		t.Fatalf("/proc cannot be understood: machine %t, process %t", cpu.machine.known, cpu.process.known)
	}
	deadline := time.Now().Add(2500 * time.Millisecond)

	// This process waits, so it leaves most of what it may use.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var idle float64
	for idle < 0.5 {
		<-tick.C
		elapsed := time.Since(cpu.last).Seconds()
		cpu.last = time.Now()
		if idle = cpu.freeProcess(elapsed); time.Now().After(deadline) {
			t.Fatalf("a process that waits leaves %v", idle)
		}
	}
	// It burns all it gets. Whatever it does not get, others do.
	cpu.free()
	for idle > 0.25 {
		burn(100 * time.Millisecond)
		if idle = cpu.free(); time.Now().After(deadline) {
			t.Fatalf("with GOMAXPROCS goroutines burning, %v is idle", idle)
		}
	}
}
