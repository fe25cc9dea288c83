package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const aliveFor = 50 * time.Millisecond

var errDown = errors.New("down")

// A lab is a breaker and a clock.
type lab struct {
	*breaker
	now     time.Duration
	changes []string
}

func newLab() *lab {
	l := &lab{now: time.Hour}
	l.breaker = newBreaker(aliveFor, func(to State, cause error) {
		l.changes = append(l.changes, fmt.Sprintf("%v %v", to, cause))
	})
	return l
}

// wrong lets one call fail that takes d.
func (l *lab) wrong(d time.Duration) bool {
	begun := l.now
	l.now += d
	l.fail(begun, l.now, errDown)
	return l.State() == open
}

// right lets one call succeed that takes d.
func (l *lab) right(d time.Duration) {
	begun := l.now
	l.now += d
	l.succeed(begun)
}

// comeBack answers probes until the primary is in full use again.
func (l *lab) comeBack() {
	for l.State() == Backup {
		l.now += l.untilProbe()
		l.probed(l.now, true)
	}
	l.now += l.untilRampedUp(l.now)
	l.rampedUp(l.now)
}

func (l *lab) is(t *testing.T, want State) {
	t.Helper()
	if got := l.State(); got != want {
		t.Fatalf("the state is %v, want %v; changes: %q", got, want, l.changes)
	}
}

func TestOpensOnFailuresInARow(t *testing.T) {
	l := newLab()
	for range 100 {
		l.right(time.Millisecond)
	}
	for range maxConsecutive - 1 {
		if l.wrong(100 * time.Millisecond) {
			t.Fatal("left before the tolerance was used up")
		}
	}
	l.right(time.Millisecond)
	l.now += time.Second
	for range maxConsecutive - 1 {
		l.wrong(100 * time.Millisecond)
	}
	l.is(t, Primary)
	if !l.wrong(100 * time.Millisecond) {
		t.Error("the failure that made the primary be left does not say so")
	}
	l.is(t, Backup)
	if want := []string{"backup down"}; fmt.Sprint(l.changes) != fmt.Sprint(want) {
		t.Errorf("changes: %q", l.changes)
	}
}

// Many callers may fail in the same moment because of one slow answer. A primary
// that answered others just before is not dead.
func TestFailuresAtOnceAreNotDeath(t *testing.T) {
	l := newLab()
	l.right(time.Millisecond)
	for range 50 {
		l.wrong(0)
	}
	l.is(t, Primary)
	l.now += aliveFor + aliveFor/8
	l.wrong(0)
	l.is(t, Backup)
}

// A third of the keys may be on a node that is down.
func TestAThirdMayFail(t *testing.T) {
	l := newLab()
	for i := range 30_000 {
		if i%3 == 0 {
			l.wrong(100 * time.Microsecond)
		} else {
			l.right(100 * time.Microsecond)
		}
	}
	l.is(t, Primary)
}

func TestOpensOnHalf(t *testing.T) {
	l := newLab()
	calls := 0
	for l.State() == Primary {
		l.wrong(100 * time.Microsecond)
		l.right(100 * time.Microsecond)
		if calls += 2; calls > 2*minCalls {
			t.Fatalf("%d calls, half of which failed, and still %v", calls, l.State())
		}
	}
	if calls < minCalls {
		t.Errorf("left after %d calls", calls)
	}
}

// Failures that are spread out are none of each other's business.
func TestOldFailuresDoNotAddUp(t *testing.T) {
	l := newLab()
	for range 1000 {
		l.wrong(time.Millisecond)
		l.right(time.Millisecond)
		l.now += countWindow
	}
	l.is(t, Primary)
	for range 200 {
		l.right(time.Millisecond)
	}
	l.now += countWindow
	l.right(time.Millisecond)
	if l.counting.Load() {
		t.Error("a second without failures, and every answer is still counted")
	}
}

func (l *lab) die() {
	for l.State() != Backup {
		l.wrong(aliveFor)
	}
}

