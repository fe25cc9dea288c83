package failover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
)

// mostSample bounds the charges of a probe.
const mostSample = 4

// A watch looks after the primary in the background. It is one goroutine, which
// exists only while the primary is in doubt, away, or recovering.
type watch struct {
	ctx   context.Context // ends with the Store
	end   context.CancelFunc
	wake  chan struct{} // has a value when the primary was left
	wants atomic.Bool   // another sample

	mu     sync.Mutex
	on     bool // the goroutine exists
	doubt  bool // a call was not answered
	closed bool
	sample []core.Charge // the charges of a probe: copies, all Peeks
	done   sync.WaitGroup
}

func (w *watch) init() {
	w.ctx, w.end = context.WithCancel(context.Background())
	w.wake = make(chan struct{}, 1)
}

// pause waits for d, or until woken if that is not nil, or the watch ends.
func (w *watch) pause(d time.Duration, woken <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-w.ctx.Done():
	}
}

// look has the primary looked after: it has not answered charges.
func (s *Store) look(charges []core.Charge) {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.doubt = true
	if !w.on {
		w.on, w.sample = true, sampleOf(charges)
		w.done.Go(s.keepWatch)
	}
	if s.breaker.State() == Backup {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// sampleOf returns Peeks for the keys and rules of charges.
func sampleOf(charges []core.Charge) []core.Charge {
	sample := make([]core.Charge, min(len(charges), mostSample))
	for i := range sample {
		sample[i] = core.Charge{Key: charges[i].Key, Rule: charges[i].Rule, Op: core.Peek, Cost: 1}
	}
	return sample
}

// freshSample takes charges as the next sample if one is wanted. The last one may
// be about the only key that the primary cannot decide.
func (s *Store) freshSample(charges []core.Charge) {
	w := &s.watch
	if !w.wants.Load() || !w.wants.CompareAndSwap(true, false) {
		return
	}
	sample := sampleOf(charges)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sample = sample
}

// probe asks the primary whether it would accept a write, and takes nothing. An error
// about the sample itself is an answer.
func (s *Store) probe() error {
	w := &s.watch
	w.mu.Lock()
	sample := w.sample
	w.mu.Unlock()
	s.probes.Add(1)
	err := s.guard.call(w.ctx, core.Probe, sample)
	if err != nil && !counts(err) {
		return nil
	}
	return err
}

// keepWatch does what the state asks for, until the primary is well.
func (s *Store) keepWatch() {
	w := &s.watch
	for w.ctx.Err() == nil {
		switch s.breaker.State() {
		case Backup:
			s.await()
		case Recovering:
			w.pause(s.breaker.untilRamped(s.now()), w.wake)
			s.breaker.ramped(s.now())
		default:
			if !s.examine() {
				return
			}
		}
	}
}

// await sends one probe to a primary that is away.
func (s *Store) await() {
	w := &s.watch
	w.pause(s.breaker.untilProbe(), nil)
	if w.ctx.Err() != nil {
		return
	}
	answered := s.probe() == nil
	w.mu.Lock()
	w.doubt = false
	w.mu.Unlock()
	w.wants.Store(!answered)
	s.breaker.probed(s.now(), answered)
}

// examine asks a primary in doubt until it answers or is left, so that not many
// callers have to find out. That happens once in a deadline, however many callers
// leave. It returns false when there is nothing to look after.
func (s *Store) examine() bool {
	w := &s.watch
	w.mu.Lock()
	doubt := w.doubt
	w.doubt = false
	if !doubt && s.breaker.State() == Primary {
		w.on = false
		w.mu.Unlock()
		return false
	}
	w.mu.Unlock()
	for range tolerance {
		if s.breaker.State() != Primary {
			return true
		}
		begun := s.now()
		err := s.probe()
		if err == nil || w.ctx.Err() != nil {
			break
		}
		if s.breaker.fail(begun, s.now(), err) {
			return true
		}
		w.pause(s.config.deadline/8, w.wake)
	}
	w.pause(s.config.deadline, w.wake)
	return true
}

// Close ends what goes on in the background, and waits for that and for an
// [OnChange] that is running. Neither store is closed. The Store goes on deciding,
// but does not go back to a primary that is away, and tells no changes. Closing
// again does nothing. The error is nil.
func (s *Store) Close() error {
	w := &s.watch
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.done.Wait()
	s.notify.close()
	return nil
}
