package storetest

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// accountRules forget no event during a history, except for places whose holders do not renew them.
var accountRules = []core.Rule{
	core.SlidingLog("log", core.Per(20, 366*24*time.Hour)).Plan("more", core.Per(50, 366*24*time.Hour)),
	core.SlidingWindow("window", core.Per(200, 366*24*time.Hour)).Plan("more", core.Per(300, 366*24*time.Hour)),
	core.FixedWindow("fixed", core.Per(2000, 366*24*time.Hour)).Plan("more", core.Per(3000, 366*24*time.Hour)),
	core.TokenBucket("bucket", core.Per(500, 366*24*time.Hour)).Plan("more", core.Per(900, 366*24*time.Hour)),
	core.Quota("quota", core.Monthly(100)).Plan("more", core.Monthly(200)),
	core.InFlight("places", 6).Hold(30 * time.Second),
	core.InFlight("bytes", 40).ByCost().Hold(30 * time.Second),
	core.Pause("pause"),
}

// account reserves, settles and refunds events, some of them while the primary fails. At the end, all are refunded. No
// Store behind has places left then and, if no call can have been decided that failed, no events. (A refund of events is
// not repeated.)
func (o *over) account() {
	o.Helper()
	exact, ctx, rules := !o.trouble.lost, context.Background(), slices.Clone(accountRules)
	o.rng.Shuffle(len(rules), func(i, k int) { rules[i], rules[k] = rules[k], rules[i] })
	rules = rules[:1+o.rng.IntN(3)]
	l := core.Must(core.New(o.Store, rules...))
	single := slices.ContainsFunc(rules, func(r core.Rule) bool { return r.Name() == "places" })
	var open []*core.Reservation
	for range 60 {
		o.change()
		view, key, n := l.Plan(pick(o.walk, "", "more")), pick(o.walk, "a", "b"), 1+o.rng.IntN(4)
		switch i := o.rng.IntN(1 + len(open)); {
		case i > 0 && o.one(2):
			err := open[i-1].Refund(ctx)
			if exact = exact && err == nil; err == nil {
				open = slices.Delete(open, i-1, i)
			}
			o.must(err)
		case i > 0 && o.one(2):
			err := open[i-1].Settle(ctx, n)
			exact = exact && err == nil
			o.must(err)
		default:
			reserve := view.Reserve
			if !single && o.one(3) {
				reserve = view.ReserveAtMost
			}
			r, err := reserve(ctx, key, n)
			if o.must(err); err == nil {
				open = append(open, r)
			}
		}
		time.Sleep(time.Duration(o.rng.Int64N(int64(time.Second))))
	}
	o.heal()
	time.Sleep(time.Minute)
	for _, r := range open {
		if err := r.Refund(ctx); err != nil {
			o.differ("the primary has been healthy for a minute: %v", err)
		}
	}
	if c, ok := o.Store.(io.Closer); ok {
		_ = c.Close()
	}
	for name, s := range map[string]*Fake{"primary": o.primary, "backup": o.backup} {
		for _, key := range []string{"a", "b"} {
			for _, left := range testkit.Peek(o, core.Must(core.New(s.store(), rules...)), key).States() {
				if left.Used() != 0 && (exact || left.Rule.Kind().Holds) {
					o.differ("the %s has events of %q left under %v: %+v", name, key, rules, left)
				}
			}
		}
	}
}
