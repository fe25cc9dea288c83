package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
)

var epoch = time.Unix(1_700_000_000, 0)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func TestWorst(t *testing.T) {
	l := core.Limit{Events: 1, Per: time.Second, Burst: 100}
	var spans []span
	for i := range 100 {
		spans = append(spans, span{at(0), at(time.Duration(i) * time.Millisecond)})
	}
	for i := 1; i <= 30; i++ {
		d := time.Duration(i) * time.Second
		spans = append(spans, span{at(d), at(d + time.Millisecond)})
	}
	if n, allowed, d := worst(spans, l); n > allowed {
		t.Errorf("got %d events in %v, want at most %d", n, d, allowed)
	}
	spans = append(spans, span{at(4 * time.Second), at(4100 * time.Millisecond)})
	if n, allowed, d := worst(spans, l); n != allowed+1 {
		t.Errorf("after one more event: got %d events in %v, want one more than the allowed %d", n, d, allowed)
	}
	// The span of a slow request does not show when it was decided.
	spans[len(spans)-1] = span{at(-time.Hour), at(time.Hour)}
	if n, allowed, d := worst(spans, l); n > allowed {
		t.Errorf("got %d events in %v, want at most %d", n, d, allowed)
	}
}

// An era is a time in which one store decides and admits as much as its limit allows: a
// burst at once, and then at the rate.
type era struct {
	store    store
	from, to time.Duration
	extra    int // more events, admitted at the end
}

// A story is an invented trial of 6 s: 2 s before the fault, a fault of 2 s in which every
// instance leaves Redis after 100 ms, and 2 s after the fault. All users send many requests,
// and answers take no time.
type story struct {
	trial
	eras    []era
	spoiled func(*record)
}

func newStory() *story {
	s := &story{eras: []era{
		{store: byRedis, from: 0, to: 2 * time.Second},
		{store: byMemory, from: 2 * time.Second, to: 4 * time.Second},
		{store: byRedis, from: 4 * time.Second, to: 6 * time.Second},
	}}
	s.fault = &fault{name: "story"}
	s.start, s.begun, s.struck = at(0), at(2*time.Second), at(2*time.Second)
	s.ended, s.stop = at(4*time.Second), at(6*time.Second)
	s.returned, s.back, s.recovered = s.ended, at(4500*time.Millisecond), true
	for d := time.Duration(0); d < 6*time.Second; d += pace {
		sample := sample{at: at(d)}
		for i := range sample.states {
			if d >= 2100*time.Millisecond && d < 4500*time.Millisecond {
				sample.states[i] = health{State: failover.Backup, Outages: 1}
			}
		}
		s.samples = append(s.samples, sample)
	}
	return s
}

// tell returns the story as a trial with its records.
func (s *story) tell() *trial {
	add := func(r record, when time.Duration, n int) {
		r.due, r.begun, r.end = at(when), at(when), at(when)
		for range n {
			s.records = append(s.records, r)
		}
	}
	step := time.Second/15 + 1
	for user := range busyUsers {
		admitted := record{kind: busy, user: user, status: http.StatusOK}
		for _, e := range s.eras {
			admitted.store = e.store
			add(admitted, e.from, 15)
			last := e.from
			for when := e.from + step; when < e.to; when += step {
				add(admitted, when, 1)
				last = when
			}
			add(admitted, last, e.extra)
		}
		for when := time.Duration(0); when <= 6*time.Second; when += 100 * time.Millisecond {
			add(record{kind: busy, user: user, status: http.StatusTooManyRequests, store: byRedis}, when, 1)
		}
	}
	for second := range 6 {
		when := time.Duration(second)*time.Second + 500*time.Millisecond
		r := record{kind: login, status: http.StatusOK, store: byRedis}
		if second == 2 || second == 3 {
			r.status, r.store = http.StatusServiceUnavailable, undecided
		}
		add(r, when, 5)
		add(record{kind: calm, status: http.StatusOK, store: byRedis}, when, 1)
	}
	if s.spoiled != nil {
		s.spoiled(&s.records[len(s.records)-1])
	}
	return &s.trial
}

