package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A State is the state of the circuit breaker, which determines the store that decides.
type State int

// The states of a Store.
const (
	// Primary: the breaker is closed. Every call goes to the primary, and a call that fails there
	// goes to the backup.
	Primary State = iota
	// Backup: the breaker is open. No call goes to the primary, which is probed in the background.
	Backup
	// Recovering: the breaker is half-open. A growing part of the calls goes to the primary.
	Recovering
)

const (
	closed   = Primary
	open     = Backup
	halfOpen = Recovering
)

// String returns "primary", "backup" or "recovering".
func (s State) String() string {
	if Primary <= s && s <= Recovering {
		return [...]string{"primary", "backup", "recovering"}[s]
	}
	return fmt.Sprintf("failover.State(%d)", int(s))
}

const (
	// The breaker opens after maxConsecutive failures in a row. Calls that fail with one round trip are
	// one failure (see isNew).
	maxConsecutive = 5
	// Fewer than maxUnprobed failures in a row open the breaker only if probes have failed, too: a part of the primary
	// may be down, for example a node of a Cluster.
	maxUnprobed = 50
	// The breaker also opens when countWindow has minCalls calls or more, and half of them failed.
	minCalls    = 100
	countWindow = time.Second

	// While the breaker is open, the interval of probes doubles from firstInterval to longestPause.
	firstInterval   = 50 * time.Millisecond
	longestInterval = 300 * time.Millisecond
	// confirmInterval is the time after a successful probe if another success is required.
	confirmInterval = 200 * time.Millisecond

	// rampUp is the time from half-open to closed.
	rampUp = 500 * time.Millisecond

	// A breaker relapses if it opens while half-open, or within relapsePeriod after it closed. Each
	// relapse requires one more probe to succeed in a row, up to maxRelapses more.
	relapsePeriod = 30 * time.Second
	maxRelapses   = 3
)

// A breaker decides which store is called. It implements the circuit breaker pattern (M. Nygard,
// Release It!), with a ramp-up. A breaker has no clock and no goroutine: callers pass the time
// since a fixed instant. It is safe for concurrent use. While the primary is healthy, its methods
// take no lock and rarely write shared memory.
type breaker struct {
	state       atomic.Int32
	since       atomic.Int64 // when the state began
	lastSuccess atomic.Int64 // when the latest successful call began; the value may be older by up to aliveFor/8
	counting    atomic.Bool  // a call failed recently, so successes are counted, too

	aliveFor time.Duration               // the primary is not dead if a call that began within this time succeeded
	changed  func(to State, cause error) // called under the lock, in order

	mu          sync.Mutex
	consecutive int           // failures since the last success, see isNew
	window      time.Duration // when the counting of failures, failed and succeeded began
	failures    int           // see isNew
	failed      int
	succeeded   int
	shared      [8]uint64     // the latest round trips that failed for several calls
	probedAt    time.Duration // when the latest probe of a suspect primary ended
	alive       bool          // it has succeeded
	relapses    int           // how many probes must succeed in addition to the first
	confirmed   int           // probes that succeeded in a row
	interval    time.Duration
	outages     uint64
	cause       error // of the last outage
}

func newBreaker(aliveFor time.Duration, changed func(to State, cause error)) *breaker {
	b := &breaker{aliveFor: aliveFor, changed: changed}
	b.lastSuccess.Store(-int64(relapsePeriod)) // never
	b.since.Store(-int64(relapsePeriod))
	b.probedAt = -relapsePeriod
	return b
}

func (b *breaker) State() State { return State(b.state.Load()) }

// admits reports whether a call at now goes to the primary. While the breaker is half-open, it
// admits a growing part of the calls, chosen at random.
func (b *breaker) admits(now time.Duration) bool {
	switch b.State() {
	case closed:
		return true
	case halfOpen:
		return time.Duration(rand.Int64N(int64(rampUp))) < now-time.Duration(b.since.Load())
	}
	return false
}

// succeededSince reports whether a call that began at begun or later has succeeded. It may miss
// calls that began less than aliveFor/8 after lastSuccess.
func (b *breaker) succeededSince(begun time.Duration) bool {
	return b.lastSuccess.Load() >= int64(begun)
}

