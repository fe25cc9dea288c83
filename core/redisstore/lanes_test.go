package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// waiting returns lanes with requests on keys, one after the other. A key in capitals is that of a
// heavy request, whose work is maxWork/4, and one that begins with "renew" is that of a renewal.
func waiting(keys ...string) *lanes {
	l := new(lanes)
	for i, key := range keys {
		r := &request{
			ctx: context.Background(), verb: take, keys: []string{strings.ToLower(key)}, work: maxWork / 40, done: make(chan struct{}, 1),
			since: time.Now().Add(time.Duration(i)), at: time.Now().Add(time.Second),
		}
		r.urgent = strings.HasPrefix(key, "renew")
		if key != r.keys[0] {
			r.work = maxWork / 4
		}
		l.add(r)
	}
	return l
}

// repeat returns n keys that begin with key.
func repeat(key string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(key, i))
	}
	return keys
}

// Renewals pass all other requests. Light requests pass heavy ones, up to half of a round trip. The requests
// of a key stay in order.
func TestLanes_Next(t *testing.T) {
	for name, c := range map[string]struct {
		waiting []string
		trips   []string
	}{
		"light":                    {[]string{"a", "b", "c"}, []string{"a b c"}},
		"light, many":              {repeat("a", 41), []string{strings.ToLower(strings.Join(repeat("a", 40), " ")), "a40"}},
		"heavy":                    {[]string{"A", "B", "C", "D", "E"}, []string{"a b c d", "e"}},
		"light after heavy":        {[]string{"A", "B", "C", "D", "E", "f"}, []string{"f a b c", "d e"}},
		"light and heavy of a key": {[]string{"A", "B", "C", "D", "E", "e", "f"}, []string{"f a b c", "d e e"}},
		"heavy and light of a key": {append(repeat("a", 21), "A20", "b"), []string{strings.Join(append(repeat("a", 21), "a20", "b"), " ")}},
		"many light after heavy": {append([]string{"X", "Y", "Z"}, repeat("a", 30)...), []string{
			strings.Join(append(repeat("a", 20), "x", "y"), " "), strings.Join(append(repeat("a", 30)[20:], "z"), " "),
		}},
		"renewals": {[]string{"a", "B", "renew", "b", "c", "renewed"}, []string{"renew renewed a c b b"}},
		"renewals after a full round trip": {append(repeat("a", 60), "renew"), []string{
			strings.Join(append([]string{"renew"}, repeat("a", 39)...), " "), strings.Join(repeat("a", 60)[39:], " "),
		}},
		"heavy after many light": {append(repeat("a", 50), "X"), []string{strings.Join(repeat("a", 40), " "), strings.Join(append(repeat("a", 50)[40:], "x"), " ")}},
	} {
		t.Run(name, func(t *testing.T) {
			l := waiting(c.waiting...)
			var trips []string
			for l.length() > 0 {
				requests, work := l.next(time.Now(), new(distance), 0)
				if len(requests) == 0 || work > maxWork {
					t.Fatalf("a round trip has %d requests with work of %v, want 1 or more with at most %v", len(requests), work, maxWork)
				}
				var keys []string
				for _, r := range requests {
					keys = append(keys, r.keys[0])
				}
				trips = append(trips, strings.Join(keys, " "))
			}
			if !slices.Equal(trips, c.trips) {
				t.Errorf("the round trips have\n%q, want\n%q", trips, c.trips)
			}
			if l.work != 0 || len(l.keys) != 0 {
				t.Errorf("at the end the lanes are %+v", l)
			}
		})
	}
}

// Decisions that wait leave room for renewals, whose number is bounded, too.
func TestLanes_Add_renewals(t *testing.T) {
	l := waiting(repeat("a", maxWaiting)...)
	add := func(key string) bool {
		requests, _ := waiting(key).next(time.Now(), new(distance), 0)
		return l.add(requests[0])
	}
	if add("b") {
		t.Errorf("%d requests wait, want at most %d", l.length(), maxWaiting)
	}
	for i := range maxWaiting {
		if !add(fmt.Sprint("renew", i)) {
			t.Fatalf("renewal %d found no room", i)
		}
	}
	if add("renew") {
		t.Errorf("%d requests wait, want at most %d", l.length(), 2*maxWaiting)
	}
	l.urgent[0].left.Store(true)
	if !add("renew") {
		t.Error("a renewal found no room after the caller of another one has left")
	}
}

