package redisstore_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
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

// A state that no script writes causes no error, admits no more than the limit at a time, and holds no place for longer
// than hold.
func TestInFlight_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const places = 10
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // as in harness
	text := strconv.FormatInt(now, 10)
	set := func(scores ...any) []any { return append([]any{"zadd", nil}, scores...) }
	many := func(n int, score any) []any {
		all := set(-n, "total")
		for i := range n {
			all = append(all, score, 1<<30+i<<20|1)
		}
		return all
	}
	const number = "7340035" // of cost 3
	for name, c := range map[string]struct {
		write   []any
		corrupt bool // counts as empty
	}{
		"string":                  {[]any{"set", nil, "text"}, true},
		"list":                    {[]any{"rpush", nil, "total"}, true},
		"hash":                    {[]any{"hset", nil, "total", "3"}, true},
		"no total":                {set(text, number), true},
		"only a total":            {set(-3, "total"), true},
		"a total of nothing":      {set(0, "total"), true},
		"a positive total":        {set(3, "total", text, number), true},
		"a total below the sum":   {set(-1, "total", text, number, text, "9437187"), true},
		"a total of less":         {set(-2, "total", text, number), false},
		"a total of more":         {set(-9, "total", text, number), false},
		"a total far above":       {set(-2_000_000, "total", text, number), true},
		"a fraction as total":     {set("-3.5", "total", text, number), true},
		"an infinite total":       {set("-inf", "total", text, number), true},
		"text":                    {set(-3, "total", text, "text"), false},
		"older text":              {set(-9, "total", now-1, "text"), false},
		"text and an event":       {set(-6, "total", text, "text", text, number), false},
		"a member of no cost":     {set(-3, "total", text, "7340032"), false},
		"a negative member":       {set(-3, "total", text, "-7340035"), false},
		"another notation":        {set(-3, "total", text, "7340035.0"), false},
		"a member before":         {set(-9, "text", -3, "total", text, number), true},
		"a member between":        {set(-3, "total", -1, "text", text, number), false},
		"a member beside":         {set(-3, "total", -3, "zzz", text, number), false},
		"never renewed":           {set(-3, "total", 0, number), false},
		"lapsed, of another sum":  {set(-9, "total", 5, number), true},
		"lapsed text":             {set(-3, "total", 5, "text", text, number), false},
		"future":                  {set(-3, "total", "9007199254740991", number), false},
		"beyond integers":         {set(-3, "total", "1e300", number), false},
		"infinite":                {set(-3, "total", "inf", number), true},
		"a fraction as time":      {set(-3, "total", text+".5", number), true},
		"more than the limit":     {many(900, text), false},
		"most events":             {many(1000, text), false},
		"too many events":         {many(1001, text), true},
		"too many, but lapsed":    {many(3000, 7), false},
		"most, and some lapsed":   {append(many(1000, text), -1300, "total", 7, "8388908"), false}, // 300 of them
		"all lapsed, as it is ok": {set(-3, "total", 7, number), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlight(t, rdb, byCost(t, "corrupt", places, time.Minute, 0))
			s := f.Store.(*redisstore.Store)
			c.write = slices.Clone(c.write)
			c.write[1] = f.key
			for _, op := range []driver.Op{driver.Peek, driver.Undo, driver.Renew, driver.Reset} {
				testkit.Must(t, rdb.Do(t.Context(), c.write...).Err())
				for _, m := range []driver.Receipt{{At: 1<<40 | 3}, {At: 7340035}, {At: 1<<30 | 1}} {
					f.costs(4).do(op, m)
				}
			}
			if n := rdb.Exists(t.Context(), f.key).Val(); n != 0 {
				t.Error("the key exists after a Reset")
			}
			for _, atMost := range []bool{false, true} {
				before := s.Stats().Corrupt
				testkit.Must(t, rdb.Do(t.Context(), c.write...).Err())
				taken := 0
				for _, cost := range []int{4, 4, 1, 1, 1} {
					charges := []driver.Charge{{Key: "k", Rule: f.rule, Cost: cost, AtMost: atMost}}
					testkit.Must(t, s.Take(t.Context(), charges))
					if v := charges[0].Verdict; v.Allowed {
						taken += charges[0].Cost
					} else if v.RetryAfter <= 0 || v.RetryAfter > time.Minute || v.Remaining < 0 || v.Remaining >= places {
						t.Errorf("the denial is %+v, want a RetryAfter of up to a minute", v)
					}
				}
				if taken > places || c.corrupt && taken < places {
					t.Errorf("%d places were taken, want up to %d", taken, places)
				}
				if got, want := s.Stats().Corrupt-before, map[bool]uint64{true: 1}[c.corrupt]; got != want {
					t.Errorf("%d states were counted as corrupt, want %d", got, want)
				}
				f.Advance(time.Minute)
				f.costs(places).take()
				if v := f.do(driver.Spend, driver.Receipt{}).Verdict; v.Allowed {
					t.Errorf("the verdict is %+v, want a denial", v)
				}
				f.places()
				f.do(driver.Reset, driver.Receipt{})
				f.Advance(-time.Minute)
			}
		})
	}
}

