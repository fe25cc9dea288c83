package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

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
