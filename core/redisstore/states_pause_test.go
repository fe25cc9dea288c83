package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

const longestPause = 366 * day

// Only a debit writes the key of a pause. The key has the name of the rule, 14 bytes, and expires at the end: in a
// real Redis, and on a Cluster.
func TestPause_keys(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for _, on := range []struct {
		name string
		rdb  redis.UniversalClient
	}{{"single", single.Client()}, {"cluster", cluster.Client()}} {
		for _, mode := range modes {
			t.Run(on.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				s := newStore(on.rdb, mode.opts...)
				rule := core.Pause("partner")
				l := testkit.Limiter(t, s, rule, core.FixedWindow("rate", core.PerDay(1000)))
				for i, d := range []time.Duration{time.Minute, 90*time.Minute + time.Microsecond, longestPause} {
					id := fmt.Sprint("k", i)
					name := s.Key(id, rule)
					if !strings.HasSuffix(name, "}p1:0:partner") {
						t.Errorf("the key is %q, want one of a pause", name)
					}
					written := func() bool {
						n, err := on.rdb.Exists(t.Context(), name).Result()
						testkit.Must(t, err)
						return n > 0
					}
					testkit.Admit(t, l, id, 5)
					testkit.Peek(t, l, id)
					testkit.Must(t, l.Credit(t.Context(), id, 1))
					testkit.Must(t, l.Debit(t.Context(), id, 1))
					testkit.Must(t, testkit.Reserve(t, l, id, 3).Settle(t.Context(), 1))
					if written() {
						t.Errorf("%s: events have written %q", id, name)
					}
					testkit.Must(t, l.Pause(t.Context(), id, d))
					for range 2 { // a denial writes nothing
						ttl, err := on.rdb.PTTL(t.Context(), name).Result()
						testkit.Must(t, err)
						if ttl > d+time.Second || ttl < d-waitLimit {
							t.Errorf("%s: the TTL is %v, want %v", id, ttl, d)
						}
						if n, err := on.rdb.StrLen(t.Context(), name).Result(); err != nil || n != 14 {
							t.Errorf("%s: the state has %d bytes, %v, want 14", id, n, err)
						}
						if decision := testkit.Ask(t, l, id, 1); decision.Allowed || decision.RetryAfter > d || decision.RetryAfter < d-waitLimit {
							t.Errorf("%s: the decision is %+v, want a denial for %v", id, decision, d)
						}
					}
					if err := s.Probe(t.Context(), peeks(l, id)); err != nil {
						t.Errorf("the probe failed: %v", err)
					}
					if !written() {
						t.Errorf("%s: the probe has changed the state", id)
					}
					testkit.Must(t, l.Pause(t.Context(), id, 0))
					if written() {
						t.Errorf("%s: the state is still there after the end of the pause", id)
					}
				}
			})
		}
	}
}

// The key does not expire before the end of a pause, and soon after it.
func TestPause_ttl(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	s, rule := newStore(rdb), core.Pause("ttl")
	l := testkit.Limiter(t, s, rule)
	for _, d := range []time.Duration{time.Second, time.Second + time.Microsecond, 1999999 * time.Microsecond, time.Hour, longestPause} {
		before := rdb.Time(t.Context()).Val()
		testkit.Must(t, l.Pause(t.Context(), d.String(), d))
		after := rdb.Time(t.Context()).Val()
		key := expiryOf(t, rdb, s.Key(d.String(), rule))
		if want := before.Add(d); key.latest.Before(want) {
			t.Errorf("%v: the key expires %v before the end", d, want.Sub(key.latest))
		}
		if want := after.Add(d + 10*time.Millisecond); key.earliest.After(want) {
			t.Errorf("%v: the key expires %v after the end", d, key.earliest.Sub(want))
		}
	}
}

// The memory of a pause does not depend on its length.
func TestMemory_pause(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	s, rule := newStore(rdb, redisstore.Prefix(redisstore.DefaultPrefix)), core.Pause("requests per second")
	l := testkit.Limiter(t, s, rule)
	for _, d := range []time.Duration{time.Minute, longestPause} {
		testkit.Must(t, l.Pause(t.Context(), "k", d))
		if n := memoryOf(t, rdb, s.Key("k", rule)); n > 140 {
			t.Errorf("%v: the state has %d bytes, want at most 140", d, n)
		}
	}
}