// The TTL is hold after the newest renewal, rounded up. After a step back of the clock, every charge that writes sets
// one.
func TestInFlight_ttl(t *testing.T) {
	t.Parallel()
	const hold = 90*time.Second + 500*time.Microsecond
	rdb := redistest.Shared(t).Client()
	rule := byCost(t, "ttl", 50, hold, 0)
	f := newFlight(t, rdb, rule).costs(7)
	stepped := newFlight(t, rdb, rule).costs(7)
	f.Store = newStore(rdb)
	f.key = f.Store.(*redisstore.Store).StateKey("k", rule)
	check := func(when string) {
		t.Helper()
		if ttl := rdb.PTTL(t.Context(), f.key).Val(); ttl <= hold-waitLimit || ttl > hold+2*time.Millisecond {
			t.Errorf("%s the TTL is %v, want %v", when, ttl, hold)
		}
		testkit.Must(t, rdb.PExpire(t.Context(), f.key, 10*time.Second).Err())
	}
	first, second := f.take(), f.costs(43).take()
	check("after two events")
	for _, when := range []string{"renew", "renew again"} {
		f.do(driver.Renew, first)
		check("after " + when)
	}
	f.do(driver.Undo, first)
	f.do(driver.Renew, second)
	check("after the renewal of the only event")

	f = stepped
	f.take()
	f.costs(43).take()
	for _, c := range []driver.Charge{
		{Op: driver.Spend}, {Op: driver.Peek}, {Op: driver.Undo}, {Op: driver.Renew}, {AtMost: true},
	} {
		testkit.Must(t, rdb.Persist(t.Context(), f.key).Err())
		f.Advance(-time.Second)
		c.Key, c.Rule, c.Cost = "k", f.rule, 9
		testkit.Must(t, storetest.Do(t.Context(), f.Store, []driver.Charge{c}))
		if ttl := rdb.PTTL(t.Context(), f.key).Val(); ttl <= hold {
			t.Errorf("after op %d, at most %t, and a step back the TTL is %v, want more than %v", c.Op, c.AtMost, ttl, hold)
		}
		for member, at := range f.places() {
			if now := f.Now().UnixMicro(); int64(at) != now {
				t.Errorf("after op %d, at most %t: the event %s was renewed at %v, want %d", c.Op, c.AtMost, member, at, now)
			}
		}
		f.places()
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

// The number of commands of a charge is bounded, with as many events as there can be.
func TestInFlight_commands(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	f := newFlight(t, rdb, byCost(t, "many", 4000, time.Hour, 0))
	var held []driver.Receipt
	for range 999 {
		held = append(held, f.costs(4).take())
		f.Advance(time.Millisecond)
	}
	for _, c := range []struct {
		name string
		op   driver.Op
		cost int
		m    driver.Receipt
		most int // commands
	}{
		{"renew", driver.Renew, 4, held[6], 6},
		{"take", driver.Spend, 1, driver.Receipt{}, 7},
		{"denial of one", driver.Spend, 1, driver.Receipt{}, 5},
		{"denial of all", driver.Spend, 4000, driver.Receipt{}, 70},
		{"denial for ever", driver.Spend, 4001, driver.Receipt{}, 5},
		{"renew in a full state", driver.Renew, 4, held[5], 12},
		{"undo", driver.Undo, 4, held[5], 12},
	} {
		if _, sum := commandsOf(t, rdb, func() { f.costs(c.cost).do(c.op, c.m) }); sum > c.most || sum == 0 {
			t.Errorf("%s: %d commands, want at most %d", c.name, sum, c.most)
		}
	}
}
