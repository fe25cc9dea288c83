package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// places returns the members of the state and their scores.
func (f *flight) places() map[string]float64 {
	f.t.Helper()
	all, err := f.rdb.ZRangeWithScores(f.t.Context(), f.key, 0, -1).Result()
	testkit.Must(f.t, err)
	places := make(map[string]float64)
	for _, z := range all {
		places[z.Member.(string)] = z.Score
	}
	return places
}

// Random histories have the verdicts and receipts of package driver, with few places and with so many that
// Redis keeps them in another form, under two limits, while the clock stands still, advances and steps back.
func TestInFlight_random(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	rdb.AddHook(argumentChecker{})
	for _, c := range []struct {
		events, steps int
		soft          float64
		step, unit    time.Duration // longest time between two charges, a multiple of unit
	}{
		{1, 600, 0, 2 * time.Second, time.Second},
		{3, 1500, 50, 2 * time.Second, time.Microsecond},
		{20, 1500, 0, 600 * time.Millisecond, 200 * time.Millisecond},
		{20, 800, 10, 0, time.Microsecond},
		{900, 3000, 10, 5 * time.Millisecond, time.Microsecond},
	} {
		t.Run(fmt.Sprintf("%d+%v%%, %v", c.events, c.soft, c.step), func(t *testing.T) {
			t.Parallel()
			const hold = 10 * time.Second
			f := newFlight(t, rdb, inFlight(t, "random", c.events, hold, c.soft))
			less := inFlight(t, "random", max(1, c.events/2), hold, 0)
			rng := rand.New(rand.NewPCG(uint64(c.events), uint64(c.step)))
			var state driver.State
			var receipts []driver.Receipt
			numbers := make(map[int64]int64) // those of package driver, by those of the Store
			var trace []string
			most := 0
			for range c.steps {
				f.Advance(time.Duration(rng.Int64N(int64(c.step) + 1)).Truncate(c.unit))
				switch {
				case rng.IntN(40) == 0:
					f.Advance(-time.Duration(rng.Int64N(int64(hold / 2))).Truncate(c.unit))
				case rng.IntN(300) == 0:
					f.Advance(hold)
				}
				got := driver.Charge{Key: "k", Rule: f.rule, Cost: 1}
				if rng.IntN(8) == 0 {
					got.Rule = less
				}
				switch n := rng.IntN(100); {
				case n < 3:
					got.Op = driver.Peek
				case n == 3 && rng.IntN(5) == 0:
					got.Op = driver.Reset
				case n < 40 && len(receipts) > 0: // also of places that were freed or have lapsed
					got.Op = []driver.Op{driver.Undo, driver.Renew, driver.Renew}[rng.IntN(3)]
					got.Receipt = receipts[max(0, len(receipts)-1-rng.IntN(2*c.events))]
				}
				want, now := got, f.Now().UnixMicro()
				want.Receipt.At = numbers[got.Receipt.At]
				trace = append(trace, fmt.Sprintf("op %d of %v, receipt %v, at %d", got.Op, got.Rule, got.Receipt, now))
				if want.Op.Asks() {
					state, _ = want.Decide(state, now)
				} else {
					r := want.Read(state, now)
					state = want.Apply(state, &r, now)
				}
				charges := []driver.Charge{got}
				testkit.Must(t, storetest.Do(t.Context(), f.Store, charges))
				got = charges[0]
				if got.Op == driver.Spend && got.Verdict.Allowed {
					maps.DeleteFunc(numbers, func(_, number int64) bool { return number == want.Receipt.At }) // of a place that is gone
					numbers[got.Receipt.At] = want.Receipt.At
				}
				if got.Verdict != want.Verdict || numbers[got.Receipt.At] != want.Receipt.At {
					t.Fatalf("step %d: the verdict and receipt are\n\t%+v, %+v, want\n\t%+v, %+v\nafter\n%s", len(trace),
						got.Verdict, got.Receipt, want.Verdict, want.Receipt, strings.Join(trace[max(0, len(trace)-20):], "\n"))
				}
				if got.Op == driver.Spend && got.Verdict.Allowed {
					receipts = append(receipts, got.Receipt)
				}
				most = max(most, len(f.places()))
			}
			t.Logf("at most %d places", most)
		})
	}
}

