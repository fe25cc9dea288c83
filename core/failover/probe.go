package failover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// maxSample bounds the charges of a probe.
const maxSample = 4

// A prober probes the primary in the background. It is one goroutine, which exists only
// while the primary is suspect, away, or recovering.
type prober struct {
	ctx         context.Context // ends with the Store
	end         context.CancelFunc
	wake        chan struct{} // has a value when the primary was left
	wantsSample atomic.Bool

	mu      sync.Mutex
	running bool // the goroutine exists
	suspect bool // a call was not answered since the last probe
	closed  bool
	sample  []driver.Charge // the charges of a probe: copies, all Peeks
	done    sync.WaitGroup
}

func (p *prober) init() {
	p.ctx, p.end = context.WithCancel(context.Background())
	p.wake = make(chan struct{}, 1)
}

// pause waits for d, or until woken if that is not nil, or until the Store is closed.
func (p *prober) pause(d time.Duration, woken <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-p.ctx.Done():
	}
}

// startProbing has the primary probed, which has not answered charges.
func (s *Store) startProbing(charges []driver.Charge) {
	p := &s.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.suspect = true
	if !p.running {
		p.running, p.sample = true, sampleOf(charges)
		p.done.Go(s.runProber)
	}
	if s.breaker.State() == Backup {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// sampleOf returns Peeks for the keys and rules of charges.
func sampleOf(charges []driver.Charge) []driver.Charge {
	sample := make([]driver.Charge, min(len(charges), maxSample))
	for i := range sample {
		sample[i] = driver.Charge{Key: charges[i].Key, Rule: charges[i].Rule, Op: driver.Peek, Cost: 1}
	}
	return sample
}

// renewSample makes charges the next sample if one is wanted. The last sample may
// be about the only key that the primary cannot decide.
func (p *prober) renewSample(charges []driver.Charge) {
	if !p.wantsSample.Load() || !p.wantsSample.CompareAndSwap(true, false) {
		return
	}
	sample := sampleOf(charges)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sample = sample
}

// probe asks the primary whether it would accept a write, and takes nothing. An error
// about the sample itself is an answer.
func (s *Store) probe() error {
	p := &s.prober
	p.mu.Lock()
	sample := p.sample
	p.mu.Unlock()
	s.probes.Add(1)
	err := s.timeout.call(p.ctx, driver.Probe, sample)
	if err != nil && !isFailure(err) {
		return nil
	}
	return err
}

// runProber probes, and ends the recovery, until the primary is in full use and not suspect.
func (s *Store) runProber() {
	p := &s.prober
	for p.ctx.Err() == nil {
		switch s.breaker.State() {
		case Backup:
			s.probeAway()
		case Recovering:
			p.pause(s.breaker.untilRampedUp(s.now()), p.wake)
			s.breaker.rampedUp(s.now())
		default:
			if !s.probeSuspect() {
				return
			}
		}
	}
}

// probeAway sends one probe to a primary that is away.
func (s *Store) probeAway() {
	p := &s.prober
	p.pause(s.breaker.untilProbe(), nil)
	if p.ctx.Err() != nil {
		return
	}
	answered := s.probe() == nil
	p.mu.Lock()
	p.suspect = false
	p.mu.Unlock()
	p.wantsSample.Store(!answered)
	s.breaker.probed(s.now(), answered)
}

// probeSuspect probes a suspect primary until it answers or is left, so that few callers have
// to wait for it. That happens once in a deadline, however many callers leave. It returns
// false when the primary is not suspect.
func (s *Store) probeSuspect() bool {
	p := &s.prober
	p.mu.Lock()
	suspect := p.suspect
	p.suspect = false
	if !suspect && s.breaker.State() == Primary {
		p.running = false
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	for range maxConsecutive {
		if s.breaker.State() != Primary {
			return true
		}
		begun := s.now()
		err := s.probe()
		if err == nil || p.ctx.Err() != nil {
			break
		}
		if s.breaker.fail(begun, s.now(), err) {
			return true
		}
		p.pause(s.config.deadline/8, p.wake)
	}
	p.pause(s.config.deadline, p.wake)
	return true
}

// Close ends the probes in the background, and waits for them and for an [OnChange] that is
// running. Neither store is closed. The Store goes on deciding,
// but does not go back to a primary that is away, and tells no changes. Closing
// again does nothing. The error is nil.
func (s *Store) Close() error {
	p := &s.prober
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.done.Wait()
	s.notify.close()
	return nil
}