func TestStragglersSayNothing(t *testing.T) {
	l := newLab()
	before := l.now
	l.die()
	for l.State() == Backup {
		l.now += l.untilProbe()
		l.probed(l.now, true)
	}
	l.is(t, Recovering)
	l.now += aliveFor * 2
	for range 200 {
		l.fail(before, l.now, errDown)
	}
	l.is(t, Recovering)
	for range maxConsecutive {
		l.fail(l.now, l.now, errDown)
	}
	l.is(t, Backup)
	l.succeed(before)
	l.is(t, Backup)
}

func TestRamp(t *testing.T) {
	l := newLab()
	l.die()
	for range 100 {
		if l.admits(l.now) {
			t.Fatal("a primary that is away is asked")
		}
	}
	l.probed(l.now, true)
	l.is(t, Recovering)
	from := l.now
	for _, part := range []float64{0, 0.1, 0.5, 0.9, 1} {
		l.now = from + time.Duration(part*float64(rampUp))
		admitted := 0
		const calls = 20_000
		for range calls {
			if l.admits(l.now) {
				admitted++
			}
		}
		if got := float64(admitted) / calls; got < part-0.03 || got > part+0.03 {
			t.Errorf("%v into the ramp %.2f of the calls go to the primary, want %.2f", l.now-from, got, part)
		}
	}
	l.rampedUp(l.now - 1)
	l.is(t, Recovering)
	l.rampedUp(l.now)
	l.is(t, Primary)
}

// Whenever the primary returns, it is in full use again soon: also one that flaps.
// A probe that it does not answer takes 100 ms.
func TestIsBackSoon(t *testing.T) {
	const deadline, bound = 100 * time.Millisecond, 1500 * time.Millisecond
	var longest time.Duration
	for seed := range uint64(500) {
		l := newLab()
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 1 + rng.IntN(8) {
			l.die()
			returns := l.now + time.Duration(rng.Int64N(int64(5*time.Second)))
			for l.State() == Backup {
				l.now += l.untilProbe()
				answered := l.now >= returns
				if !answered {
					l.now += deadline
				}
				l.probed(l.now, answered)
			}
			l.comeBack()
			longest = max(longest, l.now-returns)
		}
	}
	if longest > bound {
		t.Errorf("back after %v, want at most %v", longest, bound)
	}
	if longest < rampUp+longestPause/2 {
		t.Errorf("back after %v at the latest: the test measures nothing", longest)
	}
}

// Of a primary that is up for a moment and down for a moment, callers see less and
// less; when it has been well for a while, all is forgotten.
func TestFlappingIsDamped(t *testing.T) {
	l := newLab()
	proofs := func() (n int) {
		l.die()
		for l.State() == Backup {
			l.now += l.untilProbe()
			l.probed(l.now, true)
			n++
		}
		l.comeBack()
		return n
	}
	for i, want := range []int{1, 2, 3, 4, 4, 4} {
		if got := proofs(); got != want {
			t.Errorf("after %d times, %d probes had to be answered, want %d", i, got, want)
		}
	}
	l.now += relapsePeriod
	if got := proofs(); got != 1 {
		t.Errorf("after a calm, %d probes had to be answered, want 1", got)
	}

	// Nobody sees a primary that is never up for longer than 200 ms.
	for range 3 {
		l.die()
		l.comeBack()
	}
	l.die()
	before := len(l.changes)
	for end := l.now + time.Minute; l.now < end; {
		l.now += l.untilProbe()
		l.probed(l.now, l.now/(200*time.Millisecond)%2 == 0)
		if l.State() == Recovering {
			l.die()
		}
	}
	if got := len(l.changes) - before; got > 60 {
		t.Errorf("%d changes in a minute", got)
	}
}

func TestProbesAreJittered(t *testing.T) {
	l := newLab()
	l.die()
	for _, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, longestPause, longestPause} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := l.untilProbe()
			if d < pause/2 || d >= pause {
				t.Fatalf("%v until the next probe, want %v to %v", d, pause/2, pause)
			}
			seen[d] = true
		}
		if len(seen) < 90 {
			t.Errorf("%d different pauses of 100", len(seen))
		}
		l.probed(l.now, false)
	}
}