// A place is freed once and renewed while it is there, whatever the number of its undos and renewals. A
// place that has lapsed is not renewed.
func TestInFlight_repeated(t *testing.T) {
	t.Parallel()
	f := newFlight(t, redistest.Shared(t).Client(), inFlight(t, "repeated", 3, time.Minute, 0))
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
		if v := f.do(driver.Undo, first).Verdict; v.Remaining != 2 || v.Found {
			t.Errorf("the undo has the verdict %+v, want 2 places that remain", v)
		}
	}
	renewed(first, false)
	f.do(driver.Undo, driver.Receipt{})
	if places := f.places(); len(places) != 1 || places[strconv.FormatInt(third.At, 10)] == 0 {
		t.Errorf("the places are %v, want that of %d", places, third.At)
	}
	f.do(driver.Undo, third)
	if n := f.rdb.Exists(t.Context(), f.key).Val(); n != 0 {
		t.Error("the key exists without places")
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
		t.Run(name, func(t *testing.T) {
			f := newFlight(t, rdb, inFlight(t, "back", 200, time.Minute, 0))
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
			if v := f.do(driver.Peek, driver.Receipt{}).Verdict; v.Remaining != 200 {
				t.Errorf("the verdict is %+v, want 200 that remain", v)
			}
		})
	}
}

// The TTL is hold after the newest renewal, rounded up.
func TestInFlight_ttl(t *testing.T) {
	t.Parallel()
	const hold = 90*time.Second + 500*time.Microsecond
	rdb := redistest.Shared(t).Client()
	rule := inFlight(t, "ttl", 5, hold, 0)
	f := newFlight(t, rdb, rule)
	f.Store = newStore(rdb)
	f.key = f.Store.(*redisstore.Store).StateKey("k", rule)
	check := func(when string) {
		t.Helper()
		if ttl := rdb.PTTL(t.Context(), f.key).Val(); ttl <= hold-waitLimit || ttl > hold+2*time.Millisecond {
			t.Errorf("%s the TTL is %v, want %v", when, ttl, hold)
		}
	}
	first, second := f.take(), f.take()
	check("after two places")
	for _, when := range []string{"renew", "renew again"} {
		testkit.Must(t, rdb.PExpire(t.Context(), f.key, 10*time.Second).Err())
		f.do(driver.Renew, first)
		check("after " + when)
	}
	f.do(driver.Undo, first)
	check("after an undo")
	f.do(driver.Renew, second)
	check("after the renewal of the only place")
}

// A full server admits no event. It renews, frees and denies as before.
func TestInFlight_noMemory(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	for _, places := range []int{1, 2, 300} {
		t.Run(strconv.Itoa(places), func(t *testing.T) {
			f := newFlight(t, rdb, inFlight(t, "full", places, time.Minute, 0))
			more := newFlight(t, rdb, inFlight(t, "more", 5, time.Minute, 0))
			var held []driver.Receipt
			for range places {
				held = append(held, f.take())
			}
			one := more.take()
			limitMemory(t, rdb, "1mb")
			defer limitMemory(t, rdb, "0")
			if c, err := more.try(driver.Spend, driver.Receipt{}); !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("the charge is %+v, %v, want core.ErrUnavailable", c.Verdict, err)
			}
			f.Advance(time.Second)
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
			}
			more.do(driver.Undo, one)
			if n := rdb.Exists(t.Context(), f.key, more.key).Val(); n != 0 {
				t.Errorf("%d keys exist without places", n)
			}
		})
	}
}

// A state that no script writes causes no error, admits no more than the limit at a time, and holds no
// place for longer than hold.
func TestInFlight_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const events = 4
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // as in harness
	at := func(score string, members ...string) (args []any) {
		args = []any{"zadd", nil}
		for _, m := range members {
			args = append(args, score, m)
		}
		return args
	}
	many := func(n int) (members []string) {
		for i := range n {
			members = append(members, strconv.FormatInt(now+int64(i), 10))
		}
		return members
	}
	text := strconv.FormatInt(now, 10)
	for name, c := range map[string]struct {
		write   []any
		corrupt bool // counts as empty
	}{
		"string":           {[]any{"set", nil, "text"}, true},
		"list":             {[]any{"rpush", nil, "text"}, true},
		"text":             {at(text, "text", "", "\x00\xff", "1e3"), false},
		"other notation":   {at(text, "0"+text, "+"+text, text+".0"), false},
		"later numbers":    {at(text, many(3)...), false},
		"never renewed":    {at("0", text, "text"), false},
		"negative":         {at("-5", text), false},
		"future":           {at("9007199254740991", many(events)...), false},
		"beyond integers":  {at("1e300", many(events)...), false},
		"infinite":         {at("inf", many(events)...), true},
		"before all times": {at("-inf", many(events)...), false},
		"fractions":        {at(text+".5", many(events)...), true},
		"one fraction":     {append(at(text+".5", "text"), now+1, "other"), true},
		"more than limit":  {at(text, many(900)...), false},
		"too many":         {at(text, many(1001)...), true},
		"too many, lapsed": {at("7", many(3000)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlight(t, rdb, inFlight(t, "corrupt", events, time.Minute, 0))
			s := f.Store.(*redisstore.Store)
			c.write[1] = f.key
			ops := []driver.Op{driver.Peek, driver.Undo, driver.Renew, driver.Reset}
			for _, op := range ops {
				testkit.Must(t, rdb.Do(t.Context(), c.write...).Err())
				f.do(op, driver.Receipt{At: now - 1})
				f.do(op, driver.Receipt{At: now})
			}
			if n := rdb.Exists(t.Context(), f.key).Val(); n != 0 {
				t.Error("the key exists after a Reset")
			}
			testkit.Must(t, rdb.Do(t.Context(), c.write...).Err())
			var held []driver.Receipt
			for range events + 1 {
				if a := f.do(driver.Spend, driver.Receipt{}); a.Verdict.Allowed {
					held = append(held, a.Receipt)
				} else if a.Verdict.RetryAfter <= 0 || a.Verdict.RetryAfter > time.Minute {
					t.Errorf("the denial is %+v, want a RetryAfter of up to a minute", a.Verdict)
				}
			}
			if len(held) > events || c.corrupt && len(held) < events {
				t.Errorf("%d were admitted, want up to %d", len(held), events)
			}
			if got, want := s.Stats().Corrupt, map[bool]uint64{true: 1}[c.corrupt]; got != want {
				t.Errorf("%d states were counted as corrupt, want %d", got, want)
			}
			f.Advance(time.Minute)
			for range events {
				f.take()
			}
			if v := f.do(driver.Spend, driver.Receipt{}).Verdict; v.Allowed {
				t.Errorf("the verdict is %+v, want a denial", v)
			}
		})
	}
}

