package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

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
	samples samples
	sent    atomic.Uint64

	mu      sync.Mutex
	running bool // the goroutine exists
	suspect bool // a call failed or was cancelled since the last probe
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
		p.running = true
		p.samples.failed(charges)
		p.done.Go(p.run)
	}
	if p.breaker.State() == open {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// renew makes the next probe use charges if the last probe failed, because the failure may concern
// only the keys of that probe.
func (p *prober) renew(charges []driver.Charge) {
	if p.renews.Load() && p.renews.CompareAndSwap(true, false) {
		p.samples.failed(charges)
	}
}

// run probes until the breaker is closed and the primary is not suspect.
func (p *prober) run() {
	for p.ctx.Err() == nil {
		switch p.breaker.State() {
		case open:
			p.probeOpen()
		case halfOpen:
			p.sleep(p.breaker.untilRampedUp(p.now()), p.wake)
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
	p.sleep(p.breaker.untilProbe(), nil)
	if p.ctx.Err() != nil {
		return
	}
	ok := p.probe(p.samples.next()) == nil
	p.mu.Lock()
	p.suspect = false
	p.mu.Unlock()
	if !ok {
		p.samples.skip()
	}
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
		err := p.probeAll()
		if p.ctx.Err() != nil || errors.Is(err, driver.ErrOverloaded) { // busy, but healthy
			break
		}
		if p.breaker.confirm(p.now(), err == nil); err == nil {
			break
		}
		p.breaker.fail(begun, p.now(), err)
		if p.breaker.State() == closed {
			p.sleep(p.primary.deadline/8, p.wake)
		}
	}
	if p.breaker.State() == closed {
		p.sleep(p.primary.deadline, p.wake)
	}
	return true
}

// probeAll probes about all samples at a time. It returns nil if one of these probes has succeeded, because a part
// of the primary may be down.
func (p *prober) probeAll() error {
	samples := p.samples.all()
	errs := make(chan error, len(samples))
	for _, charges := range samples {
		go func() { errs <- p.probe(charges) }()
	}
	var failed error
	for range samples {
		err := <-errs
		if err == nil || errors.Is(err, driver.ErrOverloaded) {
			return err
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// probe tests whether the primary would accept a write for charges. It charges nothing. An error about the charges
// counts as a success.
func (p *prober) probe(charges []driver.Charge) error {
	p.sent.Add(1)
	err := p.primary.call(p.ctx, func(s driver.Store, ctx context.Context, charges []driver.Charge) error {
		return driver.Probe(ctx, s, charges)
	}, slices.Clone(charges)) // call writes verdicts to them
	if err != nil && isFailure(err) {
		return err
	}
	return nil
}

// sleep waits for d, or until woken has a value or the prober is closed. woken may be nil.
func (p *prober) sleep(d time.Duration, woken <-chan struct{}) {
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
