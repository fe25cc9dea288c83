package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// Tokens that are returned can all be spent again, whatever their order, as long as they have
// not expired.
func TestGrant_returnTokens_LosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		x := newBucketUse(seed, 1, core.TokenBucket("r", core.PerHour(1000)))
		a := x.accounts[0]
		x.charge(500) // tokens expire in half an hour
		var open []grant
		held := int64(0)
		lease := func(n int64) {
			a.add(x.leased(n, x.now), x.now)
			held += n
		}
		lease(50)
		lease(50)
		for range 200 {
			x.now += x.rng.Int64N(1e9)
			if x.rng.IntN(10) == 0 {
				lease(1 + x.rng.Int64N(5))
			}
			if x.rng.IntN(10) == 0 { // tokens that have expired change nothing
				expired := bundle{at: x.micros(), asked: x.now - 100e9, expires: forever, end: 2 * x.u.unit}
				x.returnTokens(grant{outcome: granted, account: a, bundle: expired})
			}
			if n := 1 + x.rng.Int64N(9); x.rng.IntN(2) == 0 && a.held(x.now) >= n {
				open = append(open, a.grant(x.now, n))
			} else if len(open) > 0 {
				i := x.rng.IntN(len(open))
				if x.rng.IntN(5) > 0 {
					x.returnTokens(open[i])
				} else {
					held -= open[i].bundle.tokens(&x.u)
				}
				open = slices.Delete(open, i, i+1)
			}
		}
		for i := range open {
			x.returnTokens(open[i])
		}
		if got := a.held(x.now); got != held {
			t.Fatalf("seed %d: expected %d tokens, got %d", seed, held, got)
		}
	}
}

// Tokens may be returned after later ones of the same bundle have been spent.
func TestGrant_returnTokens_AfterLaterOnesWereSpent(t *testing.T) {
	x := newBucketUse(1, 1, core.TokenBucket("r", core.PerSecond(1000)))
	a := x.accounts[0]
	x.charge(100)
	x.admit(100)
	a.add(x.leased(60, 0), 0)
	first, second := a.grant(0, 20), a.grant(0, 20)
	x.now = 99e6 // tokens expire after 100 ms
	x.returnTokens(first)
	if held := a.held(x.now); held < 20 {
		t.Errorf("expected 20 tokens or more, got %d", held)
	}
	x.now = 118e6
	if held := a.held(x.now); held < 20 {
		t.Fatalf("expected 20 tokens or more, got %d", held)
	}
	a.grant(x.now, 20)
	x.admit(20)
	x.returnTokens(second)
	x.spendAll()
	if over := Overflow(x.u.rule, x.events); over > 0 {
		t.Errorf("expected no event over the limit, got %d", over)
	}
}

// A decision that took tokens of one side of a failover Store, and is denied after the switch
// to the other side, returns none.
func TestGrant_returnTokens_OfAnotherOrigin(t *testing.T) {
	rule := testkit.Compiled(core.FixedWindow("w", core.PerDay(16_000)))
	a := &account{shard: new(shard)}
	a.u, _ = newUnits(rule, time.Second)
	var grants []grant
	for _, origin := range []int{1, 2} {
		a.setOrigin(origin)
		a.add(bundle{expires: forever, end: 20, origin: origin}, 0)
		grants = append(grants, a.grant(0, 5))
	}
	for i, want := range []int64{15, 20} {
		grants[i].returnTokens(0, &driver.Charge{Rule: rule, Cost: 1})
		if held := a.held(0); held != want {
			t.Errorf("after the return of grant %d: expected %d tokens of the second side, got %d", i+1, want, held)
		}
	}
}
