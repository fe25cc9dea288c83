package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/memo"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// hourly is the limit of all rules.
var hourly = core.PerHour(100)

// spend returns a call that spends an event of each rule, with keys that begin with prefix.
func spend(prefix string, rules ...*driver.Compiled) *call {
	c := new(call)
	for i, r := range rules {
		c.add(driver.Charge{Key: "k", Rule: r, Op: driver.Spend, Cost: 1}, fmt.Sprint(prefix, i), i)
	}
	return c
}

// runTogether runs calls in one round trip and sets their outcomes. It returns the number of unreadable
// states that were replaced.
func runTogether(t *testing.T, rdb *redis.Client, calls ...*call) (replaced uint64) {
	e := new(executor)
	requests := make([]*request, len(calls))
	for i, c := range calls {
		requests[i] = e.newRequest(c)
	}
	runner{rdb, &e.counters}.run(t.Context(), requests)
	for i, c := range calls {
		if c.err = requests[i].err; c.err == nil {
			c.err = c.decode(requests[i].time, requests[i].reply)
		}
	}
	if n := e.roundTrips.Load(); n != 1 {
		t.Errorf("%d calls took %d round trips, want 1", len(calls), n)
	}
	return e.corrupt.Load()
}

// Requests with the same arguments share them, and the requests of one key stay in their order.
func TestBatch_order(t *testing.T) {
	a, b := testkit.Compiled(core.TokenBucket("a", hourly)), testkit.Compiled(core.TokenBucket("b", core.PerHour(10)))
	type spends []struct {
		key  string
		rule *driver.Compiled
		cost int
	}
	for _, c := range []struct {
		name   string
		spends spends
		want   string
		shared int // the number of different arguments
	}{
		{"one rule", spends{{"k", a, 1}, {"l", a, 1}, {"k", a, 1}}, "k1 l1 k1", 1},
		{"two rules", spends{{"k", a, 1}, {"l", b, 1}, {"m", a, 1}, {"n", b, 1}}, "k1 m1 l1 n1", 2},
		{"two costs of a key", spends{{"k", a, 1}, {"k", a, 5}, {"k", a, 1}, {"l", a, 1}}, "k1 k5 k1 l1", 3},
		{"one cost", spends{{"k", a, 5}, {"l", a, 1}, {"m", a, 5}}, "k5 m5 l1", 2},
		{"two costs", spends{{"k", a, 1}, {"k", a, 5}, {"l", a, 1}}, "k1 l1 k5", 2},
	} {
		e := executor{arguments: argumentCache{rules: memo.Map[*driver.Compiled, []any]{Max: maxCached}}}
		var requests []*request
		names := make(map[*request]string)
		for _, s := range c.spends {
			call := new(call)
			call.add(driver.Charge{Key: s.key, Rule: s.rule, Op: driver.Spend, Cost: s.cost}, s.key, 0)
			r := e.newRequest(call)
			requests, names[r] = append(requests, r), fmt.Sprint(s.key, s.cost)
		}
		batches := newBatches(requests)
		var got []string
		for _, r := range batches[0].requests {
			got = append(got, names[r])
		}
		if order := strings.Join(got, " "); len(batches) != 1 || order != c.want {
			t.Errorf("%s: %d batches, the first is %s, want %s", c.name, len(batches), order, c.want)
		}
		// EVALSHA, the script, the keys and their number, and the clock; then 9 arguments for each bucket.
		if got := (len(batches[0].args) - 4 - len(requests)) / 9; got != c.shared {
			t.Errorf("%s: there are %d arguments of buckets, want %d", c.name, got, c.shared)
		}
	}
}

// A decision that fails, or whose state is damaged, does not affect the others of its script.
func TestBatch_errors(t *testing.T) {
	server := redistest.NewServer(t)
	operator := server.Client()
	testkit.Must(t, operator.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "+@all", "-zadd").Err())
	rdb := server.Client(func(o *redis.Options) { o.Username, o.Password = "u", "p" })
	testkit.Must(t, operator.Set(t.Context(), "damaged0", "no state", 0).Err())
	testkit.Must(t, operator.RPush(t.Context(), "list0", "no state").Err())
	bucket, log := testkit.Compiled(core.TokenBucket("rule", hourly)), testkit.Compiled(core.SlidingLog("rule", hourly))
	window := testkit.Compiled(core.FixedWindow("rule", hourly))
	calls := map[string]*call{
		"before": spend("before", bucket), "damaged": spend("damaged", bucket), "list": spend("list", bucket), "after": spend("after", bucket),
		"first": spend("first", window, bucket), "log": spend("log", window, log), "last": spend("last", bucket, window),
	}
	names := []string{"before", "damaged", "first", "log", "list", "last", "after"}
	for round := range 2 {
		var all []*call
		for _, name := range names {
			all = append(all, calls[name])
		}
		if got, want := runTogether(t, rdb, all...), []uint64{2, 0}[round]; got != want {
			t.Errorf("round %d: %d unreadable states were replaced, want %d", round, got, want)
		}
		for _, name := range names {
			c := calls[name]
			if name == "log" {
				if _, own := c.err.(scriptError); !own || configurationFault(c.err) == "" {
					t.Errorf("%s: the error is %v, want a missing permission", name, c.err)
				}
				continue
			}
			if c.err != nil || !c.admitted {
				t.Errorf("%s: %v, admitted %t, want an admission", name, c.err, c.admitted)
			}
			if used := c.readings[0].Used.Micros + c.readings[0].Count; (used > 0) != (round == 1) {
				t.Errorf("%s: round %d has the reading %+v", name, round, c.readings[0])
			}
		}
	}
}

