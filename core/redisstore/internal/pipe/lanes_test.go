package pipe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// waiting returns lanes with jobs on keys, one after the other. A key in capitals is that of a
// heavy job, whose work is maxWork/4, and one that begins with "renew" is that of a renewal.
func waiting(keys ...string) *lanes {
	l := new(lanes)
	for i, key := range keys {
		j := &Job{
			Request: wire.Request{Keys: []string{strings.ToLower(key)}, Work: maxWork / 40, Urgent: strings.HasPrefix(key, "renew")},
			ctx:     context.Background(), done: make(chan struct{}, 1),
			Since: time.Now().Add(time.Duration(i)), leaves: time.Now().Add(time.Second),
		}
		if key != j.Keys[0] {
			j.Work = maxWork / 4
		}
		l.add(j)
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

// Renewals pass all other jobs. Light jobs pass heavy ones, up to half of a round trip. The jobs
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
				jobs, work := l.next(time.Now(), new(distance), 0)
				if len(jobs) == 0 || work > maxWork {
					t.Fatalf("a round trip has %d jobs with work of %v, want 1 or more with at most %v", len(jobs), work, maxWork)
				}
				var keys []string
				for _, j := range jobs {
					keys = append(keys, j.Keys[0])
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
		jobs, _ := waiting(key).next(time.Now(), new(distance), 0)
		return l.add(jobs[0])
	}
	if add("b") {
		t.Errorf("%d jobs wait, want at most %d", l.length(), maxWaiting)
	}
	for i := range maxWaiting {
		if !add(fmt.Sprint("renew", i)) {
			t.Fatalf("renewal %d found no room", i)
		}
	}
	if add("renew") {
		t.Errorf("%d jobs wait, want at most %d", l.length(), 2*maxWaiting)
	}
	l.urgent[0].left.Store(true)
	if !add("renew") {
		t.Error("a renewal found no room after the caller of another one has left")
	}
}

// Heavy jobs are not kept waiting by light ones that come all the time.
func TestLanes_Next_fair(t *testing.T) {
	l := waiting("X")
	for i := range 3 {
		for _, j := range waiting(repeat("a", 100)...).light {
			j.Since = j.Since.Add(time.Second)
			l.add(j)
		}
		jobs, _ := l.next(time.Now(), new(distance), 0)
		if slices.ContainsFunc(jobs, func(j *Job) bool { return j.Keys[0] == "x" }) {
			return
		}
		t.Logf("round trip %d has %d jobs", i, len(jobs))
	}
	t.Error("the heavy job was not sent in 3 round trips")
}

// While the server hangs, a job waits until its deadline.
func TestLanes_Next_hang(t *testing.T) {
	l := waiting("a")
	l.light[0].leaves = time.Now().Add(time.Millisecond)
	if jobs, _ := l.next(time.Now(), &distance{replied: time.Now().Add(-time.Second), usual: time.Minute}, time.Minute); len(jobs) != 1 {
		t.Errorf("the round trip has %d jobs, want 1", len(jobs))
	}
}

// A job whose caller has left is dropped, and one that would be late fails. F has waited for longer
// than it has left, which is 30 ms.
func TestLanes_Next_late(t *testing.T) {
	for usual, want := range map[time.Duration]string{14 * time.Millisecond: "c e f", 16 * time.Millisecond: "c e"} {
		synctest.Test(t, func(t *testing.T) {
			l := waiting("a", "b", "c", "D", "E", "F")
			l.light[0].left.Store(true)
			l.light[1].leaves = time.Now().Add(16 * time.Millisecond)
			l.heavy[0].leaves = time.Now()
			l.heavy[2].Since, l.heavy[2].leaves = time.Now().Add(-31*time.Millisecond), time.Now().Add(30*time.Millisecond)
			hopeless, late, long := l.light[1], l.heavy[0], l.heavy[2]
			d := &distance{replied: time.Now().Add(time.Millisecond), now: 15 * time.Millisecond, usual: usual}
			jobs, _ := l.next(time.Now(), d, 17*time.Millisecond)
			var sent []string
			for _, j := range jobs {
				sent = append(sent, j.Keys[0])
			}
			if got := strings.Join(sent, " "); got != want {
				t.Errorf("usual %v: the round trip has %s, want %s", usual, got, want)
			}
			if len(hopeless.done) != 1 || hopeless.Err != driver.ErrOverloaded || len(late.done) != 0 {
				t.Errorf("b is over: %d, %v, want 1, %v; D is over: %d, want 0", len(hopeless.done), hopeless.Err, driver.ErrOverloaded, len(late.done))
			}
			if sent := want == "c e f"; sent != (len(long.done) == 0) || sent != (long.Err == nil) {
				t.Errorf("usual %v: F is over: %d, %v", usual, len(long.done), long.Err)
			}
		})
	}
}

// A job that needs more than half of a round trip is sent although light ones come all the time, and
// does not keep those behind it waiting.
func TestLanes_Next_large(t *testing.T) {
	l := waiting("X", "Y")
	l.heavy[0].Work, l.work = maxWork, l.work+maxWork-l.heavy[0].Work
	sent := make(map[string]bool)
	for range 3 {
		for _, j := range waiting(repeat("a", 100)...).light {
			j.Since = j.Since.Add(time.Second)
			l.add(j)
		}
		jobs, _ := l.next(time.Now(), new(distance), 0)
		for _, j := range jobs {
			sent[j.Keys[0]] = true
		}
	}
	if !sent["x"] || !sent["y"] {
		t.Errorf("in 3 round trips, x was sent: %t, y: %t", sent["x"], sent["y"])
	}
}

// A light job that followed a heavy one is light again when that has been sent.
func TestLanes_Next_follower(t *testing.T) {
	l := waiting("X", "x", "a", "Y")
	l.remove(&l.heavy)
	jobs, _ := l.next(time.Now(), new(distance), 0)
	if len(jobs) != 3 || jobs[0].Keys[0] != "x" || jobs[1].Keys[0] != "a" {
		t.Errorf("the round trip has %d jobs, the first of %q and %q, want 3, x and a", len(jobs), jobs[0].Keys, jobs[1].Keys)
	}
}
