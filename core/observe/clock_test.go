package observe

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock is exact until it is read often, and again 32 calls after a pause.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		for i := range after + 1 {
			time.Sleep(time.Millisecond)
			if got := c.now(); got != time.Duration(i+1)*time.Millisecond {
				t.Fatalf("reading %d: got %v", i, got)
			}
		}
		c.now()
		time.Sleep(time.Hour)
		old := 0
		for c.now() < time.Hour {
			old++
		}
		if old != unreads {
			t.Errorf("got %d old results, want %d", old, unreads)
		}
		if time.Sleep(time.Hour); c.now() < 2*time.Hour {
			t.Error("got an old result of a clock that is seldom read")
		}
	})
}
