package redisstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// An event has waited a part of its MaxDelay when its request is sent. A request that is sent twice,
// because its slot has moved, loses the time that it has waited once.
func TestRequest_NoteWait(t *testing.T) {
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
			call := spend("k", testkit.Compiled(core.LeakyBucket("rule", hourly)))
			call.charges[0].MaxDelay = c.maxDelay
			r := new(executor).newRequest(call)
			r.since = time.Now()
			for i, want := range c.want {
				time.Sleep(c.waited)
				r.noteWait()
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
	r.since = time.Now().Add(-s.waited)
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
			store := New(rdb, "test", Timeout(3*time.Hour))
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

// A silentSender keeps requests, and their callers leave without an outcome.
type silentSender struct {
	sender
	requests map[*request]bool
}

func (s silentSender) send(d *deadline, r *request) error {
	s.requests[r] = true
	d.err = context.DeadlineExceeded
	return d.err
}

// A request whose caller has left is not used again, because a round trip may still use it.
func TestExecutor_Exec_left(t *testing.T) {
	s := silentSender{requests: make(map[*request]bool)}
	e := executor{sender: s}
	const n = 100
	for range n {
		c := spend("k", testkit.Compiled(core.TokenBucket("rule", hourly)))
		if e.exec(t.Context(), time.Now().Add(time.Minute), c); c.err != context.DeadlineExceeded {
			t.Fatalf("the error is %v, want the deadline", c.err)
		}
	}
	if len(s.requests) != n {
		t.Errorf("%d calls had %d requests", n, len(s.requests))
	}
}

// A request with a renewal goes ahead of others. Its work is that of every renewal.
func TestExecutor_NewRequest_renewal(t *testing.T) {
	rule, err := driver.Definition{Name: "rule", Algorithm: driver.InFlight, Events: 9, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	a := algorithmOf(&rule.Definition)
	for op, work := range map[driver.Op]time.Duration{
		driver.Spend: 2 * a.light, driver.Peek: 2 * a.light, driver.Undo: 2 * a.heavy, driver.Reset: 2 * a.heavy, driver.Renew: 2 * a.heavy,
	} {
		c := &call{keys: []string{"a", "b"}, charges: []driver.Charge{{Key: "a", Rule: rule, Op: op, Cost: 1}, {Key: "b", Rule: rule, Op: op, Cost: 1}}}
		if r := new(executor).newRequest(c); r.work != work || r.urgent != (op == driver.Renew || op == driver.Undo) {
			t.Errorf("op %d: the work is %v, urgent %t, want %v, %t", op, r.work, r.urgent, work, op == driver.Renew || op == driver.Undo)
		}
	}
}

// An undo that has waited is older when it is sent, so that a clock that stepped back meanwhile is noticed.
func TestRequest_NoteWait_Age(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := testkit.Compiled(core.FixedWindow("r", core.PerMinute(10)))
		for age, want := range map[int64]any{0: "0", 5: "2000005", maxInteger: fmt.Sprint(int64(maxInteger))} {
			c := &call{keys: []string{"k"}, charges: []driver.Charge{{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: driver.Receipt{At: 1, Age: age}}}}
			r := new(executor).newRequest(c)
			r.since = time.Now()
			time.Sleep(2 * time.Second)
			for range 2 {
				if r.noteWait(); r.charges[0].receipt[receiptAge] != want {
					t.Errorf("an undo of age %d us has the age %v after two seconds, want %v", age, r.charges[0].receipt[receiptAge], want)
				}
			}
		}
	})
}
