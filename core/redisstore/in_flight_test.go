package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
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

// inFlight returns a rule for events at the same time, with extra percent of them.
func inFlight(t testing.TB, name string, events int, hold time.Duration, soft float64) *driver.Compiled {
	t.Helper()
	rule, err := driver.Definition{Name: name, Algorithm: driver.InFlight, Events: events, Hold: hold, Soft: soft}.Compile()
	testkit.Must(t, err)
	return rule
}

// byCost returns a rule of n places by cost, with extra percent of them.
func byCost(t testing.TB, name string, n int, hold time.Duration, soft float64) *driver.Compiled {
	t.Helper()
	d := driver.Definition{Name: name, Algorithm: driver.InFlight, Events: n, Hold: hold, Soft: soft, ByCost: true}
	rule, err := d.Compile()
	testkit.Must(t, err)
	return rule
}

// A flight is a Store with a rule for events at the same time, whose charges have the key "k".
type flight struct {
	*storetest.Harness
	t    testing.TB
	rdb  redis.UniversalClient
	rule *driver.Compiled
	key  string // in Redis
	cost int    // of charges
}

func newFlight(t testing.TB, rdb redis.UniversalClient, rule *driver.Compiled, opts ...redisstore.Option) *flight {
	h := harness(rdb, opts...)
	return &flight{h, t, rdb, rule, h.Store.(*redisstore.Store).StateKey("k", rule), 1}
}

// do executes one charge and returns it.
func (f *flight) do(op driver.Op, m driver.Receipt) driver.Charge {
	f.t.Helper()
	c, err := f.try(op, m)
	testkit.Must(f.t, err)
	return c
}

func (f *flight) try(op driver.Op, m driver.Receipt) (driver.Charge, error) {
	charges := []driver.Charge{{Key: "k", Rule: f.rule, Op: op, Cost: f.cost, Receipt: m}}
	err := storetest.Do(f.t.Context(), f.Store, charges)
	return charges[0], err
}

// take takes a place and returns its receipt.
func (f *flight) take() driver.Receipt {
	f.t.Helper()
	c := f.do(driver.Spend, driver.Receipt{})
	if !c.Verdict.Allowed {
		f.t.Fatalf("the verdict is %+v, want an admission", c.Verdict)
	}
	return c.Receipt
}

// costs returns f with charges of a cost.
func (f *flight) costs(cost int) *flight {
	other := *f
	other.cost = cost
	return &other
}

// places returns the numbers of the events in the state that lua/in_flight.lua describes, and the times of their renewals.
func (f *flight) places() map[string]float64 {
	f.t.Helper()
	all, err := f.rdb.ZRangeWithScores(f.t.Context(), f.key, 0, -1).Result()
	testkit.Must(f.t, err)
	places := make(map[string]float64)
	for _, z := range all {
		places[z.Member.(string)] = z.Score
	}
	total, ok := places["total"]
	delete(places, "total")
	if sum := f.sum(places); ok != (len(places) > 0) || -int(total) != sum {
		f.t.Fatalf("the total is %v, want %d of %d events", -total, sum, len(places))
	}
	return places
}

// sum returns the sum of the costs of places.
func (f *flight) sum(places map[string]float64) (sum int) {
	f.t.Helper()
	for number := range places {
		n, err := strconv.ParseInt(number, 10, 64)
		testkit.Must(f.t, err)
		if n <= 0 || n > 1<<53-1 {
			f.t.Fatalf("the number %d is not exact in Lua", n)
		}
		sum += int(n % (1 << 20))
	}
	return sum
}