// changeWithoutReply renews and then undoes the place of held through lossy, which loses replies, and repeats both
// through the Store of f. renewed places remain after the renewal, and undone after the undo.
func (f *flight) changeWithoutReply(lossy driver.Store, held driver.Receipt, renewed, undone int) {
	f.t.Helper()
	healthy := f.Store
	f.do(driver.Renew, held) // Redis knows the script: a reply that asks for it would be lost, too
	for _, c := range []struct {
		op   driver.Op
		want int
	}{{driver.Renew, renewed}, {driver.Undo, undone}} {
		before := f.places()
		eventually(f.t, func() error { // on a busy machine, a call may end before it was sent
			f.Store = lossy
			if c, err := f.try(c.op, held); !errors.Is(err, core.ErrUnavailable) {
				f.t.Fatalf("the charge is %+v, %v, want core.ErrUnavailable", c.Verdict, err)
			}
			if f.Store = healthy; maps.Equal(before, f.places()) {
				return errors.New("the places are as before")
			}
			return nil
		})
		if v := f.do(c.op, held).Verdict; v.Remaining != c.want || v.Found != (c.op == driver.Renew) {
			f.t.Errorf("op %d, repeated, has the verdict %+v, want %d places that remain", c.op, v, c.want)
		}
	}
}

// An undo or a renewal whose reply is lost has its effect, and can be repeated.
func TestInFlight_lostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		own := prefix()
		rule := inFlight(t, "lost", 2, time.Hour, 0)
		f := newFlight(t, server.Client(), rule)
		healthy := newStore(f.rdb, append(opts, own)...)
		proxy := redistest.NewProxy(t, server.Addr)
		proxy.DropReplies(closeAfter, "evalsha", "eval")
		lossy := newStore(server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout }), append(opts, own)...)
		f.Store, f.key = healthy, healthy.StateKey("k", rule)
		held, other := f.take(), f.take()
		f.changeWithoutReply(lossy, held, 0, 1)
		if v := f.do(driver.Renew, other).Verdict; !v.Found {
			t.Errorf("the renewal of the other place has the verdict %+v, want found", v)
		}
	})
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
				events, sum := len(numbers), 2*c.cost
				if wide.ByCost {
					events, sum = f.checkTotal()
				}
				if events != 2 || sum != 2*c.cost || second[0].Receipt.At == first[0].Receipt.At {
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
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
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
			}
			wg.Wait()
			if n := rdb.Exists(t.Context(), s.StateKey("k", rule)).Val(); n != 0 || admitted.Load() < events {
				t.Errorf("%d keys exist after %d admissions, want none", n, admitted.Load())
			}
		})
	}
}

// A probe of an in-flight rule writes a key of another algorithm, and changes no place.
func TestInFlight_probe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	f := newFlight(t, rdb, inFlight(t, "probe", 1, time.Hour, 0))
	f.take()
	before := f.places()
	probe := []driver.Charge{{Key: "k", Rule: f.rule, Op: driver.Peek, Cost: 1}}
	for range 3 {
		testkit.Must(t, f.Store.(driver.Prober).Probe(t.Context(), probe))
	}
	tag, _, _ := strings.Cut(f.key, "}")
	keys := keysOf(t, rdb, tag)
	if slices.Sort(keys); len(keys) != 2 || !slices.Contains(keys, f.key) || !maps.Equal(before, f.places()) {
		t.Errorf("the keys are %q, want that of the rule and one of a probe", keys)
	}
}
