package sampler

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSampler_Pass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2, time.Second)
		for i, c := range []struct {
			after      time.Duration
			suppressed int
			ok         bool
		}{{0, 0, true}, {0, 0, true}, {0, 0, false}, {999 * time.Millisecond, 0, false}, {time.Millisecond, 2, true}, {0, 0, true}, {time.Hour, 0, true}} {
			time.Sleep(c.after)
			if suppressed, ok := s.Pass(); suppressed != c.suppressed || ok != c.ok {
				t.Errorf("event %d: got %d, %v, want %d, %v", i, suppressed, ok, c.suppressed, c.ok)
			}
		}
	})
}

// Concurrent events are bounded, too.
func TestSampler_Pass_Concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(3, time.Minute)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, ok := s.Pass(); ok {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 3 {
			t.Errorf("%d events have passed, want 3", passed.Load())
		}
	})
}