// Random histories have the verdicts, receipts and costs of package driver, by cost and with a place for each event, with few
// events and with many, under two limits and two kinds of AtMost, while the clock stands still, advances and steps back. The total of a
// state is always the sum of its costs.
func TestInFlight_random(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	rdb.AddHook(argumentChecker{})
	const fills = 1100 // places of a rule of which only events of cost 1 fill a key, more than there can be events
	for _, c := range []struct {
		places, cost, steps int // cost is the largest, as a rule
		soft                float64
		step, unit          time.Duration // longest time between two charges, a multiple of unit
		rule                func(t testing.TB, name string, n int, hold time.Duration, soft float64) *driver.Compiled
	}{
		{1, 2, 400, 0, 2 * time.Second, time.Second, byCost},
		{10, 6, 1500, 50, 2 * time.Second, time.Microsecond, byCost},
		{100, 20, 1500, 0, 600 * time.Millisecond, 200 * time.Millisecond, byCost},
		{500_000, 90_000, 800, 10, 0, time.Microsecond, byCost},
		{fills, 1, 3500, 0, time.Millisecond, time.Microsecond, byCost},
		{900_000, 1500, 2500, 10, 5 * time.Millisecond, time.Microsecond, byCost},
		{1, 1, 400, 0, 2 * time.Second, time.Second, inFlight},
		{3, 1, 1000, 50, 2 * time.Second, time.Microsecond, inFlight},
		{900, 1, 2000, 10, 5 * time.Millisecond, time.Microsecond, inFlight},
	} {
		t.Run(fmt.Sprintf("%d+%v%% by %d, %v, by cost %t", c.places, c.soft, c.cost, c.step, c.rule(t, "random", 1, time.Minute, 0).ByCost), func(t *testing.T) {
			t.Parallel()
			const hold = 10 * time.Second
			f := newFlight(t, rdb, c.rule(t, "random", c.places, hold, c.soft))
			less := c.rule(t, "random", max(1, c.places/2), hold, 0)
			shadow := f.rule.Definition
			shadow.Shadow = true
			shadowed, err := shadow.Compile()
			testkit.Must(t, err)
			rng := rand.New(rand.NewPCG(uint64(c.places), uint64(c.step)))
			var state driver.State
			var receipts []driver.Receipt
			numbers := make(map[int64]int64) // those of package driver, by those of the Store
			var trace []string
			most, mostTaken := 0, 0
			for range c.steps {
				f.Advance(time.Duration(rng.Int64N(int64(c.step) + 1)).Truncate(c.unit))
				switch {
				case rng.IntN(40) == 0:
					f.Advance(-time.Duration(rng.Int64N(int64(hold / 2))).Truncate(c.unit))
				case rng.IntN(1000) == 0 && c.places != fills:
					f.Advance(hold)
				}
				got := driver.Charge{Key: "k", Rule: f.rule, Cost: 1 + rng.IntN(c.cost)}
				switch n := rng.IntN(40); {
				case n < 2:
					got.Rule = less
				case n == 2:
					got.Rule = shadowed
				case n == 3 && c.places != fills:
					got.Cost = 1 + rng.IntN(c.places+2)
				}
				switch n := rng.IntN(100); {
				case n < 3:
					got.Op = driver.Peek
				case n == 3 && rng.IntN(15) == 0 && c.places != fills:
					got.Op = driver.Reset
				case n < 30 && len(receipts) > 0: // also of events that have ended or lapsed
					got.Op = []driver.Op{driver.Undo, driver.Renew, driver.Renew}[rng.IntN(3)]
					got.Receipt = receipts[max(0, len(receipts)-1-rng.IntN(1+min(2*c.places, len(receipts))))]
				case n < 36:
					got.AtMost = f.rule.ByCost
				}
				if !f.rule.ByCost {
					got.Cost = 1
				}
				want, now := got, f.Now().UnixMicro()
				want.Receipt.At = numbers[got.Receipt.At]
				trace = append(trace, fmt.Sprintf("op %d of %v, cost %d, at most %t, receipt %v, at %d",
					got.Op, got.Rule, got.Cost, got.AtMost, got.Receipt, now))
				state = apply(&want, state, now)
				charges := []driver.Charge{got}
				testkit.Must(t, storetest.Do(t.Context(), f.Store, charges))
				got = charges[0]
				took := got.Op == driver.Spend && got.Verdict.Allowed
				if took {
					// Another event of this number is gone.
					maps.DeleteFunc(numbers, func(_, number int64) bool { return number == want.Receipt.At })
					numbers[got.Receipt.At] = want.Receipt.At
					receipts = append(receipts, got.Receipt)
				}
				if got.Verdict != want.Verdict || numbers[got.Receipt.At] != want.Receipt.At || got.Cost != want.Cost ||
					took && got.Receipt.At%(1<<20) != int64(got.Cost) {
					t.Fatalf("step %d: the verdict, receipt and cost are\n\t%+v, %+v, %d, want\n\t%+v, %+v, %d\nafter\n%s", len(trace),
						got.Verdict, got.Receipt, got.Cost, want.Verdict, want.Receipt, want.Cost,
						strings.Join(trace[max(0, len(trace)-20):], "\n"))
				}
				if len(trace)%8 == 0 {
					places := f.places()
					most, mostTaken = max(most, len(places)), max(mostTaken, f.sum(places))
				}
			}
			t.Logf("at most %d events and %d places", most, mostTaken)
			if c.places == fills && most < 1000 {
				t.Errorf("at most %d events at a time, want 1000", most)
			}
		})
	}
}

