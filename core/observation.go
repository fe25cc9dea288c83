package core

import (
	"context"
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// counterOf is a counter of a rule, and the Observer that it belongs to.
type counterOf struct {
	observer driver.Observer
	count    func(driver.Observation)
}

// counter returns the counter of r for the Observer o. It remembers that of the latest Observer, and
// an application has few.
func (r *definition) counter(o driver.Observer) func(driver.Observation) {
	known := r.counted.Load()
	if known == nil || known.observer != o {
		known = &counterOf{o, o.Counter(r.spec.Name, r.plan.Name)}
		r.counted.Store(known)
	}
	return known.count
}

// An attempt says which decisions about an ask are not the last one about their event. The Observer
// counts them apart.
type attempt uint8

const (
	unlessAllowed attempt = iota + 1 // of Wait
	unlessDenied                     // of a gate that does not know all keys yet
	always
)

// observe tells the Observer, if there is one, about asks, the arguments of e, and their decision d, or
// the error in place of d.
func (e *event) observe(asks []Ask, d *Decision, err error) {
	lines := e.lines()
	if len(lines) == 0 || asks[0].Limiter.observer == nil || err != nil && errors.Is(err, ErrInvalidAsk) {
		return
	}
	o, peek, attempted := asks[0].Limiter.observer, true, false
	for i := range asks {
		peek = peek && asks[i].Peek
	}
	switch asks[0].attempt {
	case unlessAllowed:
		attempted = err == nil && !d.Allowed
	case unlessDenied:
		attempted, peek = err == nil && d.Allowed, false
	case always:
		attempted = true
	}
	if attempted || peek {
		o.Ask(!attempted)
		return
	}
	failed, binding := driver.Result(0), 0
	if err != nil {
		failed = failure(err)
	} else if len(lines) > 1 {
		binding = d.binding()
	}
	for i := range lines {
		n := driver.Observation{Key: asks[lines[i].ask].Key, Result: failed}
		if failed == 0 {
			s := d.state(i)
			n.Result, n.RetryAfter = s.result(), s.RetryAfter
		}
		if i == binding {
			if n.Decision = n.Result; failed == 0 && lines[i].rule.d.spec.Shadow {
				n.Decision = driver.Allowed
			}
		}
		lines[i].rule.d.counter(o)(n)
	}
}

// failure returns the Result of an event that could not be decided because of err.
func failure(err error) driver.Result {
	if !errors.Is(err, ErrUnavailable) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return driver.Canceled
	}
	return driver.Failed
}

// binding returns the index of the State that determines d: of a denial, the one with the longest
// RetryAfter, and otherwise the first one that is beyond its limit, or else the first one.
func (d *Decision) binding() int {
	at := -1
	for i := range d.n {
		switch s := d.state(i); {
		case s.Rule.d.spec.Shadow:
		case at < 0:
			at = i
		case d.Allowed:
			if s.Soft && !d.state(at).Soft {
				at = i
			}
		case !s.Allowed && (d.state(at).Allowed || s.RetryAfter > d.state(at).RetryAfter):
			at = i
		}
	}
	return max(at, 0)
}

// result returns the Result of the rule of s, which is zero if s is Unknown.
func (s *State) result() driver.Result {
	switch {
	case s.Unknown:
		return 0
	case s.Allowed && s.Soft:
		return driver.Soft
	case s.Allowed:
		return driver.Allowed
	case s.Rule.d.spec.Shadow:
		return driver.ShadowDenied
	case s.isBlocked():
		return driver.Blocked
	case s.RetryAfter == Never:
		return driver.NeverAllowed
	}
	return driver.Denied
}
