package redisstore

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/testkit"
)

// A slowSender takes some time for each job, which fails.
type slowSender struct{}

func (slowSender) Send(*pipe.Job) error {
	time.Sleep(time.Millisecond)
	return io.EOF
}

func (slowSender) Length() int { return 0 }

// A freer may be started and stopped at any moment of its undo.
func TestFreer_goroutines(t *testing.T) {
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 3, Hold: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{pipe: &pipe.Pipe{Sender: slowSender{}}, encoder: wire.NewEncoder("test:", keyhash.Hasher{}), timeout: time.Second}
	for range 200 {
		j := pipe.NewJob()
		j.Charges, j.Keys = []driver.Charge{{Key: "k", Rule: rule, Cost: 1}}, []string{"key"}
		s.encoder.Encode(&j.Request)
		wire.NewBatches([]*wire.Request{&j.Request}, false) // its places have a number then
		f := newFreer(s, j)
		testkit.Concurrently(4, func(int) {
			for range 20 {
				f.start(0)
				time.Sleep(50 * time.Microsecond)
			}
		})
		f.stop()
	}
	for begun := time.Now(); s.freers.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d freers are at work, want none", s.freers.Load())
		}
	}
}

// A freer that is stopped before its first undo is not counted any more.
func TestFreer_stop(t *testing.T) {
	s := &Store{pipe: &pipe.Pipe{Sender: slowSender{}}, timeout: time.Second}
	f := newFreer(s, pipe.NewJob())
	f.start(time.Hour)
	if n := s.freers.Load(); n != 1 {
		t.Errorf("%d freers are counted, want 1", n)
	}
	f.stop()
	if n := s.freers.Load(); n != 0 {
		t.Errorf("%d freers are counted after the stop, want none", n)
	}
}

// After a denial that comes late, no place is freed, and the queue of the caller is removed.
func TestFreer_lateDenial(t *testing.T) {
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 3, Hold: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, waiter := range []*driver.Waiter{nil, {Queue: 7 * waiters.PerProcess}} {
		s := &Store{pipe: &pipe.Pipe{Sender: slowSender{}}, encoder: wire.NewEncoder("test:", keyhash.Hasher{}), timeout: time.Second}
		j := pipe.NewJob()
		j.Charges, j.Keys = []driver.Charge{{Key: "k", Rule: rule, Cost: 1, Waiter: waiter}}, []string{"key"}
		s.encoder.Encode(&j.Request)
		f := newFreer(s, j)
		wire.NewBatches([]*wire.Request{&j.Request}, false)[0].SetOutcomes([]any{int64(1), int64(0), int64(0), int64(3), int64(0), int64(0), int64(0)}, nil)
		f.Left()
		f.Ended(true)
		f.mu.Lock()
		if freed := slices.ContainsFunc(f.undos, func(u undo) bool { return !isQueue(&u.charge) }); f.over != (waiter == nil) || waiter != nil && freed {
			t.Errorf("waiter %v: over is %t, and the undos are %+v", waiter, f.over, f.undos)
		}
		f.mu.Unlock()
		f.stop()
	}
}