// An occupier is a hook that takes the numbers of the next event, and of the one after, just before a script takes places.
type occupier struct {
	*flight
	armed atomic.Bool
	taken int64 // the last of these numbers
}

func (o *occupier) DialHook(next redis.DialHook) redis.DialHook { return next }
func (o *occupier) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (o *occupier) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "evalsha" && o.armed.CompareAndSwap(true, false) {
			number, err := strconv.ParseInt(args[5].(string), 10, 64) // after the only key and the clock
			testkit.Must(o.t, err)
			for i := range int64(2) {
				o.taken = (number+1+i)<<20 | 3
				other := redis.Z{Score: float64(o.Now().UnixMicro()), Member: o.taken}
				testkit.Must(o.t, o.rdb.ZAdd(ctx, o.key, other).Err())
				testkit.Must(o.t, o.rdb.ZIncrBy(ctx, o.key, -3, "total").Err())
			}
		}
		return next(ctx, cmd)
	}
}

// If the number of an event is that of another one, it gets the next free number.
func TestInFlight_numbers(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, atMost := range []bool{false, true} {
		f := newFlight(t, server.Client(), byCost(t, "numbers", 100, time.Minute, 0))
		hooked := server.Client()
		o := &occupier{flight: f}
		hooked.AddHook(o)
		g := newFlight(t, hooked, f.rule)
		g.Advance(f.Now().Sub(g.Now()))
		f.key = g.key
		take := func() driver.Charge {
			charges := []driver.Charge{{Key: "k", Rule: f.rule, Cost: 3, AtMost: atMost}}
			testkit.Must(t, g.Store.Take(t.Context(), charges))
			return charges[0]
		}
		first := take()
		o.armed.Store(true)
		second := take()
		places := f.places()
		if _, ok := places[strconv.FormatInt(second.Receipt.At, 10)]; !ok || second.Receipt.At <= o.taken || len(places) != 4 || f.sum(places) != 12 {
			t.Fatalf("at most %t: the places are %v, want four events, the last one %d, above %d", atMost, places, second.Receipt.At, o.taken)
		}
		for i, c := range []driver.Charge{second, first} {
			if v := g.costs(3).do(driver.Undo, c.Receipt).Verdict; v.Remaining != 91+3*i {
				t.Errorf("at most %t: after undo %d %d places remain, want %d", atMost, i, v.Remaining, 91+3*i)
			}
		}
		g.do(driver.Reset, driver.Receipt{})
	}
}

// A place is freed once and renewed while it is there, whatever the number of its undos and renewals. A
// place that has lapsed is not renewed.
func TestInFlight_repeated(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, f := range []*flight{
		newFlight(t, rdb, inFlight(t, "repeated", 3, time.Minute, 0)),
		newFlight(t, rdb, byCost(t, "repeated", 30, time.Minute, 0)).costs(10),
	} {
		first, second := f.take(), f.take()
		if second.At == first.At {
			t.Errorf("the numbers are %d and %d, want different ones", first.At, second.At)
		}
		renewed := func(m driver.Receipt, want bool) {
			t.Helper()
			for range 2 {
				if v := f.do(driver.Renew, m).Verdict; v.Found != want || !v.Allowed {
					t.Errorf("the renewal has the verdict %+v, want found %t", v, want)
				}
			}
		}
		f.Advance(40 * time.Second)
		renewed(first, true)
		f.Advance(30 * time.Second) // after the end of second
		renewed(second, false)
		renewed(driver.Receipt{}, false)
		renewed(first, true)
		third := f.take()
		for range 2 {
			if v := f.do(driver.Undo, first).Verdict; v.Remaining != 2*f.cost || v.Found {
				t.Errorf("the undo has the verdict %+v, want places of 2 events that remain", v)
			}
		}
		renewed(first, false)
		f.do(driver.Undo, driver.Receipt{})
		if places := f.places(); len(places) != 1 || places[strconv.FormatInt(third.At, 10)] == 0 {
			t.Errorf("the places are %v, want that of %d", places, third.At)
		}
		f.do(driver.Undo, driver.Receipt{At: third.At &^ (1<<20 - 1)}) // as if the cost were not known
		if n := f.rdb.Exists(t.Context(), f.key).Val(); n != 0 {
			t.Error("the key exists without places")
		}
	}
}

