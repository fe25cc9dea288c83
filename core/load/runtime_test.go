package load

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

func TestRuntimeCPUOfALaterGo(t *testing.T) {
	for _, name := range []string{"/no/such:cpu-seconds", "/gc/heap/allocs:bytes"} {
		cpu := newRuntimeCPU()
		cpu.share = 0.5
		for i := range cpu.samples {
			cpu.samples[i].Name = name
		}
		if got := cpu.free(); got != 0 {
			t.Errorf("of %s: %v, want 0", name, got)
		}
	}
}

// This is the runtime itself, on any system. It counts goroutines that run or could,
// so a machine that is busy with something else makes no difference.
func TestRuntimeCPUFollowsTheCollector(t *testing.T) {
	runtime.GC()
	cpu := newRuntimeCPU()
	if got := cpu.free(); got != 0 {
		t.Errorf("after one collection: %v, want 0", got)
	}
	burn(100 * time.Millisecond)
	runtime.GC()
	busy := cpu.free()
	if busy > 0.5 {
		t.Errorf("while GOMAXPROCS goroutines burn: %v is free", busy)
	}
	<-time.After(100 * time.Millisecond) // idle time is what is measured
	runtime.GC()
	idle := cpu.free()
	if !(idle > busy) || idle > 1 {
		t.Errorf("while none does: %v is free, and %v while GOMAXPROCS do", idle, busy)
	}
}

func TestRuntimeCPUHoldsBetweenCollections(t *testing.T) {
	cpu := newRuntimeCPU()
	// Package metrics lets nobody else make a value, so the readings are real ones
	// of which the test chooses the moment.
	take := func() [2]metrics.Value {
		runtime.GC()
		s := newRuntimeCPU().samples
		metrics.Read(s)
		return [2]metrics.Value{s[0].Value, s[1].Value}
	}
	first := take()
	<-time.After(20 * time.Millisecond)
	second := take()
	now := first
	cpu.read = func(s []metrics.Sample) { s[0].Value, s[1].Value = now[0], now[1] }
	cpu.free()
	now = second
	want := cpu.free()
	if want == 0 {
		t.Fatal("nothing was free between two collections")
	}
	for range 3 {
		if got := cpu.free(); got != want {
			t.Errorf("no collection since: %v, want what was known, %v", got, want)
		}
	}
}

// burn keeps every processor that Go may use busy.
func burn(d time.Duration) {
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for start := time.Now(); time.Since(start) < d; {
			}
		})
	}
	all.Wait()
}
