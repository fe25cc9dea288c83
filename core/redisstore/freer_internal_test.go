package redisstore

import (
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A slowSender takes some time for each request, and finds nothing.
type slowSender struct{}

func (slowSender) send(_ *deadline, r *request) error {
	time.Sleep(time.Millisecond)
	r.time, r.reply = int64(1), []any{int64(0), int64(0), int64(0), int64(0)}
	return nil
}

func (slowSender) length() int { return 0 }

// A freer may be started and stopped at any moment of its undo.
func TestFreer_goroutines(t *testing.T) {
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 3, Hold: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	e := &executor{sender: slowSender{}, timeout: time.Second}
	e.arguments.rules.Max = maxCached
	for i := range 200 {
		f := newFreer(e)
		f.add(&driver.Charge{Key: "k", Rule: rule}, "key")
		f.sent(int64(i + 1))
		var starts sync.WaitGroup
		for range 4 {
			starts.Go(func() {
				for range 20 {
					f.start(0)
					time.Sleep(50 * time.Microsecond)
				}
			})
		}
		starts.Wait()
		f.stop()
	}
	for begun := time.Now(); e.freers.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d freers are at work, want none", e.freers.Load())
		}
	}
}