func TestTrial_Judge(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*story)
		want  string // part of the only violation; "" means that there is none
	}{
		{"no violation", func(*story) {}, ""},
		{"an error", func(s *story) {
			s.spoiled = func(r *record) { r.kind, r.status = calm, http.StatusInternalServerError }
		}, "1 requests failed"},
		{"no answer", func(s *story) { s.spoiled = func(r *record) { r.kind, r.status = calm, 0 } }, "1 requests failed"},
		{"a request without a decision", func(s *story) { s.spoiled = func(r *record) { r.kind, r.store = calm, undecided } }, "1 requests failed"},
		{"a denial below the limit", func(s *story) { s.spoiled = func(r *record) { r.kind, r.status = calm, http.StatusTooManyRequests } }, "below the limit"},
		{"Redis admits too much", func(s *story) { s.eras[0].extra = 1 }, "Redis admitted"},
		{"memory admits too much", func(s *story) { s.eras[1].extra = 1 }, "the memory of all instances admitted"},
		{"too few requests are admitted", func(s *story) { s.eras = s.eras[:1] }, "less than half"},
		{"a user without requests", func(s *story) { s.spoiled = func(*record) { dropUser0(s) } }, "sent no requests"},
		{"a login in memory", func(s *story) { s.spoiled = func(r *record) { r.kind, r.store, r.user = login, byMemory, 0 } }, "memory admitted 1 requests of the route that fails closed"},
		{"a login without Redis", func(s *story) {
			s.spoiled = func(r *record) {
				r.kind, r.begun, r.end = login, at(3*time.Second), at(3*time.Second)
			}
		}, "a request without Redis"},
		{"too many logins", func(s *story) {
			s.spoiled = func(*record) {
				for i := range s.records {
					if r := &s.records[i]; r.kind == login && r.begun.Before(at(2*time.Second)) {
						r.begun, r.end = at(0), at(0)
					}
				}
				s.records = append(s.records, record{kind: login, status: http.StatusOK, store: byRedis, begun: at(0), end: at(0)})
			}
		}, "the route that fails closed admitted 11 requests within 2s"},
		{"slow recovery", func(s *story) { s.back = s.returned.Add(mostRecovery + time.Second) }, "did not decide"},
		{"no recovery", func(s *story) { s.recovered = false }, "did not decide"},
		{"a place is denied soon after the recovery", func(s *story) {
			s.places = []record{{status: http.StatusTooManyRequests, begun: s.back.Add(placesBack)}}
		}, ""},
		{"a place is denied later", func(s *story) {
			s.places = []record{{status: http.StatusTooManyRequests, begun: s.back.Add(placesBack + time.Millisecond)}}
		}, "was denied a place"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory()
			c.spoil(s)
			_, broken := s.tell().judge()
			all := strings.Join(broken, "\n")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) || strings.Count(all, "\n") >= busyUsers {
				t.Errorf("got the violations %q, want %q", all, c.want)
			}
		})
	}
}

// dropUser0 removes the requests of user 0.
func dropUser0(s *story) {
	var rest []record
	for _, r := range s.records {
		if r.kind != busy || r.user != 0 {
			rest = append(rest, r)
		}
	}
	s.records = rest
}

