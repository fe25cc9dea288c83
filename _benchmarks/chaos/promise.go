package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// mostRecovery is the longest time until Redis has to decide again. The guarantee is two
// seconds; a busy machine may take longer.
const mostRecovery = 10 * time.Second

// An account compares the admitted requests of a user with two bounds.
type account struct {
	admitted int
	limit    int // the most that a Redis without faults admits
	bound    int // the most that package failover guarantees
}

// judge checks the guarantees, and returns the violations. busiest is the account of the
// user that came closest to the bound.
func (t *trial) judge() (busiest account, broken []string) {
	complain := func(format string, args ...any) {
		broken = append(broken, t.fault.name+": "+fmt.Sprintf(format, args...))
	}
	failed, denied := 0, 0
	for i := range t.records {
		r := &t.records[i]
		if r.failed() {
			failed++
		}
		if r.kind == calm && r.status == 429 {
			denied++
		}
	}
	if failed > 0 {
		complain("%d requests failed", failed)
	}
	if denied > 0 {
		complain("%d requests of users below the limit were denied", denied)
	}
	if user, at, ok := t.deniedPlace(); ok && !t.fault.restarts { // the places of an instance that was killed are taken
		complain("user %d was denied a place %v after Redis decided again", user, at.Sub(t.back).Round(time.Millisecond))
	}
	if t.fault.partial && t.outages() > 0 {
		complain("%d times an instance did not use the other masters", t.outages())
	}
	for user := range busyUsers {
		a, err := t.audit(user)
		if err != nil {
			complain("%v", err)
		}
		if user == 0 || a.admitted*busiest.bound > busiest.admitted*a.bound {
			busiest = a
		}
	}
	if err := t.auditLogin(); err != nil {
		complain("%v", err)
	}
	if took := t.back.Sub(t.returned); !t.recovered || took > mostRecovery {
		complain("Redis did not decide again within %v of its return", took.Round(time.Millisecond))
	}
	return busiest, broken
}

// placesBack is the time after which no user is denied a place any more, from when Redis decides again: places of
// lost replies are freed by calls that may be lost, too, while connections are found that were forgotten.
const placesBack = 2 * time.Second

// deniedPlace returns the last request for a place that was denied later than placesBack after Redis decided again.
func (t *trial) deniedPlace() (user int, at time.Time, denied bool) {
	for _, r := range t.places {
		if r.status == http.StatusTooManyRequests && r.begun.After(t.back.Add(placesBack)) {
			user, at, denied = r.user, r.begun, true
		}
	}
	return user, at, denied
}

// outages returns how often instances have left Redis since the fault began.
func (t *trial) outages() (n uint64) {
	var before *sample
	for i := range t.samples {
		if s := &t.samples[i]; s.at.Before(t.begun) || before == nil {
			before = s
		}
	}
	for i, last := range t.samples[len(t.samples)-1].states {
		n += last.Outages - before.states[i].Outages
	}
	return n
}

// of returns the requests of a user, and those that each store has admitted: Redis before
// and after it was killed and lost its states, and memory.
func (t *trial) of(k kind, user int) (all, before, after, memory []span) {
	for i := range t.records {
		r := &t.records[i]
		if r.kind != k || r.user != user {
			continue
		}
		s := span{r.begun, r.end}
		all = append(all, s)
		switch {
		case !r.admitted():
		case r.store == byMemory:
			memory = append(memory, s)
		case t.fault.forgets && r.begun.After(t.begun):
			after = append(after, s)
		default:
			before = append(before, s)
		}
	}
	return all, before, after, memory
}

// audit checks the admitted requests of a busy user: those of each store in any span of
// time against the limit, and all of them against the bound.
func (t *trial) audit(user int) (account, error) {
	all, before, after, memory := t.of(busy, user)
	if len(all) == 0 {
		return account{}, fmt.Errorf("user %d sent no requests", user)
	}
	a := account{
		admitted: len(before) + len(after) + len(memory),
		limit:    most(apiLimit, length(all)),
		bound:    t.bound(all, memory),
	}
	for _, part := range []struct {
		name  string
		spans []span
		more  int
	}{{"Redis", before, 0}, {"Redis after its restart", after, 0}, {"the memory of all instances", memory, t.fresh()}} {
		if n, allowed, d := worst(part.spans, apiLimit); n > allowed+part.more {
			return a, fmt.Errorf("%s admitted %d requests of user %d in %v, at most %d are allowed", part.name, n, user, d.Round(time.Millisecond), allowed+part.more)
		}
	}
	if a.admitted > a.bound {
		return a, fmt.Errorf("%d requests of user %d were admitted, at most %d are allowed", a.admitted, user, a.bound)
	}
	if least := min(len(all), rate(apiLimit, length(all))) / 2; a.admitted < least {
		return a, fmt.Errorf("%d requests of user %d were admitted, less than half of the limit", a.admitted, user)
	}
	return a, nil
}