// succeed records the success of a call that began at begun. It reports true at most once in aliveFor/8.
func (b *breaker) succeed(begun time.Duration) (noted bool) {
	if noted = int64(begun)-b.lastSuccess.Load() > int64(b.aliveFor/8); noted {
		b.lastSuccess.Store(int64(begun))
	}
	if b.counting.Load() {
		b.countSuccess(begun)
	}
	return noted
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

// stale reports whether the result of a call that began at begun is ignored, because the call
// began in an earlier state.
func (b *breaker) stale(begun time.Duration) bool {
	return b.State() == open || begun < time.Duration(b.since.Load())
}

// startWindow begins a new counting window if the current window is over.
func (b *breaker) startWindow(now time.Duration) {
	if now-b.window >= countWindow {
		b.window, b.failures, b.failed, b.succeeded = now, 0, 0, 0
	}
}

// isNew reports whether cause is the first error of its round trip. A lost reply that fails many
// calls is a single failure.
func (b *breaker) isNew(cause error) bool {
	var shared interface{ RoundTrip() uint64 }
	if !errors.As(cause, &shared) || shared.RoundTrip() == 0 {
		return true
	}
	if slices.Contains(b.shared[:], shared.RoundTrip()) {
		return false
	}
	copy(b.shared[1:], b.shared[:])
	b.shared[0] = shared.RoundTrip()
	return true
}

// fail records the failure, at now, of a call or a probe that began at begun. It opens the breaker after
// maxConsecutive failures in a row, unless a call that began within aliveFor has succeeded, or when
// a window has at least minCalls calls and maxConsecutive failures, and half of the calls failed. In both cases, a
// probe must have failed, too, unless there are maxUnprobed failures in a row, or nothing shows that the primary
// was alive lately. While probes succeed, only maxUnprobed failures without a success for relapsePeriod open it.
func (b *breaker) fail(begun, now time.Duration, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale(begun) {
		return
	}
	b.counting.Store(true)
	b.startWindow(now)
	if b.isNew(cause) {
		b.failures++
		if !b.succeededSince(begun) { // a failure may take longer than a success
			b.consecutive++
		}
	}
	b.failed++
	silent := now - time.Duration(b.lastSuccess.Load())
	probed := now-b.probedAt < 5*b.aliveFor // the prober sleeps for 2*aliveFor, and a probe may take as long
	replies := probed && b.alive
	gone := probed || b.State() == halfOpen || silent >= relapsePeriod
	dead := silent >= b.aliveFor && (b.consecutive >= maxConsecutive && gone || b.consecutive >= maxUnprobed)
	sick := b.failed+b.succeeded >= minCalls && b.failed >= b.succeeded && b.failures >= maxConsecutive && gone
	lost := dead && silent >= relapsePeriod && b.consecutive >= maxUnprobed // although probes may succeed
	if lost || (dead || sick) && !replies {
		b.open(now, cause)
	}
}

// confirm records whether the probe of a suspect primary has succeeded at now.
func (b *breaker) confirm(now time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probedAt, b.alive = now, ok
}

func (b *breaker) open(now time.Duration, cause error) {
	if b.State() == closed && now-time.Duration(b.since.Load()) >= relapsePeriod {
		b.relapses = 0
	} else {
		b.relapses = min(b.relapses+1, maxRelapses)
	}
	b.confirmed, b.interval = 0, firstInterval
	b.outages++
	b.cause = cause
	b.setState(open, now, cause)
}

func (b *breaker) setState(to State, now time.Duration, cause error) {
	b.consecutive, b.window, b.failures, b.failed, b.succeeded = 0, now, 0, 0, 0
	b.alive = false
	b.counting.Store(false)
	b.since.Store(int64(now))
	b.state.Store(int32(to))
	b.changed(to, cause)
}

// untilProbe returns the time before the next probe while the breaker is open. The time is
// random, so that processes that lost the primary at the same time spread their probes.
func (b *breaker) untilProbe() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.interval/2 + rand.N(b.interval/2)
}

// probed records whether a probe has succeeded at now. An open breaker may become half-open.
func (b *breaker) probed(now time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.State() != open:
	case !ok:
		b.confirmed, b.interval = 0, min(b.interval*2, longestInterval)
	case b.confirmed < b.relapses:
		b.confirmed, b.interval = b.confirmed+1, confirmInterval
	default:
		b.lastSuccess.Store(int64(now))
		b.setState(halfOpen, now, nil)
	}
}

// untilRampedUp returns how long a half-open breaker stays half-open.
func (b *breaker) untilRampedUp(now time.Duration) time.Duration {
	return time.Duration(b.since.Load()) + rampUp - now
}

// rampedUp closes the breaker if the ramp-up is over at now.
func (b *breaker) rampedUp(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.State() == halfOpen && b.untilRampedUp(now) <= 0 {
		b.setState(closed, now, nil)
	}
}

// history returns the number of outages, and the cause of the last outage.
func (b *breaker) history() (outages uint64, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outages, b.cause
}