// Heavy requests are not kept waiting by light ones that come all the time.
func TestLanes_Next_fair(t *testing.T) {
	l := waiting("X")
	for i := range 3 {
		for _, r := range waiting(repeat("a", 100)...).light {
			r.since = r.since.Add(time.Second)
			l.add(r)
		}
		requests, _ := l.next(time.Now(), new(distance), 0)
		if slices.ContainsFunc(requests, func(r *request) bool { return r.keys[0] == "x" }) {
			return
		}
		t.Logf("round trip %d has %d requests", i, len(requests))
	}
	t.Error("the heavy request was not sent in 3 round trips")
}

// While the server hangs, a request waits until its deadline.
func TestLanes_Next_hang(t *testing.T) {
	l := waiting("a")
	l.light[0].at = time.Now().Add(time.Millisecond)
	if requests, _ := l.next(time.Now(), &distance{replied: time.Now().Add(-time.Second), usual: time.Minute}, time.Minute); len(requests) != 1 {
		t.Errorf("the round trip has %d requests, want 1", len(requests))
	}
}

// A request whose caller has left is dropped, and one that would be late fails. F has waited for longer
// than it has left, which is 30 ms.
func TestLanes_Next_late(t *testing.T) {
	for usual, want := range map[time.Duration]string{14 * time.Millisecond: "c e f", 16 * time.Millisecond: "c e"} {
		synctest.Test(t, func(t *testing.T) {
			l := waiting("a", "b", "c", "D", "E", "F")
			l.light[0].left.Store(true)
			l.light[1].at = time.Now().Add(16 * time.Millisecond)
			l.heavy[0].at = time.Now()
			l.heavy[2].since, l.heavy[2].at = time.Now().Add(-31*time.Millisecond), time.Now().Add(30*time.Millisecond)
			hopeless, late, long := l.light[1], l.heavy[0], l.heavy[2]
			d := &distance{replied: time.Now().Add(time.Millisecond), now: 15 * time.Millisecond, usual: usual}
			requests, _ := l.next(time.Now(), d, 17*time.Millisecond)
			var sent []string
			for _, r := range requests {
				sent = append(sent, r.keys[0])
			}
			if got := strings.Join(sent, " "); got != want {
				t.Errorf("usual %v: the round trip has %s, want %s", usual, got, want)
			}
			if len(hopeless.done) != 1 || hopeless.err != ErrOverloaded || len(late.done) != 0 {
				t.Errorf("b is over: %d, %v, want 1, %v; D is over: %d, want 0", len(hopeless.done), hopeless.err, ErrOverloaded, len(late.done))
			}
			if sent := want == "c e f"; sent != (len(long.done) == 0) || sent != (long.err == nil) {
				t.Errorf("usual %v: F is over: %d, %v", usual, len(long.done), long.err)
			}
		})
	}
}

// A request that needs more than half of a round trip is sent although light ones come all the time, and
// does not keep those behind it waiting.
func TestLanes_Next_large(t *testing.T) {
	l := waiting("X", "Y")
	l.heavy[0].work, l.work = maxWork, l.work+maxWork-l.heavy[0].work
	sent := make(map[string]bool)
	for range 3 {
		for _, r := range waiting(repeat("a", 100)...).light {
			r.since = r.since.Add(time.Second)
			l.add(r)
		}
		requests, _ := l.next(time.Now(), new(distance), 0)
		for _, r := range requests {
			sent[r.keys[0]] = true
		}
	}
	if !sent["x"] || !sent["y"] {
		t.Errorf("in 3 round trips, x was sent: %t, y: %t", sent["x"], sent["y"])
	}
}

// A light request that followed a heavy one is light again when that has been sent.
func TestLanes_Next_follower(t *testing.T) {
	l := waiting("X", "x", "a", "Y")
	l.remove(&l.heavy)
	requests, _ := l.next(time.Now(), new(distance), 0)
	if len(requests) != 3 || requests[0].keys[0] != "x" || requests[1].keys[0] != "a" {
		t.Errorf("the round trip has %d requests, the first of %q and %q, want 3, x and a", len(requests), requests[0].keys, requests[1].keys)
	}
}

// An overload of one hash slot does not hide the failure of another one, and does not become a missed
// deadline.
func TestOutcome_overloaded(t *testing.T) {
	if _, err := outcome([]*call{{err: context.DeadlineExceeded}, {err: ErrOverloaded}}); err != context.DeadlineExceeded {
		t.Errorf("the error of two slots is %v, want %v", err, context.DeadlineExceeded)
	}
	d := &deadline{ctx: t.Context(), at: time.Now().Add(-1)}
	if err := d.outcome(&request{err: ErrOverloaded}); err != ErrOverloaded {
		t.Errorf("the outcome is %v, want %v", err, ErrOverloaded)
	}
}
