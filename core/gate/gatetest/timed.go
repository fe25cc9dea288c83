package gatetest

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// A step is a request some time after the one before.
type step struct {
	wait  time.Duration
	limit string // the RateLimit field
	retry string // Retry-After; the request is denied unless it is empty
}

func (s *suite) testTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  core.Rule
		steps []step
	}{{
		name: "token bucket",
		rule: core.TokenBucket("r", core.Per(2, 3*time.Second)), // one in 1.5 s
		steps: []step{
			{0, `"r";r=1;t=2`, ""}, // one token comes back in 1.5 s
			{0, `"r";r=0;t=2`, ""}, // and nothing is left until then
			{0, `"r";r=0;t=2`, "2"},
			{time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=1`, ""}, // 0.5 s of the next 1.5 s have passed
		},
	}, {
		name: "sliding log",
		rule: core.SlidingLog("r", core.Per(2, 10*time.Second)),
		steps: []step{
			{0, `"r";r=1;t=10`, ""},
			{2500 * time.Millisecond, `"r";r=0;t=8`, ""}, // the oldest leaves in 7.5 s
			{0, `"r";r=0;t=8`, "8"},
			{7 * time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=2`, ""}, // the one of 2.5 s leaves at 12.5
		},
	}, {
		name: "sub-second",
		rule: core.SlidingLog("r", core.Per(1, 10*time.Millisecond)),
		steps: []step{
			{0, `"r";r=0;t=1`, ""},
			{0, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=1`, ""},
		},
	}, {
		name: "one in a year",
		rule: core.TokenBucket("r", core.Per(1, 365*24*time.Hour)),
		steps: []step{
			{0, `"r";r=0;t=31536000`, ""},
			{0, `"r";r=0;t=31536000`, "31536000"},
			{365*24*time.Hour - time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=31536000`, ""},
		},
	}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.New(memstore.New(), c.rule))
				h := s.build(l, constant("k"), nil, new(probe).ServeHTTP)
				for i, step := range c.steps {
					time.Sleep(step.wait)
					got := record(t, h, request("GET", "/"))
					want := http.StatusOK
					if step.retry != "" {
						want = http.StatusTooManyRequests
					}
					if got.status != want || got.header.Get("RateLimit") != step.limit || got.header.Get("Retry-After") != step.retry {
						t.Errorf("step %d: %d, RateLimit %q, Retry-After %q; want %d, %q, %q", i,
							got.status, got.header.Get("RateLimit"), got.header.Get("Retry-After"), want, step.limit, step.retry)
					}
				}
			})
		})
	}
	t.Run("wait and succeed", s.testRetryAfterIsEnough)
	t.Run("legacy reset", s.testLegacyReset)
}

// testRetryAfterIsEnough waits as long as it is told, and not one time more.
func (s *suite) testRetryAfterIsEnough(t *testing.T) {
	rules := []core.Rule{
		core.TokenBucket("bucket", core.Per(7, 11*time.Second).WithBurst(5)),
		core.SlidingLog("log", core.Per(9, 17300*time.Millisecond)),
	}
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), rules...))
		weight := gate.Cost(func(r *http.Request) int { n, _ := strconv.Atoi(r.URL.Query().Get("n")); return n })
		h := s.build(l, constant("k"), []gate.Option{weight}, new(probe).ServeHTTP)
		denials := 0
		for i := range 200 {
			target := "/?n=" + strconv.Itoa(1+i%5)
			time.Sleep(time.Duration(i*i%1700) * time.Millisecond)
			got := record(t, h, request("GET", target))
			if got.status == http.StatusOK {
				continue
			}
			denials++
			retry, _ := got.retryAfter(t)
			time.Sleep(time.Duration(retry) * time.Second)
			if got := record(t, h, request("GET", target)); got.status != http.StatusOK {
				t.Fatalf("request %d: denied again after the %d s it was told to wait", i, retry)
			}
		}
		if denials < 20 {
			t.Errorf("only %d denials: the check checks nothing", denials)
		}
	})
}