// A full server fails the decisions that would write, and no denial.
func TestBatch_noMemory(t *testing.T) {
	rdb := redistest.NewServer(t, "--maxmemory-policy", "noeviction").Client()
	bucket, log := testkit.Compiled(core.TokenBucket("rule", hourly)), testkit.Compiled(core.SlidingLog("rule", hourly))
	denied := func() *call {
		c := spend("full", bucket)
		c.charges[0].Cost = 101
		return c
	}
	both := func(key string) *call { return spend(key, bucket, log) }
	runTogether(t, rdb, both("used"))
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	calls := []*call{denied(), spend("a", bucket), denied(), both("used"), both("new"), spend("b", bucket), denied()}
	runTogether(t, rdb, calls...)
	for i, c := range calls {
		if c.charges[0].Cost > 1 {
			if c.err != nil || c.admitted {
				t.Errorf("call %d: %v, admitted %t, want a denial", i, c.err, c.admitted)
			}
		} else if !redis.IsOOMError(c.err) {
			t.Errorf("call %d: the error is %v, want OOM", i, c.err)
		}
	}
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	for key, want := range map[string]int64{"used": 1, "new": 0} {
		c := both(key)
		runTogether(t, rdb, c)
		if c.err != nil || c.readings[1].Count != want || (c.readings[0].Used.Micros > 0) != (want > 0) {
			t.Errorf("%s: %v, the readings are %+v, want %d events", key, c.err, c.readings, want)
		}
	}
}

// A round trip can be as long as the backlog and maxCharges allow, and longer.
func TestBatch_largest(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	prefix := redistest.Prefix(t)
	var rules []*driver.Compiled
	for i := range maxCharges {
		rules = append(rules, testkit.Compiled(testkit.Algorithms[i%len(testkit.Algorithms)].Rule("rule", hourly)))
	}
	for round := range int64(2) {
		var calls []*call
		for i := range 128 {
			calls = append(calls, spend(fmt.Sprint(prefix, i, " ", strings.Repeat("x", 80)), rules...))
		}
		runTogether(t, rdb, calls...)
		for i, c := range calls {
			if c.err != nil || !c.admitted || len(c.readings) != maxCharges {
				t.Fatalf("call %d: %v, admitted %t, %d readings", i, c.err, c.admitted, len(c.readings))
			}
			for j, r := range c.readings {
				if (r.Count > 0 || r.Used.Micros > 0) != (round == 1) {
					t.Errorf("round %d, call %d: the reading of charge %d is %+v", round, i, j, r)
				}
			}
		}
	}
}

// Decisions that take at most a cost share round trips with others of their kind and their arguments with
// those of the same cost. Many charges of one key agree about the cost.
func TestBatch_AtMost(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	prefix := redistest.Prefix(t)
	var rules []*driver.Compiled
	for i := range maxCharges {
		rules = append(rules, testkit.Compiled(testkit.Algorithms[i%len(testkit.Algorithms)].Rule("rule", core.PerHour(1000-i))))
	}
	spendAtMost := func(key string, n int) *call {
		c := spend(prefix+key, rules...)
		for i := range c.charges {
			c.charges[i].AtMost, c.charges[i].Cost = true, n
		}
		return c
	}
	all := []*call{
		spendAtMost("a", 300), spendAtMost("b", 300), spend(prefix+"b", rules...), spendAtMost("a", 400),
		spendAtMost("a", 300), spendAtMost("b", 5000), spendAtMost("a", 400),
	}
	runTogether(t, rdb, all...)
	taken := make(map[string]int)
	for i, c := range all {
		if c.err != nil || c.setVerdicts(c.admitted) != nil {
			t.Fatalf("call %d: %v", i, c.err)
		}
		if c.admitted {
			taken[c.keys[0][:len(prefix)+1]] += c.charges[0].Cost
		}
	}
	for _, key := range []string{"a", "b"} {
		if n := taken[prefix+key]; n != 1000-maxCharges+1 {
			t.Errorf("%s: got %d units, want those of the smallest limit, %d", key, n, 1000-maxCharges+1)
		}
	}
}