// After a step back of the clock, a denial, like every other charge that writes, makes later renewals
// renewals of now: no place lapses later than hold after its end.
func TestInFlight_stepBack(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for name, write := range map[string]func(f *flight, held driver.Receipt){
		"denial": func(f *flight, _ driver.Receipt) { f.do(driver.Spend, driver.Receipt{}) },
		"renew":  func(f *flight, held driver.Receipt) { f.do(driver.Renew, held) },
		"undo":   func(f *flight, held driver.Receipt) { f.do(driver.Undo, held) },
		"undo of nothing": func(f *flight, _ driver.Receipt) {
			f.do(driver.Undo, driver.Receipt{})
		},
	} {
		for _, rule := range []*driver.Compiled{inFlight(t, "back", 200, time.Minute, 0), byCost(t, "back", 1400, time.Minute, 0)} {
			t.Run(fmt.Sprintf("%s, by cost %t", name, rule.ByCost), func(t *testing.T) {
				f := newFlight(t, rdb, rule).costs(rule.Events / 200)
				var held driver.Receipt
				for range 200 {
					f.Advance(time.Millisecond)
					held = f.take()
				}
				f.Advance(-time.Hour)
				write(f, held)
				if ttl := f.rdb.PTTL(t.Context(), f.key).Val(); ttl <= 0 {
					t.Errorf("the TTL of the key is %v, want one", ttl)
				}
				for number, at := range f.places() {
					if int64(at) != f.Now().UnixMicro() {
						t.Fatalf("the place %s was renewed at %v, want %d", number, at, f.Now().UnixMicro())
					}
				}
				f.Advance(time.Minute - time.Microsecond)
				v := f.do(driver.Peek, driver.Receipt{}).Verdict
				if denied := name != "undo"; v.Allowed == denied || denied && v.RetryAfter != time.Microsecond || v.ResetAfter != time.Microsecond {
					t.Errorf("the verdict is %+v, want a denial for a microsecond unless a place was freed", v)
				}
				f.Advance(time.Microsecond)
				if v := f.do(driver.Peek, driver.Receipt{}).Verdict; v.Remaining != rule.Events {
					t.Errorf("the verdict is %+v, want all places", v)
				}
			})
		}
	}
}

// A decision takes places in two hash slots. If one of them is denied, the undo frees the places in the other one, and
// no others.
func TestInFlight_cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for _, c := range []struct {
		name               string
		rule               func(t testing.TB, name string, n int, hold time.Duration, soft float64) *driver.Compiled
		wide, narrow, cost int // the narrow rule admits two events, and the wide one more
	}{
		{"one place", inFlight, 9, 2, 1},
		{"by cost", byCost, 900, 250, 100},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				f := newFlight(t, cluster.Client(), c.rule(t, "wide", c.wide, time.Hour, 0), mode.opts...)
				s := f.Store.(*redisstore.Store)
				wide, narrow := f.rule, c.rule(t, "narrow", c.narrow, time.Hour, 0)
				a, b := identityOn(t, cluster.Nodes[0], s, "a"), identityOn(t, cluster.Nodes[2], s, "b")
				f.key = s.StateKey(a, wide)
				joint := func(op driver.Op, receipts ...driver.Receipt) []driver.Charge {
					t.Helper()
					charges := []driver.Charge{{Key: a, Rule: wide, Op: op, Cost: c.cost}, {Key: b, Rule: narrow, Op: op, Cost: c.cost}}
					for i, m := range receipts {
						charges[i].Receipt = m
					}
					testkit.Must(t, storetest.Do(t.Context(), s, charges))
					return charges
				}
				first, second := joint(driver.Spend), joint(driver.Spend)
				numbers := f.places()
				if len(numbers) != 2 || f.sum(numbers) != 2*c.cost || second[0].Receipt.At == first[0].Receipt.At {
					t.Fatalf("the places are %v, the second receipt is %v, want two events with %d", numbers, second[0].Receipt, 2*c.cost)
				}
				for range 3 {
					denied := joint(driver.Spend)
					if v, w := denied[0].Verdict, denied[1].Verdict; v.Remaining != c.wide-2*c.cost || w.Allowed ||
						w.Remaining != c.narrow-2*c.cost || denied[0].Receipt != (driver.Receipt{}) {
						t.Errorf("the decision is %+v, want a denial without a receipt", denied)
					}
				}
				if places := f.places(); !maps.Equal(places, numbers) {
					t.Errorf("after denials the places are %v, want %v", places, numbers)
				}
				for _, c := range joint(driver.Renew, second[0].Receipt, second[1].Receipt) {
					if !c.Verdict.Found {
						t.Errorf("the renewal has the verdict %+v, want found", c.Verdict)
					}
				}
				joint(driver.Undo, second[0].Receipt, second[1].Receipt)
				last := joint(driver.Renew, first[0].Receipt, second[1].Receipt)
				if v, w := last[0].Verdict, last[1].Verdict; !v.Found || w.Found || w.Remaining != c.narrow-c.cost {
					t.Errorf("the renewals have the verdicts %+v, %+v, want found for the first", v, w)
				}
			})
		}
	}
}

