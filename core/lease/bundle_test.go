package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A bucketUse simulates a token bucket and the accounts of several processes, and records the
// events that they admit. A lease takes a while to arrive, and decisions are open for a while
// before another rule denies them.
type bucketUse struct {
	rng      *rand.Rand
	u        units
	now      int64 // ns
	state    driver.State
	accounts []*account
	arriving []func() // leases
	events   []Event
	open     []openDecision
	returned int64 // tokens that could be spent again
}

// An openDecision has taken tokens and may be denied yet.
type openDecision struct {
	grant grant
	event int
}

func newBucketUse(seed uint64, accounts int, rule core.Rule) *bucketUse {
	x := &bucketUse{rng: rand.New(rand.NewPCG(seed, 11))}
	x.u, _ = newUnits(testkit.Compiled(rule), time.Second)
	for range accounts {
		x.accounts = append(x.accounts, &account{u: x.u, shard: new(shard)})
	}
	return x
}

func (x *bucketUse) micros() int64 { return 1<<50 + x.now/1000 }

// free returns the tokens of the bucket.
func (x *bucketUse) free() int64 {
	r := (&driver.Charge{Rule: x.u.rule, Cost: 1}).Read(x.state, x.micros())
	return int64(x.u.verdict(r, 1, false).Remaining)
}

// charge takes n tokens from the bucket, which has them.
func (x *bucketUse) charge(n int64) (receipt driver.Receipt) {
	c := driver.Charge{Rule: x.u.rule, Cost: int(n)}
	r := c.Read(x.state, x.micros())
	x.state, _ = c.Commit(x.state, &r, x.micros(), true)
	return c.Receipt
}

// leased returns the bundle of a lease of n tokens that a process asked for at asked.
func (x *bucketUse) leased(n, asked int64) bundle {
	receipt := x.charge(n)
	first := x.u.count(receipt.Used)
	return bundle{at: receipt.At, asked: asked, expires: forever, begin: first, end: first + n*x.u.unit}
}

func (x *bucketUse) admit(n int64) { x.events = append(x.events, Event{Micros: x.micros(), Cost: n}) }

// spend spends n tokens of an account, if it holds them. The decision may be denied later.
func (x *bucketUse) spend(a *account, n int64) bool {
	if a.held(x.now) < n {
		return false
	}
	x.decide(a.grant(x.now, n))
	return true
}

func (x *bucketUse) decide(g grant) {
	if x.rng.IntN(3) == 0 {
		x.open = append(x.open, openDecision{g, len(x.events)})
	}
	x.admit(g.bundle.tokens(&x.u))
}

// returnTokens returns the tokens of g, whose decision is denied.
func (x *bucketUse) returnTokens(g grant) {
	g.returnTokens(x.now, &driver.Charge{Rule: x.u.rule, Cost: 1})
}

// step does one thing at random.
func (x *bucketUse) step() {
	a := x.accounts[x.rng.IntN(len(x.accounts))]
	switch x.rng.IntN(12) {
	case 0, 1:
		x.lease(a)
	case 2, 3:
		if len(x.open) > 0 {
			i := x.rng.IntN(len(x.open))
			d := x.open[i]
			x.open = slices.Delete(x.open, i, i+1)
			x.events[d.event].Cost = 0
			before := d.grant.account.held(x.now)
			x.returnTokens(d.grant)
			x.returned += d.grant.account.held(x.now) - before
		}
	case 4: // a process that does not lease
		if n := 1 + x.rng.Int64N(5); x.free() >= n {
			x.charge(n)
			x.admit(n)
		}
	case 5, 6:
		x.now += x.rng.Int64N(1 << (10 + x.rng.IntN(18)))
	case 7:
		if len(x.arriving) > 0 {
			x.arrive(x.rng.IntN(len(x.arriving)))
		}
	case 8:
		if x.rng.IntN(4) == 0 {
			x.spendAll()
		}
	default:
		for range x.rng.IntN(20) {
			x.spend(a, 1+x.rng.Int64N(5))
		}
	}
}

