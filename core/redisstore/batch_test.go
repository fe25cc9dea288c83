package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore/redistest"
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

// runTogether runs calls in one round trip and sets their outcomes.
func runTogether(t *testing.T, rdb *redis.Client, calls ...*call) {
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
}

// A decision that fails, or whose state is damaged, does not affect the others of its script.
func TestBatch_errors(t *testing.T) {
	server := redistest.NewServer(t)
	operator := server.Client()
	testkit.Must(t, operator.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "+@all", "-zadd").Err())
	rdb := server.Client(func(o *redis.Options) { o.Username, o.Password = "u", "p" })
	testkit.Must(t, operator.Set(t.Context(), "damaged0", "no state", 0).Err())
	testkit.Must(t, operator.RPush(t.Context(), "list0", "no state").Err())
	bucket, log := core.TokenBucket("rule", hourly).Compiled(), core.SlidingLog("rule", hourly).Compiled()
	window := core.FixedWindow("rule", hourly).Compiled()
	calls := map[string]*call{
		"before": spend("before", bucket), "damaged": spend("damaged", bucket), "list": spend("list", bucket), "after": spend("after", bucket),
		"first": spend("first", window, bucket), "log": spend("log", window, log), "last": spend("last", bucket, window),
	}
	names := []string{"before", "damaged", "first", "log", "list", "last", "after"}
	for round := range 2 {
		var all []*call
		for _, name := range names {
			calls[name].corrupt = 0
			all = append(all, calls[name])
		}
		runTogether(t, rdb, all...)
		for _, name := range names {
			c := calls[name]
			switch corrupt := int64(0); {
			case name == "log":
				if _, own := c.err.(scriptError); !own || configurationFault(c.err) == "" {
					t.Errorf("%s: the error is %v, want a missing permission", name, c.err)
				}
			case slices.Contains([]string{"damaged", "list"}, name) && round == 0:
				corrupt = 1
				fallthrough
			default:
				if c.err != nil || !c.admitted || c.corrupt != corrupt {
					t.Errorf("%s: %v, admitted %t, %d states were unreadable, want %d", name, c.err, c.admitted, c.corrupt, corrupt)
				}
				if used := c.readings[0].Used.Micros + c.readings[0].Count; (used > 0) != (round == 1 && corrupt == 0) {
					t.Errorf("%s: round %d has the reading %+v", name, round, c.readings[0])
				}
			}
		}
	}
}

// A full server fails the decisions that would write, and no denial.
func TestBatch_noMemory(t *testing.T) {
	rdb := redistest.NewServer(t, "--maxmemory-policy", "noeviction").Client()
	bucket, log := core.TokenBucket("rule", hourly).Compiled(), core.SlidingLog("rule", hourly).Compiled()
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

// A round trip can be as long as the queue and MaxCharges allow, and longer.
func TestBatch_largest(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	prefix := redistest.Prefix(t)
	var rules []*driver.Compiled
	for i := range MaxCharges {
		rules = append(rules, testkit.Algorithms[i%len(testkit.Algorithms)].Rule("rule", hourly).Compiled())
	}
	for round := range int64(2) {
		var calls []*call
		for i := range maxWeight {
			calls = append(calls, spend(fmt.Sprint(prefix, i, " ", strings.Repeat("x", 80)), rules...))
		}
		runTogether(t, rdb, calls...)
		for i, c := range calls {
			if c.err != nil || !c.admitted || len(c.readings) != MaxCharges {
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

// An event has waited a part of its MaxDelay when its request is sent. A request that is sent twice,
// because its slot has moved, loses the time that it has waited once.
func TestRequest_limitDelays(t *testing.T) {
	for _, c := range []struct {
		maxDelay, waited time.Duration
		want             [3]string // when it is sent, and again, each after waited
	}{
		{0, time.Second, [3]string{"9007199254740991", "9007199254740991", "9007199254740991"}},
		{time.Second, 0, [3]string{"1000000", "1000000", "1000000"}},
		{time.Hour, 20 * time.Minute, [3]string{"2400000000", "1200000000", "0"}},
		{time.Second, time.Minute, [3]string{"0", "0", "0"}},
		{time.Millisecond, 100 * time.Microsecond, [3]string{"900", "800", "700"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			call := spend("k", core.LeakyBucket("rule", hourly).Compiled())
			call.charges[0].MaxDelay = c.maxDelay
			r := new(executor).newRequest(call)
			r.queued = time.Now()
			for i, want := range c.want {
				time.Sleep(c.waited)
				r.limitDelays()
				if got := r.charges[0].algorithm[bucketDelay]; got != want {
					t.Errorf("a MaxDelay of %v after %d times %v is the argument %v, want %s", c.maxDelay, i+1, c.waited, got, want)
				}
			}
		})
	}
}

// A lateSender sends requests that have waited.
type lateSender struct {
	sender
	waited time.Duration
}

func (s lateSender) send(d *deadline, r *request) error {
	r.queued = time.Now().Add(-s.waited)
	return s.sender.send(d, r)
}

// The time that an event has waited counts against its MaxDelay, in its verdict as in the script. The
// bucket admits an event a minute. Nothing takes longer than 10 s.
func TestStore_Take_lateEvent(t *testing.T) {
	const s, within = time.Second, 10 * time.Second
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct{ waited, maxDelay, delay, retryAfter time.Duration }{
		{0, 90 * s, 60 * s, 0},
		{30 * s, 0, 60 * s, 0},
		{30 * s, time.Hour, 60 * s, 0},
		{30 * s, 60 * s, 0, 30 * s},
		{30 * s, 75 * s, 0, 15 * s},
		{time.Hour, 60 * s, 0, 60 * s},
	} {
		for _, more := range [][]core.Rule{nil, {core.SlidingLog("log", hourly)}} {
			testkit.Must(t, rdb.FlushAll(t.Context()).Err())
			store := New(rdb, Timeout(time.Minute))
			l := core.Must(core.New(store, append(more, core.LeakyBucket("queue", core.PerHour(60)))...))
			ask := core.Ask{Limiter: l, Key: "k"}
			_, err := core.AllowTogether(t.Context(), ask)
			testkit.Must(t, err)
			store.executor.sender = lateSender{store.executor.sender, c.waited}
			ask.MaxDelay = c.maxDelay
			d, err := core.AllowTogether(t.Context(), ask)
			about := func(got, want time.Duration) bool { return want-within < got && got <= want }
			if err != nil || d.Allowed != (c.retryAfter == 0) || !about(d.Delay, c.delay) || !about(d.RetryAfter, c.retryAfter) {
				t.Errorf("%+v, %d more rules: got %v, delay %v, %v", c, len(more), d, d.Delay, err)
			}
		}
	}
}