// bound returns the most requests that the documentation of package failover allows. With
// the option Instances, the memories of all instances together admit as much as one store
// while memory decides. Redis admits up to its limit until all instances have left it, and
// again from its return.
func (t *trial) bound(all, memory []span) int {
	whole := length(all)
	redis := most(apiLimit, whole)
	if left := t.left(); t.fault.forgets {
		redis = t.inTwo(all, t.struck)
		if t.fault.partial { // the master of the user is unknown
			redis = max(redis, most(apiLimit, whole))
		}
	} else if t.keptAway(left) {
		redis = min(redis, t.inTwo(all, left))
	}
	if len(memory) == 0 {
		return redis
	}
	return redis + most(apiLimit, length(memory)) + t.fresh()
}

// fresh returns the requests that memory may admit because an instance has started with an
// empty one.
func (t *trial) fresh() int {
	if t.fault.restarts {
		return burst(apiLimit) / instances
	}
	return 0
}

// inTwo returns the most that Redis admits until left and from the end of the fault.
func (t *trial) inTwo(all []span, left time.Time) int {
	begun, end := edges(all)
	return most(apiLimit, left.Sub(begun)) + most(apiLimit, end.Sub(t.ended))
}

// auditLogin checks that the route that fails closed keeps its limit, and that it admits no
// request without Redis.
func (t *trial) auditLogin() error {
	all, before, after, memory := t.of(login, 0)
	if len(all) == 0 {
		return fmt.Errorf("no login was sent")
	}
	if len(memory) > 0 {
		return fmt.Errorf("memory admitted %d requests of the route that fails closed", len(memory))
	}
	for _, spans := range [][]span{before, after} {
		for _, s := range spans {
			n := 0
			for _, o := range spans {
				if !o.begun.Before(s.begun) && o.end.Sub(s.begun) < loginLimit.Per {
					n++
				}
			}
			if n > loginLimit.Events {
				return fmt.Errorf("the route that fails closed admitted %d requests within %v, at most %d are allowed", n, loginLimit.Per, loginLimit.Events)
			}
		}
	}
	if left := t.left(); t.keptAway(left) {
		for _, s := range slices.Concat(before, after) {
			if s.begun.After(left) && s.end.Before(t.ended) {
				return fmt.Errorf("the route that fails closed admitted a request without Redis")
			}
		}
	}
	return nil
}

// A span is the time from sending a request to receiving its answer. The decision was made
// at some time within it.
type span struct{ begun, end time.Time }

func edges(spans []span) (begun, end time.Time) {
	for _, s := range spans {
		if begun.IsZero() || s.begun.Before(begun) {
			begun = s.begun
		}
		if s.end.After(end) {
			end = s.end
		}
	}
	return begun, end
}

func length(spans []span) time.Duration {
	begun, end := edges(spans)
	return end.Sub(begun)
}

// most returns the most events that a token bucket with the limit admits in d.
func most(l core.Limit, d time.Duration) int { return burst(l) + rate(l, d) }

func burst(l core.Limit) int { return max(l.Burst, l.Events) }

// rate returns the events that a token bucket with the limit refills in d.
func rate(l core.Limit, d time.Duration) int {
	return int(int64(max(0, d)) * int64(l.Events) / int64(l.Per))
}

// worst returns the span of time d in which n, the admitted events, exceed the allowed
// events of a token bucket the most, or fall below them the least.
func worst(spans []span, l core.Limit) (n, allowed int, d time.Duration) {
	byEnd := slices.Clone(spans)
	slices.SortFunc(byEnd, func(a, b span) int { return a.end.Compare(b.end) })
	for _, first := range spans {
		within := 0
		for _, s := range byEnd {
			if s.begun.Before(first.begun) {
				continue
			}
			within++
			took := s.end.Sub(first.begun)
			if may := most(l, took); within-may > n-allowed || d == 0 {
				n, allowed, d = within, may, took
			}
		}
	}
	return n, allowed, d
}
