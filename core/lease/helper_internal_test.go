package lease

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
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
