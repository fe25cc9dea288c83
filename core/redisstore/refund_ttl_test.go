package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// Giving back keeps the TTL of what is left, on request, on a Cluster and after
// the clock has stepped back.
func TestRefundKeepsTTL(t *testing.T) {
	t.Parallel()
	rdb, cluster := redistest.Shared(t).Client(), redistest.SharedCluster(t).Client()
	for _, a := range testkit.Algorithms {
		for _, n := range []int{1, 2, 15, 20} {
			s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
			r := a.Rule("r", core.PerHour(100))
			l := testkit.Limiter(t, s, r)
			testkit.Admit(t, l, "k", n)
			testkit.Admit(t, l, "k", 1)
			testkit.Must(t, l.Credit(t.Context(), "k", 1))
			if ttl := rdb.PTTL(t.Context(), s.Key("k", r)).Val(); ttl <= 0 {
				t.Errorf("%s, %d and 1 less 1: the TTL is %v", a.Name, n, ttl)
			}
		}
		s := redisstore.New(cluster, prefix(), redisstore.Timeout(patience))
		r := a.Rule("r", core.PerHour(5))
		l := testkit.Limiter(t, s, r)
		for i := range 20 {
			k, full := fmt.Sprint("k", i), fmt.Sprint("full", i)
			testkit.Admit(t, l, full, 5)
			testkit.Admit(t, l, k, 1)
			d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: k, Cost: 1}, core.Ask{Limiter: l, Key: full, Cost: 1})
			if err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			if ttl := cluster.PTTL(t.Context(), s.Key(k, r)).Val(); ttl <= 0 {
				t.Fatalf("%s: after a denied joint decision the TTL is %v", a.Name, ttl)
			}
		}
		h := harness(rdb)
		l = testkit.Limiter(t, h.Store.(*redisstore.Store), a.Rule("r", core.PerHour(100)))
		testkit.Admit(t, l, "k", 20)
		testkit.Admit(t, l, "k", 20)
		h.Advance(-time.Second)
		testkit.Must(t, l.Credit(t.Context(), "k", 1))
		rule := a.Rule("r", core.PerHour(100))
		if ttl := rdb.PTTL(t.Context(), h.Store.(*redisstore.Store).Key("k", rule)).Val(); ttl <= 0 {
			t.Errorf("%s: a refund after a step back: the TTL is %v", a.Name, ttl)
		}
	}
}

// The most sub-windows there can be are written in one piece.
func TestMostSubWindows(t *testing.T) {
	t.Parallel()
	h := harness(redistest.Shared(t).Client())
	l := testkit.Limiter(t, h.Store.(*redisstore.Store),
		core.SlidingWindow("r", core.Per(driver.MaxSubWindows, driver.MaxSubWindows*time.Second)).SubWindows(driver.MaxSubWindows))
	for range driver.MaxSubWindows {
		testkit.Admit(t, l, "k", 1)
		h.Advance(time.Second)
	}
	h.Advance(-2 * time.Second)
	for range 2 { // the first of them rewrites everything
		if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed {
			t.Fatalf("spent, and the clock stepped back: %+v, %v", d, err)
		}
	}
	testkit.Must(t, l.Credit(t.Context(), "k", 1))
	if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).Remaining != 1 {
		t.Errorf("after a refund of one: %+v, %v", d, err)
	}
}

// More rules than one script can hold are refused at once.
func TestTooManyRules(t *testing.T) {
	s := redisstore.New(redistest.Shared(t).Client(), prefix(), redisstore.Timeout(patience))
	var rules []core.Rule
	for i := range redisstore.MaxCharges + 1 {
		rules = append(rules, core.TokenBucket(fmt.Sprint("r", i), core.PerHour(1)))
	}
	if _, err := core.New(s, rules...); !errors.Is(err, core.ErrInvalidRule) {
		t.Errorf("%d rules: %v", len(rules), err)
	}
	testkit.Admit(t, testkit.Limiter(t, s, rules[1:]...), "k", 1)
}
