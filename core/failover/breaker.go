package failover

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxConsecutive is how many calls in a row have to fail before the primary is left.
	maxConsecutive = 5
	// It is also left when at least half of minCalls or more fail within countWindow.
	minCalls    = 100
	countWindow = time.Second

	// The pauses between probes of a primary that is away: from the first to the
	// longest, doubled each time.
	firstPause   = 50 * time.Millisecond
	longestPause = 300 * time.Millisecond
	// confirmPause is the pause after a probe that was answered, when one is not enough.
	confirmPause = 200 * time.Millisecond

	// rampUp is how long it takes until all calls go to the primary again.
	rampUp = 500 * time.Millisecond

	// A primary that is left within relapsePeriod of its return relapses. Every time it
	// does, one more probe in a row has to be answered before it is trusted again, up to
	// maxRelapses more.
	relapsePeriod = 30 * time.Second
	maxRelapses   = 3
)

// A breaker decides which store is called: the circuit breaker pattern (M. Nygard, Release
// It!), with a ramp-up. It has no clock and no goroutine. Times are spans since any
// fixed instant. It is safe for concurrent use; the methods that a healthy primary
// needs take no lock and write nothing that others read.
type breaker struct {
	state        atomic.Int32
	since        atomic.Int64 // when the state began
	lastAnswered atomic.Int64 // when the latest call that was answered began, give or take aliveFor/8
	counting     atomic.Bool  // something failed lately, so successes are counted, too

	aliveFor time.Duration                     // a primary that answered within it is not dead
	changed  func(from, to State, cause error) // called under the lock, in order

	mu          sync.Mutex
	consecutive int           // failures since the last answer
	window      time.Duration // when the counting of failed and succeeded began
	failed      int
	succeeded   int
	relapses    int // how many more probes have to be answered
	confirmed   int // probes answered in a row
	pause       time.Duration
	outages     uint64
	cause       error // of the last outage
}

func newBreaker(aliveFor time.Duration, changed func(from, to State, cause error)) *breaker {
	b := &breaker{aliveFor: aliveFor, changed: changed}
	b.lastAnswered.Store(-int64(relapsePeriod)) // never
	b.since.Store(-int64(relapsePeriod))
	return b
}

func (b *breaker) State() State { return State(b.state.Load()) }

// admits says whether a call at now goes to the primary. While that recovers, the
// share of calls that do grows with time.
func (b *breaker) admits(now time.Duration) bool {
	switch b.State() {
	case Primary:
		return true
	case Recovering:
		return time.Duration(rand.Int64N(int64(rampUp))) < now-time.Duration(b.since.Load())
	}
	return false
}

// answeredSince says whether a call was answered that began at about begun or later.
func (b *breaker) answeredSince(begun time.Duration) bool {
	return b.lastAnswered.Load() >= int64(begun)
}

// succeed notes that a call that began at begun was answered.
func (b *breaker) succeed(begun time.Duration) {
	if int64(begun)-b.lastAnswered.Load() > int64(b.aliveFor/8) {
		b.lastAnswered.Store(int64(begun))
	}
	if b.counting.Load() {
		b.countSuccess(begun)
	}
}

func (b *breaker) countSuccess(begun time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale(begun) {
		return
	}
	b.consecutive = 0
	b.startWindow(begun)
	b.succeeded++
	b.counting.Store(b.failed > 0)
}

// stale says whether a call that began at begun says nothing about the state of
// now: it was under way when that began.
func (b *breaker) stale(begun time.Duration) bool {
	return b.State() == Backup || begun < time.Duration(b.since.Load())
}

// startWindow begins a new window of counting when the last is over.
func (b *breaker) startWindow(now time.Duration) {
	if now-b.window >= countWindow {
		b.window, b.failed, b.succeeded = now, 0, 0
	}
}

// fail notes at now that a call failed that began at begun, and says whether the
// primary is left because of that.
func (b *breaker) fail(begun, now time.Duration, cause error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale(begun) {
		return false
	}
	b.counting.Store(true)
	b.startWindow(now)
	b.consecutive++
	b.failed++
	dead := b.consecutive >= maxConsecutive && now-time.Duration(b.lastAnswered.Load()) >= b.aliveFor
	sick := b.failed+b.succeeded >= minCalls && b.failed >= b.succeeded
	if dead || sick {
		b.open(now, cause)
		return true
	}
	return false
}

func (b *breaker) open(now time.Duration, cause error) {
	if b.State() == Primary && now-time.Duration(b.since.Load()) >= relapsePeriod {
		b.relapses = 0
	} else {
		b.relapses = min(b.relapses+1, maxRelapses)
	}
	b.confirmed, b.pause = 0, firstPause
	b.outages++
	b.cause = cause
	b.setState(Backup, now, cause)
}

func (b *breaker) setState(to State, now time.Duration, cause error) {
	from := b.State()
	b.consecutive, b.window, b.failed, b.succeeded = 0, now, 0, 0
	b.counting.Store(false)
	b.since.Store(int64(now))
	b.state.Store(int32(to))
	b.changed(from, to, cause)
}

// untilProbe is how long to wait before the next probe of a primary that is away.
// It is random, so that many processes that lost it together do not come back
// together.
func (b *breaker) untilProbe() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause/2 + rand.N(b.pause/2)
}

// probed notes at now whether a probe was answered, while the primary is away.
func (b *breaker) probed(now time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.State() != Backup:
	case !ok:
		b.confirmed, b.pause = 0, min(b.pause*2, longestPause)
	case b.confirmed < b.relapses:
		b.confirmed, b.pause = b.confirmed+1, confirmPause
	default:
		b.lastAnswered.Store(int64(now))
		b.setState(Recovering, now, nil)
	}
}

// untilRampedUp is how long a recovering primary still gets a part of the calls only.
func (b *breaker) untilRampedUp(now time.Duration) time.Duration {
	return time.Duration(b.since.Load()) + rampUp - now
}

// rampedUp ends the recovery if it is over at now.
func (b *breaker) rampedUp(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.State() == Recovering && b.untilRampedUp(now) <= 0 {
		b.setState(Primary, now, nil)
	}
}

// history returns how often the primary was left, and why the last time.
func (b *breaker) history() (outages uint64, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outages, b.cause
}