// lease leases tokens for e, and spends some of them at once.
func (x *bucketUse) lease(a *account) {
	free := x.free()
	n := 1 + x.rng.Int64N(1+free/int64(1+x.rng.IntN(8)))
	if a.fetching || free < n {
		return
	}
	a.fetching = true
	b := x.leased(n, x.now-x.rng.Int64N(2_000_000))
	if fresh := x.rng.Int64N(n + 1); fresh > 0 {
		x.decide(grant{outcome: granted, account: a, bundle: b.split(&x.u, fresh)})
	}
	x.arriving = append(x.arriving, func() {
		a.fetching = false
		a.add(b, x.now)
	})
	if x.rng.IntN(2) == 0 {
		x.arrive(len(x.arriving) - 1)
	}
}

func (x *bucketUse) arrive(i int) {
	f := x.arriving[i]
	x.arriving = slices.Delete(x.arriving, i, i+1)
	f()
}

// spendAll spends all tokens, of the accounts in random parts, and of the bucket.
func (x *bucketUse) spendAll() {
	for _, a := range x.accounts {
		for n := a.held(x.now); n > 0; n = a.held(x.now) {
			x.spend(a, 1+x.rng.Int64N(n))
		}
	}
	if n := x.free(); n > 0 {
		x.charge(n)
		x.admit(n)
	}
}

// No span T has more than Burst + rate x T events, in whatever order tokens are leased, spent,
// returned by denied decisions, joined and left to expire, and by whichever process.
func TestBundle_NeverOverTheLimit(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rules := []core.Rule{
		core.TokenBucket("r", core.PerSecond(1000).WithBurst(400)),
		core.TokenBucket("r", core.Per(7001, 3*time.Second).WithBurst(900)),
		core.TokenBucket("r", core.Per(131, 40*time.Millisecond)),
		core.TokenBucket("r", core.PerSecond(100).WithBurst(1000)),
	}
	for _, tt := range []struct {
		name              string
		seeds, min, extra int // steps: min, and less than extra more
	}{{"long", 2000, 300, 1}, {"short", 15_000, 6, 30}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var returned int64
			for seed := range uint64(tt.seeds) {
				rng := rand.New(rand.NewPCG(seed, 13))
				x := newBucketUse(seed, 2+rng.IntN(2), rules[rng.IntN(len(rules))])
				if rng.IntN(2) == 0 {
					n := 1 + rng.Int64N(x.u.rule.Constants.Capacity)
					x.charge(n)
					x.admit(n)
				}
				for range tt.min + rng.IntN(tt.extra) {
					x.step()
				}
				x.now += rng.Int64N(100e6)
				x.spendAll()
				returned += x.returned
				if over := Overflow(x.u.rule, x.events); over > 0 {
					t.Fatalf("%v, seed %d: expected no event over the limit, got %d", x.u.rule, seed, over)
				}
			}
			if returned == 0 {
				t.Error("expected tokens that were returned, got none")
			}
		})
	}
}

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

// A lease ages a little faster than the clock of the process, in case the clock of the Store
// behind is faster: tokens expire early, never late.
func TestBundle_held_ClockOfTheStoreIsFaster(t *testing.T) {
	x := newBucketUse(1, 0, core.TokenBucket("r", core.PerHour(3600)))
	x.charge(1800)
	b := x.leased(100, 0)
	for i := range int64(100) {
		begins := (1800 + i) * int64(time.Second)
		now := begins - begins/2000 // when token i expires by a clock that is 0.05 % faster
		if held := b.held(&x.u, now); held > 99-i {
			t.Fatalf("expected %d tokens or fewer after %v, got %d", 99-i, time.Duration(now), held)
		}
	}
	if held := b.held(&x.u, 1790*int64(time.Second)); held != 100 {
		t.Errorf("expected 100 tokens before any expires, got %d", held)
	}
}

// Two bundles of a window that are joined expire with the lease that expires first.
func TestBundle_join_Expiry(t *testing.T) {
	u, _ := newUnits(testkit.Compiled(core.FixedWindow("w", core.PerDay(1000))), time.Second)
	for _, expires := range [][2]int64{{100, 200}, {200, 100}} {
		b := bundle{expires: expires[0], end: 3}
		b.join(&u, bundle{expires: expires[1], end: 4})
		if before, after := b.held(&u, 99), b.held(&u, 100); before != 7 || after != 0 {
			t.Errorf("expiries %v: expected 7 tokens, then 0, got %d and %d", expires, before, after)
		}
	}
}
