package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// mostRecovery is when a fleet that has not come back is called lost. Two seconds are
// promised; a busy machine may take longer.
const mostRecovery = 10 * time.Second

// An account is how many requests of a user were admitted, and how many might have
// been.
type account struct {
	admitted int
	limit    int // by a Redis that never fails
	bound    int // by what package failover promises
}

// judge holds a trial to the promises, and returns those that were broken. busiest is
// the account of the user that came closest to the bound.
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
		complain("%d requests were denied although their users keep the limit", denied)
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
		complain("Redis did not decide %v after it had returned", took.Round(time.Millisecond))
	}
	return busiest, broken
}

// of returns what the requests of a user were, and those that were admitted by each
// store. A Redis that was killed is another afterwards.
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

// audit holds what was admitted of a busy user against the limit: what each store has
// admitted in any span of time, and all of it against the sum that is promised.
func (t *trial) audit(user int) (account, error) {
	all, before, after, memory := t.of(busy, user)
	if len(all) == 0 {
		return account{}, fmt.Errorf("user %d asked for nothing", user)
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
	}{{"Redis", before, 0}, {"Redis, started again,", after, 0}, {"the memory of all instances", memory, t.fresh()}} {
		if n, allowed, d := worst(part.spans, apiLimit); n > allowed+part.more {
			return a, fmt.Errorf("%s has admitted %d of user %d in %v, and may %d", part.name, n, user, d.Round(time.Millisecond), allowed+part.more)
		}
	}
	if a.admitted > a.bound {
		return a, fmt.Errorf("%d of user %d were admitted, and at most %d may be", a.admitted, user, a.bound)
	}
	if least := min(len(all), rate(apiLimit, length(all))) / 2; a.admitted < least {
		return a, fmt.Errorf("only %d of user %d were admitted, which is less than half of the limit", a.admitted, user)
	}
	return a, nil
}

// bound is what the documentation of package failover promises: with a Share for each
// instance, memory admits as much as one store in the time in which it decides. Redis
// admits as much as it always does until it is left, and again from its return.
func (t *trial) bound(all, memory []span) int {
	whole := length(all)
	redis := most(apiLimit, whole)
	if left := t.left(); t.fault.forgets {
		redis = t.inTwo(all, t.struck)
		if t.fault.partial { // nobody knows whose master it was
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

// fresh is what memory may admit because an instance has started with an empty one.
func (t *trial) fresh() int {
	if t.fault.restarts {
		return burst(apiLimit) / instances
	}
	return 0
}

// inTwo is what Redis admits until it is left, and from the end of the fault.
func (t *trial) inTwo(all []span, left time.Time) int {
	begun, end := edges(all)
	return most(apiLimit, left.Sub(begun)) + most(apiLimit, end.Sub(t.ended))
}

// auditLogin holds the route that fails closed against its limit, and against its
// promise that nothing is admitted without Redis.
func (t *trial) auditLogin() error {
	all, before, after, memory := t.of(login, 0)
	if len(all) == 0 {
		return fmt.Errorf("nobody has signed in")
	}
	if len(memory) > 0 {
		return fmt.Errorf("memory has admitted %d to the closed route", len(memory))
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
				return fmt.Errorf("the closed route has admitted %d within %v, and may %d", n, loginLimit.Per, loginLimit.Events)
			}
		}
	}
	if left := t.left(); t.keptAway(left) {
		for _, s := range slices.Concat(before, after) {
			if s.begun.After(left) && s.end.Before(t.ended) {
				return fmt.Errorf("the closed route has admitted somebody without Redis")
			}
		}
	}
	return nil
}

// A span is from when a request was sent to when it was answered. It was decided
// somewhere in between.
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

// most is what a bucket with that limit admits in d.
func most(l core.Limit, d time.Duration) int { return burst(l) + rate(l, d) }

func burst(l core.Limit) int { return max(l.Burst, l.Events) }

// rate is what a bucket with that limit gets back in d.
func rate(l core.Limit, d time.Duration) int {
	return int(int64(max(0, d)) * int64(l.Events) / int64(l.Per))
}

// worst finds the time in which a bucket has admitted most beyond what it may, or
// least below: n, what was allowed, and how long it was.
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
