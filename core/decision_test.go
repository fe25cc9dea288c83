package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestDecision_String(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(),
			core.TokenBucket("second", core.PerSecond(10)), core.SlidingLog("hour", core.PerHour(500))))
		queue := core.Must(core.New(memstore.New(), core.LeakyBucket("queue", core.PerSecond(10))))
		both := core.Must(core.New(memstore.New(), core.TokenBucket("page", core.Blocked), core.SlidingLog("hour", core.Unlimited), core.TokenBucket("day", core.PerDay(3))))
		open := core.Must(both.Variant(core.TokenBucket("page", core.Blocked).Shadow()))
		ask := func(l *core.Limiter, n int) core.Decision { return testkit.Ask(t, l, "k", n) }
		for _, c := range []struct {
			got       core.Decision
			want, log string
		}{
			{core.Decision{}, `no decision`, `d.allowed=false`},
			{ask(l, 1), `allowed: "second" 9 of 10 left, "hour" 499 of 500 left`,
				`d.allowed=true d.remaining.second=9 d.remaining.hour=499`},
			{ask(l, 10), `denied, retry after 100ms: "second" 9 of 10 left, "hour" 499 of 500 left`,
				`d.allowed=false d.retry_after=100ms d.remaining.second=9 d.remaining.hour=499`},
			{ask(l, 11), `denied for ever: "second" 9 of 10 left, "hour" 499 of 500 left`,
				`d.allowed=false d.retry_after=never d.remaining.second=9 d.remaining.hour=499`},
			{ask(queue, 1), `allowed: "queue" 9 of 10 left`, `d.allowed=true d.remaining.queue=9`},
			{ask(queue, 1), `allowed after 100ms: "queue" 8 of 10 left`, `d.allowed=true d.delay=100ms d.remaining.queue=8`},
			{ask(both, 1), `denied for ever: "page" blocked, "hour" unlimited, "day" unknown`,
				`d.allowed=false d.retry_after=never d.remaining.page=0`},
			{ask(open, 2), `allowed: "page" blocked, "hour" unlimited, "day" 1 of 3 left`,
				`d.allowed=true d.remaining.page=0 d.remaining.day=1`},
		} {
			if got := fmt.Sprint(c.got); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			var b bytes.Buffer
			slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if len(groups) == 0 {
					return slog.Attr{}
				}
				return a
			}})).Info("", "d", c.got)
			if got, want := b.String(), c.log+"\n"; got != want {
				t.Errorf("got the log %q, want %q", got, want)
			}
		}
	})
}

// A rule whose state is unknown has no numbers, and the decision is a denial.
func TestDecision_String_UnknownState(t *testing.T) {
	fake := new(storetest.Fake)
	l := testkit.Limiter(t, fake, core.TokenBucket("second", core.PerSecond(10)), core.SlidingLog("hour", core.PerHour(500)))
	for want, known := range map[string]driver.Verdict{
		`denied, retry after 3s: "second" 0 of 10 left, "hour" unknown`: {RetryAfter: 3 * time.Second},
		`denied, retry after 0s: "second" 9 of 10 left, "hour" unknown`: {Allowed: true, Remaining: 9},
	} {
		fake.Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
			charges[0].Verdict = known
			charges[1].Verdict = driver.Verdict{Allowed: true, Unknown: true}
			return nil
		})
		d := testkit.Allow(t, l, "k")
		if d.String() != want || !d.State(1).Unknown || !d.State(1).Allowed {
			t.Errorf("got %s and %+v, want %s", d, d.State(1), want)
		}
		if s := d.LogValue().String(); strings.Contains(s, "hour") {
			t.Errorf("got the log value %s, want it without hour", s)
		}
	}
}

func TestState_UsedAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerMinute(10).WithBurst(20)).Soft(50)))
		for _, c := range []struct{ cost, used int }{{5, 5}, {10, 15}, {10, 20}} {
			if s := testkit.Ask(t, l, "k", c.cost).State(0); s.Used() != c.used || s.Limit() != core.PerMinute(10).WithBurst(20) {
				t.Errorf("got %d used of %v, want %d", s.Used(), s.Limit(), c.used)
			}
		}
	})
}