func (s *suite) testLegacyReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.SlidingLog("log", core.Per(5, 1500*time.Millisecond))))
		h := s.build(l, constant("k"), []gate.Option{gate.Headers(gate.XRateLimit)}, new(probe).ServeHTTP)
		time.Sleep(700 * time.Millisecond) // the bubble starts on a whole second
		now := time.Now()
		got := record(t, h, request("GET", "/"))
		want := strconv.FormatInt(now.Add(1500*time.Millisecond).Unix()+1, 10) // 2.2 s is 3
		if reset := got.header.Get("X-RateLimit-Reset"); reset != want {
			t.Errorf("X-RateLimit-Reset is %s, want %s: Unix seconds, rounded up", reset, want)
		}
		time.Sleep(800 * time.Millisecond)
		got = record(t, h, request("GET", "/"))
		want = strconv.FormatInt(now.Unix()+3, 10) // a whole second stays
		if reset := got.header.Get("X-RateLimit-Reset"); reset != want {
			t.Errorf("X-RateLimit-Reset is %s, want %s: a whole second is not rounded", reset, want)
		}
	})
}

// testIdentities checks that identities are charged together or not at all.
func (s *suite) testIdentities(t *testing.T) {
	t.Run("two", s.testTwoIdentities)
	t.Run("three", func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerDay(1))))
		h := s.build(l, header("A"), []gate.Option{gate.And(l, header("B")), gate.And(l, header("C"))}, new(probe).ServeHTTP)
		for i, step := range []struct {
			keys   string
			status int
		}{{"abc", 200}, {"a__", 429}, {"_b_", 429}, {"__c", 429}, {"xyz", 200}} {
			r := request("GET", "/")
			for j, name := range []string{"A", "B", "C"} {
				key := step.keys[j : j+1]
				if key == "_" {
					key = strconv.Itoa(i) + name // nobody else's
				}
				r.Header.Set(name, key)
			}
			if got := record(t, h, r); got.status != step.status {
				t.Errorf("%s has status %d, want %d", step.keys, got.status, step.status)
			}
		}
	})
}

func (s *suite) testTwoIdentities(t *testing.T) {
	store := memstore.New()
	perIP := core.Must(core.New(store, core.SlidingLog("ip", core.PerDay(3))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.PerDay(1))))
	p := new(probe)
	h := s.build(perIP, keyfunc.RemoteIP(), []gate.Option{gate.And(perUser, header("X-User"))}, p.ServeHTTP)
	as := func(user string) reply {
		r := request("GET", "/v1/orders")
		r.Header.Set("X-User", user)
		return record(t, h, r)
	}
	for i, step := range []struct {
		user, limit string
		status      int
	}{
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 200},
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 429},
		{"ann", `"ip";r=2;t=86400, "user";r=0;t=86400`, 429},
		{"bob", `"ip";r=1;t=86400, "user";r=0;t=86400`, 200},
		{"cid", `"ip";r=0;t=86400, "user";r=0;t=86400`, 200},
		{"dan", `"ip";r=0;t=86400, "user";r=1;t=86400`, 429},
		{"eve", `"ip";r=0;t=86400`, 429}, // an address that was denied is asked before the user is looked for
	} {
		got := as(step.user)
		if got.status != step.status || got.header.Get("RateLimit") != step.limit {
			t.Errorf("request %d of %s: %d, RateLimit %s\n\twant %d, %s", i, step.user,
				got.status, got.header.Get("RateLimit"), step.status, step.limit)
		}
	}
	d, err := perUser.Peek(context.Background(), "dan")
	if err != nil || !d.Allowed {
		t.Errorf("dan, denied for the address, was charged: %+v, %v", d, err)
	}
	if p.ran() != 3 {
		t.Errorf("the handler ran %d times, want 3", p.ran())
	}
}