// If all instances leave Redis and it keeps its states, the bound is a burst and the refill
// before, during and after the outage. If they do not leave Redis, it is that of one store.
func TestTrial_Bound(t *testing.T) {
	const burst, perSecond, admitted = 15, 15, 3*15 + 3*29
	whole := burst + 6*perSecond
	for _, c := range []struct {
		name  string
		spoil func(*story)
		want  int
	}{
		{"left after 100 ms", func(*story) {}, burst + 31 + (burst + 29) + (burst + 2*perSecond)},
		{"killed", func(s *story) { s.fault = &fault{forgets: true} }, burst + 30 + (burst + 29) + (burst + 2*perSecond)},
		{"one killed", func(s *story) { s.fault = &fault{forgets: true, partial: true} }, whole + burst + 29},
		{"an instance killed", func(s *story) { s.fault = &fault{restarts: true} }, burst + 31 + (burst + 29) + (burst + 2*perSecond) + burst/3},
		{"flapping", func(s *story) { s.samples[150].states[0].Outages = 2 }, whole + burst + 29},
	} {
		s := newStory()
		c.spoil(s)
		if a, broken := s.tell().judge(); a != (account{admitted, whole, c.want}) || broken != nil {
			t.Errorf("%s: got %+v, %v; want the bound %d", c.name, a, broken, c.want)
		}
	}
	// If no instance leaves Redis, the bound is the limit.
	s := newStory()
	for i := range s.samples {
		clear(s.samples[i].states[:])
	}
	s.eras = []era{{store: byRedis, from: 0, to: 6 * time.Second}}
	if a, broken := s.tell().judge(); a != (account{15 + 89, whole, whole}) || broken != nil {
		t.Errorf("no instance leaves Redis: got %+v, %v; want the bound %d", a, broken, whole)
	}
}

func TestTrial_Left(t *testing.T) {
	s := newStory()
	left := s.left()
	if left != at(2100*time.Millisecond) || !s.keptAway(left) {
		t.Errorf("got left at %v, want 2.1s, and all instances away until the end of the fault", left.Sub(epoch))
	}
	for i := range s.samples {
		if smp := &s.samples[i]; smp.at == at(3*time.Second) {
			smp.states[2].State = failover.Recovering
		}
	}
	if s.keptAway(s.left()) {
		t.Error("one instance returns during the fault: got keptAway true")
	}
	for i := range s.samples {
		s.samples[i].states[1].State = failover.Primary
	}
	if left := s.left(); !left.IsZero() || s.keptAway(left) {
		t.Errorf("one instance never leaves Redis: got left at %v, want zero", left)
	}
}

func TestTrial_P99(t *testing.T) {
	var tr trial
	for i := range 100 {
		due := at(time.Duration(i) * time.Millisecond)
		tr.records = append(tr.records, record{due: due, end: due.Add(time.Duration(i) * time.Second)})
	}
	if took, ok := tr.p99(at(0), at(time.Second)); took != 99*time.Second || !ok {
		t.Errorf("got p99 %v, %t; want 99s", took, ok)
	}
	if _, ok := tr.p99(at(0), at(19*time.Millisecond)); ok {
		t.Error("got a p99 of 19 requests, want none")
	}
}

func TestTurn(t *testing.T) {
	for _, rate := range []int{400, 600, 1500, 4999} {
		n := 0
		for i := range 10 * rate {
			if turn(i, mostBusy, rate) {
				n++
			}
		}
		if n != 10*mostBusy {
			t.Errorf("of %d requests: got %d by busy users, want %d", 10*rate, n, 10*mostBusy)
		}
	}
}

func TestStoreOf(t *testing.T) {
	for policy, want := range map[string]store{
		`"api";q=15;w=1`: byRedis, `"api";q=5;w=1`: byMemory, `"login";q=10;w=2`: byRedis, "": undecided, `"api";q=9;w=1`: undecided,
	} {
		if got := storeOf(policy); got != want {
			t.Errorf("%q: got %v, want %v", policy, got, want)
		}
	}
	// The constants equal the fields that the application sends.
	for l, want := range map[core.Limit]string{apiLimit: redisPolicy} {
		share := core.TokenBucket("api", l).Divide(instances)
		if got := fmt.Sprintf(`"api";q=%d;w=1`, l.Events); got != want {
			t.Errorf("got the policy %q, want %q", got, want)
		}
		if got := fmt.Sprintf(`"api";q=%d;w=%d`, share.Limit().Events, share.Limit().Per/time.Second); got != memoryPolicy {
			t.Errorf("got the policy of an instance %q, want %q", got, memoryPolicy)
		}
	}
}
