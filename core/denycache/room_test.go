package denycache_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
)

// What makes room through this Store is seen at once, and only on its own key.
func TestRoomMadeHere(t *testing.T) {
	ctx := context.Background()
	for name, room := range map[string]func(l *core.Limiter, r *core.Reservation) error{
		"reset": func(l *core.Limiter, _ *core.Reservation) error {
			_, err := l.Reset(ctx, "k")
			return err
		},
		"refund": func(l *core.Limiter, _ *core.Reservation) error { return l.Credit(ctx, "k", 1) },
		"undo":   func(_ *core.Limiter, r *core.Reservation) error { return r.Refund(ctx) },
	} {
		b := newBench(t, denycache.MaxAge(age))
		l := limiter(t, b.cache, core.SlidingLog("r", core.PerHour(3)))
		r, err := l.Reserve(ctx, "k", 3)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, l, "other", 3)
		ask(t, l, "k", 1)
		ask(t, l, "other", 1)
		b.here(l, "k", 1)
		if err := room(l, r); err != nil {
			t.Fatal(err)
		}
		if !b.there(l, "k", 1).Allowed {
			t.Errorf("%s: still denied", name)
		}
		b.here(l, "other", 1)
	}
}

// What is charged through this Store makes the wait longer, and that is told.
func TestChargesMadeHere(t *testing.T) {
	b := newBench(t, denycache.MaxAge(age))
	l, key := b.spent(10)
	before := b.here(l, key, 1)
	if err := l.Debit(t.Context(), key, 2); err != nil {
		t.Fatal(err)
	}
	if d := b.there(l, key, 1); d.RetryAfter != before.RetryAfter+12*time.Minute {
		t.Errorf("before %v, and after 2 more of 10 an hour %v", before.RetryAfter, d.RetryAfter)
	}
	b.clocks.pass(20 * time.Minute)
	if b.there(l, key, 2).Allowed || !b.there(l, key, 1).Allowed {
		t.Fatal("20 minutes later there is room for one, not for two")
	}
	if d := b.here(l, key, 2); d.Allowed || d.RetryAfter != 10*time.Minute {
		t.Errorf("for two, %v", d.RetryAfter)
	}
}

// What another process does gets through within MaxAge.
func TestRoomMadeElsewhere(t *testing.T) {
	b := newBench(t)
	l, key := b.spent(10)
	if _, err := limiter(t, b.behind, l.Rules()...).Reset(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b.clocks.pass(time.Second - time.Nanosecond)
	b.here(l, key, 1)
	b.clocks.pass(time.Nanosecond)
	if !b.there(l, key, 1).Allowed {
		t.Error("still denied")
	}
	if !b.there(l, key, 9).Allowed {
		t.Error("once there was room, it was denied again")
	}
}

// What the Store says about one rule of a decision counts, even if another denies.
func TestRoomSeenBesideADenial(t *testing.T) {
	b := newBench(t, denycache.MaxAge(age))
	user := limiter(t, b.cache, core.SlidingLog("user", core.PerHour(2)))
	ip := limiter(t, b.cache, core.TokenBucket("ip", core.PerHour(1)))
	ask(t, ip, "i", 1)
	ask(t, user, "u", 2)
	b.here(user, "u", 1)
	if _, err := limiter(t, b.behind, user.Rules()...).Reset(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	// When a log has room for two is not known, so the Store is asked.
	d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: user, Key: "u", Cost: 2}, core.Ask{Limiter: ip, Key: "i", Cost: 1})
	if err != nil || d.Allowed || !d.State(0).Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if !b.there(user, "u", 1).Allowed {
		t.Error("room for two was seen, and one is still denied")
	}
}
