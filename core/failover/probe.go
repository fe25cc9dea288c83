package failover

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// maxProbed is the largest number of charges in a probe.
const maxProbed = 4

// A prober probes the primary in the background, on one goroutine, which exists only while the
// primary is suspect or the breaker is not closed.
type prober struct {
	breaker *breaker
	primary *timeout
	now     func() time.Duration
	ctx     context.Context // ends with the Store
	end     context.CancelFunc
	wake    chan struct{} // has a value when the breaker has opened
	renews  atomic.Bool   // the last probe failed, so the next one should have other charges
	sent    atomic.Uint64

	mu      sync.Mutex
	running bool            // the goroutine exists
	suspect bool            // a call failed or was cancelled since the last probe
	charges []driver.Charge // of the next probe: copies, all Peeks
	done    sync.WaitGroup
}

func newProber(b *breaker, primary *timeout, now func() time.Duration) *prober {
	p := &prober{breaker: b, primary: primary, now: now, wake: make(chan struct{}, 1)}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// start makes the prober probe the primary. charges are those of a failed or cancelled call.
func (p *prober) start(charges []driver.Charge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.suspect = true
	if !p.running {
		p.running, p.charges = true, peeks(charges)
		p.done.Go(p.run)
	}
	if p.breaker.State() == open {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// peeks returns Peeks for the keys and rules of charges.
func peeks(charges []driver.Charge) []driver.Charge {
	probed := make([]driver.Charge, min(len(charges), maxProbed))
	for i := range probed {
		probed[i] = driver.Charge{Key: charges[i].Key, Rule: charges[i].Rule, Op: driver.Peek, Cost: 1}
	}
	return probed
}

// renew makes the next probe use charges if the last probe failed, because the failure may concern
// only the keys of that probe.
func (p *prober) renew(charges []driver.Charge) {
	if p.renews.Load() && p.renews.CompareAndSwap(true, false) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.charges = peeks(charges)
	}
}

// run probes until the breaker is closed and the primary is not suspect.
func (p *prober) run() {
	for p.ctx.Err() == nil {
		switch p.breaker.State() {
		case open:
			p.probeOpen()
		case halfOpen:
			p.pause(p.breaker.untilRampedUp(p.now()), p.wake)
			p.breaker.rampedUp(p.now())
		default:
			if !p.probeSuspect() {
				return
			}
		}
	}
}

// probeOpen sends one probe while the breaker is open.
func (p *prober) probeOpen() {
	p.pause(p.breaker.untilProbe(), nil)
	if p.ctx.Err() != nil {
		return
	}
	ok := p.probe() == nil
	p.mu.Lock()
	p.suspect = false
	p.mu.Unlock()
	p.renews.Store(!ok)
	p.breaker.probed(p.now(), ok)
}

// probeSuspect probes a suspect primary until a probe succeeds or the breaker opens, so that few
// callers have to wait for the primary. It takes at least as long as the deadline, so cancelled
// calls cause at most one probe in that time. If the primary is not suspect, probeSuspect returns
// false, and the goroutine ends.
func (p *prober) probeSuspect() bool {
	p.mu.Lock()
	suspect := p.suspect || p.breaker.State() != closed
	p.suspect, p.running = false, suspect
	p.mu.Unlock()
	if !suspect {
		return false
	}
	for i := 0; i < maxConsecutive && p.breaker.State() == closed; i++ {
		begun := p.now()
		err := p.probe()
		if err == nil || p.ctx.Err() != nil || errors.Is(err, driver.ErrOverloaded) { // busy, but healthy
			break
		}
		p.breaker.fail(begun, p.now(), err)
		if p.breaker.State() == closed {
			p.pause(p.primary.deadline/8, p.wake)
		}
	}
	if p.breaker.State() == closed {
		p.pause(p.primary.deadline, p.wake)
	}
	return true
}

// probe tests whether the primary would accept a write. It charges nothing. An error about the
// charges counts as a success.
func (p *prober) probe() error {
	p.mu.Lock()
	charges := p.charges
	p.mu.Unlock()
	p.sent.Add(1)
	err := p.primary.call(p.ctx, func(s driver.Store, ctx context.Context, charges []driver.Charge) error {
		return driver.Probe(ctx, s, charges)
	}, charges)
	if err != nil && !isFailure(err) {
		return nil
	}
	return err
}

// pause waits for d, or until woken has a value or the prober is closed. woken may be nil.
func (p *prober) pause(d time.Duration, woken <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-p.ctx.Done():
	}
}

// close ends the probes, and waits for the goroutine.
func (p *prober) close() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.done.Wait()
}