// A state that no script writes causes no error, and closes no key. It is counted when a debit replaces it.
func TestPause_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // as in harness
	hour, longest := time.Hour.Microseconds(), longestPause.Microseconds()
	state := func(end, written int64) writer { return text(pauseText(driver.State{Time: end, Debt: written})) }
	for _, c := range append(foreign(),
		corruption{"no length", 1, state(now, now)},
		corruption{"an end before the write", 1, state(now+hour, now+hour+1)},
		corruption{"a microsecond more than 366 days", 1, state(now+longest+1, now)},
		corruption{"an end in 100 years", 1, state(now+100*longest, now)},
		corruption{"an end beyond integers", 1, state(1<<53, 1<<53-1)},
		corruption{"no write", 1, state(now+hour, 0)},
		corruption{"the largest numbers", 1, state(1<<56-1, 1<<56-1)},
		corruption{"zeros", 1, text(strings.Repeat("\x00", 14))},
		corruption{"fourteen letters", 1, text("abcdefghijklmn")},
		corruption{"fourteen digits", 1, text("17672256000000")},
		corruption{"thirteen bytes", 1, text(pauseText(driver.State{Time: now + hour, Debt: now})[:13])},
		corruption{"fifteen bytes", 1, text(pauseText(driver.State{Time: now + hour, Debt: now}) + "\x00")},
		corruption{"a quota", 1, text(quotaText(driver.State{Time: now + hour, Debt: now, Amount: 1}))},
		corruption{"a pause that has ended", 0, state(now-1, now-hour)},
	) {
		for _, mode := range modes {
			t.Run(mode.name+"/"+c.name, func(t *testing.T) {
				h := harness(rdb, mode.opts...)
				s := h.Store.(*redisstore.Store)
				rule := testkit.Compiled(core.Pause("corrupt"))
				key := s.StateKey("k", rule)
				do := func(charge driver.Charge) driver.Charge {
					t.Helper()
					charge.Key, charge.Rule, charge.Cost = "k", rule, max(1, charge.Cost)
					charges := []driver.Charge{charge}
					testkit.Must(t, storetest.Do(t.Context(), s, charges))
					return charges[0]
				}
				write := func() {
					t.Helper()
					testkit.Must(t, rdb.Del(t.Context(), key).Err())
					testkit.Must(t, c.write(t.Context(), rdb, key))
				}
				for _, charge := range []driver.Charge{
					{Op: driver.Spend}, {Op: driver.Peek}, {Cost: 1000, AtMost: true}, {Op: driver.Credit}, {Op: driver.Debit},
					{Op: driver.Undo, Receipt: driver.Receipt{At: now}}, {Op: driver.Reset},
				} {
					write()
					if v := do(charge).Verdict; !v.Allowed || v.ResetAfter != 0 || v.Found {
						t.Errorf("op %d, at most %t: the verdict is %+v, want that of a key without a pause", charge.Op, charge.AtMost, v)
					}
				}
				if n := s.Stats().Corrupt; n != 0 {
					t.Errorf("%d states were counted as corrupt before a debit, want 0", n)
				}
				write()
				if v := do(driver.Charge{Op: driver.Debit, Pause: time.Minute}).Verdict; v.ResetAfter != time.Minute {
					t.Errorf("after a debit, the verdict is %+v, want a minute", v)
				}
				if v := do(driver.Charge{}).Verdict; v.Allowed || v.RetryAfter != time.Minute {
					t.Errorf("in a pause, the verdict is %+v, want a denial for a minute", v)
				}
				if n := s.Stats().Corrupt; n != uint64(c.unreadable) {
					t.Errorf("%d states were counted as corrupt, want %d", n, c.unreadable)
				}
			})
		}
	}
}

// A reply that no script returns is an error, or denies if the reply of the server does.
func TestPause_wrongReply(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for _, paused := range []bool{false, true} {
			for _, op := range []driver.Op{driver.Spend, driver.Peek, driver.Debit, driver.Credit, driver.Undo, driver.Reset} {
				t.Run(fmt.Sprintf("%s/paused %t/op %d", mode.name, paused, op), func(t *testing.T) {
					t.Parallel()
					server, rdb := newReplacer(t, waitLimit)
					s := newStore(rdb, mode.opts...)
					rule := testkit.Compiled(core.Pause("r"))
					do := func(op driver.Op, d time.Duration) (driver.Verdict, error) {
						charges := []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1, Pause: d}}
						err := storetest.Do(t.Context(), s, charges)
						return charges[0].Verdict, err
					}
					if paused && op != driver.Reset {
						_, err := do(driver.Debit, longestPause)
						testkit.Must(t, err)
					}
					_, err := do(op, 0)
					testkit.Must(t, err)
					all := mutations(*server.last.Load())
					for _, name := range slices.Sorted(maps.Keys(invalidReplies)) {
						all = append(all, mutation{name, invalidReplies[name]})
					}
					for _, m := range all {
						server.wrong.Store(m.raw)
						v, err := do(op, 0)
						if denial := paused && op.Asks() && err == nil && !v.Allowed && v.RetryAfter > 0; !errors.Is(err, core.ErrUnavailable) && !denial {
							t.Errorf("%s, %q: the verdict is %+v, %v, want core.ErrUnavailable", m.name, m.raw, v, err)
						}
					}
					// Lengths that no pause has.
					for _, rest := range []int64{longestPause.Microseconds() + 1, 1<<53 - 1, 1 << 53} {
						reply := slices.Clone(*server.last.Load())
						reply[3] = rest
						server.wrong.Store(resp(reply))
						if v, err := do(op, 0); !errors.Is(err, core.ErrUnavailable) {
							t.Errorf("a rest of %d: the verdict is %+v, %v, want core.ErrUnavailable", rest, v, err)
						}
					}
					server.wrong.Store("")
					v, err := do(driver.Peek, 0)
					if testkit.Must(t, err); v.Allowed == (paused && op != driver.Reset) {
						t.Errorf("the verdict is %+v after wrong replies", v)
					}
				})
			}
		}
	}
}

// A pause is known to all Stores of a Redis at their next decision.
func TestPause_shared(t *testing.T) {
	t.Parallel()
	own := prefix()
	var limiters []*core.Limiter
	for _, mode := range modes {
		s := newStore(redistest.Shared(t).Client(), append(mode.opts, own)...)
		limiters = append(limiters, testkit.Limiter(t, s, core.TokenBucket("rate", core.PerDay(1000)), core.Pause("partner")))
	}
	for i, l := range limiters {
		key, other := fmt.Sprint("k", i), limiters[1-i]
		testkit.Admit(t, other, key, 1)
		testkit.Must(t, l.Pause(t.Context(), key, time.Hour))
		if d := testkit.Ask(t, other, key, 1); d.Allowed || d.State(0).Remaining != 999 {
			t.Errorf("the decision is %+v, want a denial that takes nothing of the rate", d)
		}
		testkit.Must(t, other.Pause(t.Context(), key, 0))
		testkit.Admit(t, l, key, 1)
	}
}