// However many goroutines take, renew and free places, no more than the limit are taken at a time, and all
// of them are free in the end.
func TestInFlight_concurrent(t *testing.T) {
	t.Parallel()
	const goroutines, calls, events = 64, 30, 7
	rdb := redistest.Shared(t).Client()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStore(rdb, mode.opts...)
			rule := inFlight(t, "concurrent", events, time.Hour, 0)
			var taken, admitted atomic.Int64
			testkit.Concurrently(goroutines, func(int) {
				do := func(op driver.Op, m driver.Receipt) driver.Charge {
					charges := []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1, Receipt: m}}
					if err := storetest.Do(t.Context(), s, charges); err != nil {
						t.Error(err)
					}
					return charges[0]
				}
				for range calls {
					c := do(driver.Spend, driver.Receipt{})
					if !c.Verdict.Allowed {
						continue
					}
					admitted.Add(1)
					if n := taken.Add(1); n > events {
						t.Errorf("%d places are taken, want at most %d", n, events)
					}
					if !do(driver.Renew, c.Receipt).Verdict.Found {
						t.Error("the place has lapsed")
					}
					taken.Add(-1)
					do(driver.Undo, c.Receipt)
				}
			})
			if n := rdb.Exists(t.Context(), s.StateKey("k", rule)).Val(); n != 0 || admitted.Load() < events {
				t.Errorf("%d keys exist after %d admissions, want none", n, admitted.Load())
			}
		})
	}
}

// A full server admits no event. It renews, frees and denies as before.
func TestInFlight_noMemory(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t, "--maxmemory-policy", "noeviction").Client()
	for _, events := range []int{1, 2, 300} {
		t.Run(strconv.Itoa(events), func(t *testing.T) {
			f := newFlight(t, rdb, byCost(t, "full", 9*events, time.Minute, 0)).costs(9)
			more := newFlight(t, rdb, byCost(t, "more", 5, time.Minute, 0)).costs(3)
			var held []driver.Receipt
			for range events {
				held = append(held, f.take())
			}
			one := more.take()
			limitMemory(t, rdb, "1mb")
			defer limitMemory(t, rdb, "0")
			if c, err := more.costs(2).try(driver.Spend, driver.Receipt{}); !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("the charge is %+v, %v, want core.ErrUnavailable", c.Verdict, err)
			}
			for _, step := range []time.Duration{time.Second, -time.Hour} {
				f.Advance(step)
				if v := f.do(driver.Spend, driver.Receipt{}).Verdict; v.Allowed {
					t.Errorf("the verdict is %+v, want a denial", v)
				}
				for _, m := range held {
					if v := f.do(driver.Renew, m).Verdict; !v.Found {
						t.Fatalf("the renewal has the verdict %+v, want found", v)
					}
				}
			}
			for _, m := range held {
				f.do(driver.Undo, m)
				f.places()
			}
			more.do(driver.Undo, one)
			if n := rdb.Exists(t.Context(), f.key, more.key).Val(); n != 0 {
				t.Errorf("%d keys exist without events", n)
			}
		})
	}
}

