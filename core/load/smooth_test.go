package load_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/load"
	"github.com/weir-go/weir/internal/testkit"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestSmooth_HalfLife(t *testing.T) {
	for _, calls := range []int{1, 2, 5, 16, 1600} {
		synctest.Test(t, func(t *testing.T) {
			x := 1.
			smooth := load.Smooth(func() float64 { return x }, 16*time.Second)
			if got := smooth(); got != 1 {
				t.Fatalf("first average: got %v, want the first sample, 1", got)
			}
			x = 0
			for want := 0.5; want > 0.1; want /= 2 {
				for range calls {
					time.Sleep(16 * time.Second / time.Duration(calls))
					smooth()
				}
				if got := smooth(); !near(got, want) {
					t.Fatalf("%d calls in a half-life: got %v, want %v", calls, got, want)
				}
			}
		})
	}
}

func TestSmooth_AfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := 0.25
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = 0.75
		time.Sleep(24 * time.Hour)
		if got := smooth(); !near(got, 0.75) {
			t.Errorf("got %v, want 0.75", got)
		}
	})
}

func TestSmooth_ReachesSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := 0.
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = 1
		for range 12 * 16 { // 2^-12 is less than arrived
			time.Sleep(time.Second / 16)
			smooth()
		}
		if got := smooth(); got != 1 {
			t.Errorf("after 12 half-lives at 1: got %v, want 1", got)
		}
	})
}

func TestSmooth_SamplesPerHalfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		smooth := load.Smooth(func() float64 { samples++; return 1 }, 160*time.Millisecond)
		for range 160 { // for 160 ms, from the first to the last millisecond
			smooth()
			time.Sleep(time.Millisecond)
		}
		if samples != 16 {
			t.Errorf("got %d samples in a half-life, want 16", samples)
		}
	})
}

func TestSmooth_SampleOutsideRange(t *testing.T) {
	for x, want := range map[float64]float64{math.Inf(1): 1, 3: 1, -3: 0, math.Inf(-1): 0} {
		if got := load.Smooth(constant(x), time.Second)(); got != want {
			t.Errorf("%v: got %v, want %v", x, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		x := 0.5
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = math.NaN()
		time.Sleep(time.Second)
		if got := smooth(); !near(got, 0.25) {
			t.Errorf("NaN for a half-life, after 0.5: got %v, want 0.25", got)
		}
		x = 1
		time.Sleep(time.Second)
		if got := smooth(); !near(got, 0.625) {
			t.Errorf("1 for a half-life, after 0.25: got %v, want 0.625", got)
		}
	})
}

// A slow signal delays only the caller that takes the sample; otherwise this test does not end.
func TestSmooth_SlowSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		samples := 0
		smooth := load.Smooth(func() float64 {
			if samples++; samples == 2 {
				<-release
				return 0
			}
			return 1
		}, time.Second)
		smooth()
		time.Sleep(time.Second)
		var slow float64
		var one sync.WaitGroup
		one.Go(func() { slow = smooth() })
		synctest.Wait()
		for range 10 {
			time.Sleep(time.Second) // the next sample is due, but this one is not over
			if got := smooth(); got != 1 {
				t.Errorf("during a sample: got %v, want the last average, 1", got)
			}
		}
		close(release)
		one.Wait()
		if !near(slow, 0.5) {
			t.Errorf("the caller that took the sample: got %v, want 0.5", slow)
		}
	})
}

func TestSmooth_SignalPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		smooth := load.Smooth(func() float64 {
			if broken {
				panic("broken")
			}
			return 1
		}, time.Second)
		testkit.Panics(t, "broken", func() { smooth() })
		if got := smooth(); got != 0 {
			t.Errorf("before the next sample: got %v, want 0", got)
		}
		broken = false
		time.Sleep(time.Second)
		if got := smooth(); got != 1 {
			t.Errorf("after the next sample: got %v, want 1", got)
		}
	})
}

func TestSmooth_Concurrent(t *testing.T) {
	var inside atomic.Int32
	samples := 0 // not atomic: the race detector reports concurrent samples
	smooth := load.Smooth(func() float64 {
		if inside.Add(1) != 1 {
			t.Error("got concurrent calls of the signal, want one at a time")
		}
		defer inside.Add(-1)
		samples++
		return float64(samples % 2)
	}, 16*time.Microsecond)
	testkit.Concurrently(8, func(int) {
		for range 2000 {
			if got := smooth(); !(got >= 0 && got <= 1) {
				t.Errorf("got %v, want 0 to 1", got)
			}
		}
	})
	if samples < 2 {
		t.Errorf("got %d samples, want at least 2", samples)
	}
}
