package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The build tag is here because sync.Pool drops objects at random under the race detector.
func TestLimiter_Allow_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ctx := context.Background()
	for _, c := range []struct {
		rules []core.Rule
		want  float64
	}{
		{[]core.Rule{core.TokenBucket("bucket", core.PerSecond(1_000_000))}, 0},
		{[]core.Rule{core.TokenBucket("denied", core.PerDay(1))}, 0},
		{[]core.Rule{core.SlidingLog("log", core.PerHour(5))}, 0},
		{[]core.Rule{core.TokenBucket("plans", core.PerHour(5)).Plan("pro", core.PerHour(10))}, 0},
		{[]core.Rule{core.TokenBucket("unlimited", core.Unlimited)}, 0},
		{[]core.Rule{core.TokenBucket("headroom", core.PerHour(5)).Headroom("batch", 50)}, 0},
		{[]core.Rule{core.Quota("quota", core.Monthly(5))}, 0},
		{[]core.Rule{core.Pause("pause")}, 0},
		{[]core.Rule{core.Quota("anchor", core.Monthly(5)).Anchor(func(context.Context, string) time.Time { return time.Unix(1e9, 0) })}, 2}, // the rule during the periods of the key
		{[]core.Rule{core.TokenBucket("second", core.PerSecond(10)), core.TokenBucket("hour", core.PerHour(500))}, 1},
	} {
		l := core.Must(core.New(memstore.New(), c.rules...))
		for range 10 {
			_, _ = l.Allow(ctx, "key")
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "key") }); n > c.want {
			t.Errorf("%v: got %v allocations in a decision, want %v", c.rules, n, c.want)
		}
	}
}

func TestLimiter_Views_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ctx := context.Background()
	l := core.Must(core.New(memstore.New(), core.TokenBucket("bucket", core.PerSecond(1_000_000)).
		Plan("pro", core.PerSecond(2_000_000)).Plan("staff", core.Unlimited)))
	variant := core.Must(l.Variant(core.TokenBucket("bucket", core.PerSecond(3_000_000))))
	pro := l.Plan("pro")
	chosen := l.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
		if key == "key" {
			return variant, nil
		}
		return pro, nil
	})
	one, two := core.Ask{Limiter: l, Key: "key"}, core.Ask{Limiter: chosen, Key: "other"}
	for name, c := range map[string]struct {
		call func()
		want float64
	}{
		"Plan":                  {func() { _, _ = pro.Allow(ctx, "key") }, 0},
		"an unknown Plan":       {func() { _, _ = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "key", Plan: "other"}) }, 0},
		"Ask.Plan":              {func() { _, _ = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "key", Plan: "pro"}) }, 0},
		"Ask.Plan, unlimited":   {func() { _, _ = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "key", Plan: "staff"}) }, 0},
		"Variant":               {func() { _, _ = variant.Allow(ctx, "key") }, 0},
		"Choose of a Variant":   {func() { _, _ = chosen.Allow(ctx, "key") }, 0},
		"Choose of a Plan":      {func() { _, _ = chosen.Allow(ctx, "other") }, 0},
		"two asks":              {func() { _, _ = core.AllowTogether(ctx, one, two) }, 1}, // the second State
		"Reserve":               {func() { _, _ = l.Reserve(ctx, "key", 1) }, 1},
		"Reserve with Ask.Plan": {func() { _, _ = core.ReserveTogether(ctx, core.Ask{Limiter: l, Key: "key", Plan: "pro"}) }, 1},
		"ReserveTogether":       {func() { _, _ = core.ReserveTogether(ctx, one) }, 1},
	} {
		for range 10 {
			c.call()
		}
		if n := testing.AllocsPerRun(1000, c.call); n > c.want {
			t.Errorf("%s: got %v allocations, want %v", name, n, c.want)
		}
	}
}