// An undo or a renewal whose reply is lost has its effect, and can be repeated.
func TestInFlight_lostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for _, f := range []*flight{
			newFlight(t, server.Client(), inFlight(t, "one", 9, time.Hour, 0)),
			newFlight(t, server.Client(), byCost(t, "lost", 100, time.Hour, 0)).costs(30),
		} {
			own := prefix()
			healthy := newStore(f.rdb, append(opts, own)...)
			proxy := redistest.NewProxy(t, server.Addr)
			proxy.DropReplies(closeAfter, "evalsha", "eval")
			rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout })
			lossy := newStore(rdb, append(opts, own)...)
			f.Store, f.key = healthy, healthy.StateKey("k", f.rule)
			held, other := f.take(), f.take()
			f.do(driver.Undo, f.take()) // Redis knows the scripts: a reply that asks for one would be lost, too
			f.do(driver.Renew, held)
			for _, c := range []struct {
				op   driver.Op
				want int // the places that remain
			}{{driver.Renew, f.rule.Events - 2*f.cost}, {driver.Undo, f.rule.Events - f.cost}} {
				before := f.places()
				eventually(t, func() error { // on a busy machine, a call may end before it was sent
					f.Store = lossy
					if c, err := f.try(c.op, held); !errors.Is(err, core.ErrUnavailable) {
						t.Fatalf("the charge is %+v, %v, want core.ErrUnavailable", c.Verdict, err)
					}
					if f.Store = healthy; maps.Equal(before, f.places()) {
						return errors.New("the places are as before")
					}
					return nil
				})
				if v := f.do(c.op, held).Verdict; v.Remaining != c.want || v.Found != (c.op == driver.Renew) {
					t.Errorf("op %d of %v, repeated, has the verdict %+v, want %d places that remain", c.op, f.rule, v, c.want)
				}
			}
			if v := f.do(driver.Renew, other).Verdict; !v.Found || f.sum(f.places()) != f.cost {
				t.Errorf("the renewal of the other event of %v has the verdict %+v, want found", f.rule, v)
			}
		}
	})
}

// A renewals Store counts the places that were renewed.
type renewals struct {
	core.Store
	n atomic.Int64
}

func (s *renewals) Adjust(ctx context.Context, charges []driver.Charge) error {
	err := s.Store.Adjust(ctx, charges)
	for i := range charges {
		if err == nil && charges[i].Verdict.Found {
			s.n.Add(1)
		}
	}
	return err
}

// await waits until n places more have been renewed.
func (s *renewals) await(t testing.TB, n int64) {
	t.Helper()
	before := s.n.Load()
	eventually(t, func() error {
		if got := s.n.Load() - before; got < n {
			return fmt.Errorf("%d places were renewed, want %d", got, n)
		}
		return nil
	})
}

// The clock of the server steps while a process holds places. No step back, and no step forward by less
// than the hold, takes a place from its holder. After a longer step, the holders are told, and cannot free
// the places of those that follow.
func TestInFlight_clockSteps(t *testing.T) {
	t.Parallel()
	const (
		events = 3
		hold   = 3 * time.Second // renewed every second, by the clock of this process
	)
	rdb := redistest.Shared(t).Client()
	for name, cost := range map[string]int{"one place": 1, "by cost": 7} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock storetest.Clock
			own, now := prefix(), redisstore.Clock(func() string { return strconv.FormatInt(clock.Micros(), 10) })
			s := &renewals{Store: newStore(rdb, own, now)}
			rule := core.InFlight("steps", events*cost).Hold(hold)
			if cost > 1 {
				rule = rule.ByCost()
			}
			holders, others := testkit.Limiter(t, s, rule), testkit.Limiter(t, newStore(rdb, own, now), rule)
			reserve := func(l *core.Limiter) (held []*core.Reservation) {
				t.Helper()
				for range events {
					clock.Advance(time.Millisecond)
					r := testkit.Reserve(t, l, "k", cost)
					if !r.Decision().Allowed {
						t.Fatalf("the decision is %+v, want an admission", r.Decision())
					}
					held = append(held, r)
				}
				return held
			}
			held := reserve(holders)
			for _, step := range []time.Duration{-time.Hour, hold - time.Millisecond, -hold, -24 * time.Hour} {
				clock.Advance(step)
				if testkit.Peek(t, others, "k").Allowed {
					t.Fatalf("after a step of %v, another event would be admitted", step)
				}
				s.await(t, 2*events) // all of them at least once
				for i, r := range held {
					select {
					case <-r.Lost():
						t.Fatalf("after a step of %v, the place of event %d is lost", step, i)
					default:
					}
				}
			}
			clock.Advance(hold)
			after := reserve(others)
			for i, r := range held {
				select {
				case <-r.Lost():
				case <-time.After(waitLimit):
					t.Fatalf("event %d was not told that its place is lost", i)
				}
				testkit.Must(t, r.Release(t.Context()))
			}
			if used := testkit.Used(t, others, "k")[0]; used != events*cost {
				t.Errorf("%d places are taken, want %d", used, events*cost)
			}
			for _, r := range after {
				testkit.Must(t, r.Release(t.Context()))
			}
			if used := testkit.Used(t, others, "k")[0]; used != 0 {
				t.Errorf("%d places are taken, want none", used)
			}
		})
	}
}
