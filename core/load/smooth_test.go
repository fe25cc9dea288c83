package load_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/load"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestSmoothHalvesInAHalfLife(t *testing.T) {
	// However often it is asked in between.
	for _, asks := range []int{1, 2, 5, 16, 1600} {
		synctest.Test(t, func(t *testing.T) {
			x := 1.
			smooth := load.Smooth(func() float64 { return x }, 16*time.Second)
			if got := smooth(); got != 1 {
				t.Fatalf("the first average is %v, want the first sample, 1", got)
			}
			x = 0
			for want := 0.5; want > 0.1; want /= 2 {
				for range asks {
					time.Sleep(16 * time.Second / time.Duration(asks))
					smooth()
				}
				if got := smooth(); !near(got, want) {
					t.Fatalf("asked %d times in a half-life: %v, want %v", asks, got, want)
				}
			}
		})
	}
}

func TestSmoothAfterAPauseIsTheNewSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := 0.25
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = 0.75
		time.Sleep(24 * time.Hour)
		if got := smooth(); !near(got, 0.75) {
			t.Errorf("a day later: %v, want 0.75", got)
		}
	})
}

func TestSmoothArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := 0.
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = 1
		for range 12 * 16 { // 2^-10 is less than what counts as arrived
			time.Sleep(time.Second / 16)
			smooth()
		}
		if got := smooth(); got != 1 {
			t.Errorf("after 12 half-lives at 1: %v", got)
		}
	})
}

func TestSmoothAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		smooth := load.Smooth(func() float64 { asked++; return 1 }, 160*time.Millisecond)
		for range 160 { // for 160 ms, from the first to the last millisecond
			smooth()
			time.Sleep(time.Millisecond)
		}
		if asked != 16 {
			t.Errorf("asked %d times in a half-life, want 16", asked)
		}
	})
}

func TestSmoothTakesWhatIsNoShareForTheNearest(t *testing.T) {
	for x, want := range map[float64]float64{math.Inf(1): 1, 3: 1, -3: 0, math.Inf(-1): 0} {
		if got := load.Smooth(constant(x), time.Second)(); got != want {
			t.Errorf("%v counts as %v, want %v", x, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		x := 0.5
		smooth := load.Smooth(func() float64 { return x }, time.Second)
		smooth()
		x = math.NaN()
		time.Sleep(time.Second)
		if got := smooth(); !near(got, 0.25) {
			t.Errorf("not a number for a half-life, after 0.5: %v, want 0.25", got)
		}
		x = 1
		time.Sleep(time.Second)
		if got := smooth(); !near(got, 0.625) {
			t.Errorf("1 for a half-life, after 0.25: %v, want 0.625", got)
		}
	})
}

// One caller is held up by the signal. The others must not be, or this never ends.
func TestSmoothHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		answers := []float64{1, 0}
		asked := 0
		smooth := load.Smooth(func() float64 {
			x := answers[asked]
			if asked++; asked == 2 {
				<-release
			}
			return x
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
				t.Errorf("while the signal is asked: %v, want what was known, 1", got)
			}
		}
		close(release)
		one.Wait()
		if !near(slow, 0.5) {
			t.Errorf("who asked the signal got %v, want 0.5", slow)
		}
	})
}

func TestSmoothOutlivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		smooth := load.Smooth(func() float64 {
			if broken {
				panic("broken")
			}
			return 1
		}, time.Second)
		mustPanic(t, "broken", func() { smooth() })
		if got := smooth(); got != 0 {
			t.Errorf("before the next sample: %v, want 0", got)
		}
		broken = false
		time.Sleep(time.Second)
		if got := smooth(); got != 1 {
			t.Errorf("mended: %v, want 1", got)
		}
	})
}

func TestSmoothFromManyGoroutines(t *testing.T) {
	var inside atomic.Int32
	asked := 0 // without a lock: the race detector tells if two are inside
	smooth := load.Smooth(func() float64 {
		if inside.Add(1) != 1 {
			t.Error("the signal is asked by two at the same time")
		}
		defer inside.Add(-1)
		asked++
		return float64(asked % 2)
	}, 16*time.Microsecond)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				if got := smooth(); !(got >= 0 && got <= 1) {
					t.Errorf("%v is no share", got)
				}
			}
		})
	}
	all.Wait()
	if asked < 2 {
		t.Errorf("the signal was asked %d times", asked)
	}
}

func TestSmoothPanics(t *testing.T) {
	mustPanic(t, "load: Smooth: signal is nil", func() { load.Smooth(nil, time.Second) })
	for _, d := range []time.Duration{0, -time.Second} {
		mustPanic(t, "load: Smooth: halfLife is not positive", func() { load.Smooth(constant(1), d) })
	}
}
