package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// runTogether runs requests in one batch for each verb, and decodes their outcomes. It returns the number of unreadable
// states that were replaced.
func runTogether(t *testing.T, rdb *redis.Client, requests ...*Request) (replaced uint64) {
	e := NewEncoder("test:", keyhash.Hasher{})
	for _, r := range requests {
		charges, keys := r.Charges, r.Keys
		*r = Request{Charges: charges, Keys: keys}
		e.Encode(r)
	}
	for _, b := range NewBatches(requests, false) {
		reply, err := rdb.Do(t.Context(), b.Args...).Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") && b.UseSource() {
			reply, err = rdb.Do(t.Context(), b.Args...).Result()
		}
		replaced += b.SetOutcomes(reply, err)
	}
	for _, r := range requests {
		if r.Err == nil {
			r.Err = r.Decode()
		}
	}
	return replaced
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
		e := NewEncoder("test:", keyhash.Hasher{})
		var requests []*Request
		names := make(map[*Request]string)
		for _, s := range c.spends {
			r := encoded(e, &Request{Charges: []driver.Charge{{Key: s.key, Rule: s.rule, Op: driver.Spend, Cost: s.cost}}, Keys: []string{s.key}})
			requests, names[r] = append(requests, r), fmt.Sprint(s.key, s.cost)
		}
		batches := NewBatches(requests, false)
		var got []string
		for _, r := range batches[0].requests {
			got = append(got, names[r])
		}
		if order := strings.Join(got, " "); len(batches) != 1 || order != c.want {
			t.Errorf("%s: %d batches, the first is %s, want %s", c.name, len(batches), order, c.want)
		}
		// EVALSHA, the script, the keys and their number, and the clock; then 7 arguments for each bucket.
		if got := float64(len(batches[0].Args)-4-len(requests)) / 7; got != float64(c.shared) {
			t.Errorf("%s: there are arguments of %v buckets, want %d", c.name, got, c.shared)
		}
	}
}

// lacksPermission reports whether err is the error of one decision, for which a permission is missing.
func lacksPermission(err error) bool {
	_, own := err.(ScriptError)
	return own && (strings.Contains(err.Error(), "permission") || strings.Contains(err.Error(), "can't run"))
}

// A decision that fails, or whose state is damaged, does not affect the others of its script.
func TestBatch_errors(t *testing.T) {
	server := redistest.NewServer(t)
	operator := server.Client()
	testkit.Must(t, operator.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "+@all", "-zadd").Err())
	rdb := server.Client(func(o *redis.Options) { o.Username, o.Password = "u", "p" })
	bucket, log := testkit.Compiled(core.TokenBucket("rule", hourly)), testkit.Compiled(core.SlidingLog("rule", hourly))
	window := testkit.Compiled(core.FixedWindow("rule", hourly))
	calls := map[string]*Request{
		"before": spend("before", bucket), "damaged": spend("damaged", bucket), "list": spend("list", bucket), "after": spend("after", bucket),
		"first": spend("first", window, bucket), "log": spend("log", window, log), "last": spend("last", bucket, window),
	}
	run := func(names ...string) {
		testkit.Must(t, operator.FlushAll(t.Context()).Err())
		testkit.Must(t, operator.Set(t.Context(), "damaged0", "no state", 0).Err())
		testkit.Must(t, operator.RPush(t.Context(), "list0", "no state").Err())
		for round := range 2 {
			var all []*Request
			for _, name := range names {
				all = append(all, calls[name])
			}
			if got, want := runTogether(t, rdb, all...), []uint64{2, 0}[round]; got != want {
				t.Errorf("%v: in round %d, %d unreadable states were replaced, want %d", names, round, got, want)
			}
			for _, name := range names {
				c := calls[name]
				if name == "log" {
					if !lacksPermission(c.Err) {
						t.Errorf("%s: the error is %v, want a missing permission", name, c.Err)
					}
					continue
				}
				if c.Err != nil || !c.Admitted {
					t.Errorf("%s: %v, admitted %t, want an admission", name, c.Err, c.Admitted)
				}
				if used := c.Readings[0].Used.Micros + c.Readings[0].Count; (used > 0) != (round == 1) {
					t.Errorf("%s: round %d has the reading %+v", name, round, c.Readings[0])
				}
			}
		}
	}
	run("before", "damaged", "first", "log", "list", "last", "after")
	run("before", "damaged", "list", "after") // one bucket each
	for _, permission := range []string{"-psetex", "-get"} {
		testkit.Must(t, operator.Do(t.Context(), "acl", "setuser", "u", "+@all", permission).Err())
		for _, names := range [][]string{{"before", "after"}, {"before", "last"}} {
			var all []*Request
			for _, name := range names {
				all = append(all, calls[name])
			}
			runTogether(t, rdb, all...)
			for _, c := range all {
				if !lacksPermission(c.Err) {
					t.Errorf("%s, %v: the error is %v, want a missing permission", permission, names, c.Err)
				}
			}
		}
	}
}

