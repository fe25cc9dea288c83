package failover

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tolerance is how many calls have to fail before the primary is left, ...
	tolerance = 5
	// ... either in a row, or as at least half of so many within so long.
	sickCalls  = 100
	sickWindow = time.Second

	// The pauses between probes of a primary that is away: from the first to the
	// longest, doubled each time.
	firstPause   = 50 * time.Millisecond
	longestPause = 300 * time.Millisecond
	// proofPause is the pause after a probe that was answered, when one is not enough.
	proofPause = 200 * time.Millisecond

	// ramp is how long it takes until all calls go to the primary again.
	ramp = 500 * time.Millisecond

	// A primary that is left within calm of its return flaps. Every time it does, one
	// more probe in a row has to be answered before it is trusted again, ...
	calm = 30 * time.Second
	// ... up to so many more.
	mostDoubt = 3
)

// A breaker decides who is asked: the circuit breaker pattern (M. Nygard, Release
// It!), with a ramp. It has no clock and no goroutine. Times are spans since any
// fixed instant. It is safe for concurrent use; the methods that a healthy primary
// needs take no lock and write nothing that others read.
type breaker struct {
	state    atomic.Int32
	since    atomic.Int64 // when the state began
	answered atomic.Int64 // when the latest call that was answered began, give or take quiet/8
	uneasy   atomic.Bool  // something failed lately, so answers are counted too

	quiet   time.Duration                     // a primary that answered within it is not dead
	changed func(from, to State, cause error) // called under the lock, in order

	mu      sync.Mutex
	row     int // failures since the last answer
	window  time.Duration
	failed  int // since window
	good    int // since window
	doubt   int // how many more probes have to be answered, for flapping
	proofs  int // probes answered in a row
	pause   time.Duration
	opened  uint64
	because error
}

func newBreaker(quiet time.Duration, changed func(from, to State, cause error)) *breaker {
	b := &breaker{quiet: quiet, changed: changed}
	b.answered.Store(-int64(calm)) // never
	b.since.Store(-int64(calm))
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
		return time.Duration(rand.Int64N(int64(ramp))) < now-time.Duration(b.since.Load())
	}
	return false
}

// answeredSince says whether a call was answered that began at about begun or later.
func (b *breaker) answeredSince(begun time.Duration) bool {
	return b.answered.Load() >= int64(begun)
}

// succeed notes that a call that began at begun was answered.
func (b *breaker) succeed(begun time.Duration) {
	if int64(begun)-b.answered.Load() > int64(b.quiet/8) {
		b.answered.Store(int64(begun))
	}
	if b.uneasy.Load() {
		b.ease(begun)
	}
}

func (b *breaker) ease(begun time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale(begun) {
		return
	}
	b.row = 0
	b.turn(begun)
	b.good++
	b.uneasy.Store(b.failed > 0)
}

// stale says whether a call that began at begun says nothing about the state of
// now: it was under way when that began.
func (b *breaker) stale(begun time.Duration) bool {
	return b.State() == Backup || begun < time.Duration(b.since.Load())
}

// turn begins a new window of counting when the last is over.
func (b *breaker) turn(now time.Duration) {
	if now-b.window >= sickWindow {
		b.window, b.failed, b.good = now, 0, 0
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
	b.uneasy.Store(true)
	b.turn(now)
	b.row++
	b.failed++
	dead := b.row >= tolerance && now-time.Duration(b.answered.Load()) >= b.quiet
	sick := b.failed+b.good >= sickCalls && b.failed >= b.good
	if dead || sick {
		b.open(now, cause)
		return true
	}
	return false
}

func (b *breaker) open(now time.Duration, cause error) {
	if b.State() == Primary && now-time.Duration(b.since.Load()) >= calm {
		b.doubt = 0
	} else {
		b.doubt = min(b.doubt+1, mostDoubt)
	}
	b.proofs, b.pause = 0, firstPause
	b.opened++
	b.because = cause
	b.become(Backup, now, cause)
}

func (b *breaker) become(to State, now time.Duration, cause error) {
	from := b.State()
	b.row, b.window, b.failed, b.good = 0, now, 0, 0
	b.uneasy.Store(false)
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
		b.proofs, b.pause = 0, min(b.pause*2, longestPause)
	case b.proofs < b.doubt:
		b.proofs, b.pause = b.proofs+1, proofPause
	default:
		b.answered.Store(int64(now))
		b.become(Recovering, now, nil)
	}
}

// untilRamped is how long a recovering primary still gets a part of the calls only.
func (b *breaker) untilRamped(now time.Duration) time.Duration {
	return time.Duration(b.since.Load()) + ramp - now
}

// ramped ends the recovery if it is over at now.
func (b *breaker) ramped(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.State() == Recovering && b.untilRamped(now) <= 0 {
		b.become(Primary, now, nil)
	}
}

// count is how often the primary was left, and why the last time.
func (b *breaker) count() (opened uint64, because error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened, b.because
}