// A full server fails the decisions that would write, and no denial.
func TestBatch_noMemory(t *testing.T) {
	rdb := redistest.NewServer(t, "--maxmemory-policy", "noeviction").Client()
	bucket, log := testkit.Compiled(core.TokenBucket("rule", hourly)), testkit.Compiled(core.SlidingLog("rule", hourly))
	denied := func() *Request {
		c := spend("full", bucket)
		c.Charges[0].Cost = 101
		return c
	}
	both := func(key string) *Request { return spend(key, bucket, log) }
	runTogether(t, rdb, both("used"))
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, calls := range [][]*Request{
		{denied(), spend("a", bucket), denied(), both("used"), both("new"), spend("b", bucket), denied()},
		{denied(), spend("a", bucket), denied()}, // one bucket each
	} {
		runTogether(t, rdb, calls...)
		for i, c := range calls {
			if c.Charges[0].Cost > 1 {
				if c.Err != nil || c.Admitted {
					t.Errorf("call %d of %d: %v, admitted %t, want a denial", i, len(calls), c.Err, c.Admitted)
				}
			} else if !redis.IsOOMError(c.Err) {
				t.Errorf("call %d of %d: the error is %v, want OOM", i, len(calls), c.Err)
			}
		}
	}
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	for key, want := range map[string]int64{"used": 1, "new": 0} {
		c := both(key)
		runTogether(t, rdb, c)
		if c.Err != nil || c.Readings[1].Count != want || (c.Readings[0].Used.Micros > 0) != (want > 0) {
			t.Errorf("%s: %v, the readings are %+v, want %d events", key, c.Err, c.Readings, want)
		}
	}
}

// A round trip can be as long as the backlog and a call allow, and longer.
func TestBatch_largest(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	prefix := redistest.Prefix(t)
	var rules []*driver.Compiled
	for i := range bounds.Charges {
		rules = append(rules, testkit.Compiled(testkit.Algorithms[i%len(testkit.Algorithms)].Rule("rule", hourly)))
	}
	for round := range int64(2) {
		var calls []*Request
		for i := range 128 {
			calls = append(calls, spend(fmt.Sprint(prefix, i, " ", strings.Repeat("x", 80)), rules...))
		}
		runTogether(t, rdb, calls...)
		for i, c := range calls {
			if c.Err != nil || !c.Admitted || len(c.Readings) != bounds.Charges {
				t.Fatalf("call %d: %v, admitted %t, %d readings", i, c.Err, c.Admitted, len(c.Readings))
			}
			for j, r := range c.Readings {
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
	for i := range bounds.Charges {
		rules = append(rules, testkit.Compiled(testkit.Algorithms[i%len(testkit.Algorithms)].Rule("rule", core.PerHour(1000-i))))
	}
	spendAtMost := func(key string, n int) *Request {
		c := spend(prefix+key, rules...)
		for i := range c.Charges {
			c.Charges[i].AtMost, c.Charges[i].Cost = true, n
		}
		return c
	}
	all := []*Request{
		spendAtMost("a", 300), spendAtMost("b", 300), spend(prefix+"b", rules...), spendAtMost("a", 400),
		spendAtMost("a", 300), spendAtMost("b", 5000), spendAtMost("a", 400),
	}
	runTogether(t, rdb, all...)
	taken := make(map[string]int)
	for i, c := range all {
		if c.Err != nil || c.Answer(c.Admitted) != nil {
			t.Fatalf("call %d: %v", i, c.Err)
		}
		if c.Admitted {
			taken[c.Keys[0][:len(prefix)+1]] += c.Charges[0].Cost
		}
	}
	for _, key := range []string{"a", "b"} {
		if n := taken[prefix+key]; n != 1000-bounds.Charges+1 {
			t.Errorf("%s: got %d units, want those of the smallest limit, %d", key, n, 1000-bounds.Charges+1)
		}
	}
}
