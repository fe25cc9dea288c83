package adapter

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// Admit decides about r and writes the header fields to h. ctx is the context of
// the framework, for the key functions; the Store gets r.Context().
//
// A request with a Delay (of a leaky bucket) is held until its turn, or until its
// client hangs up. Its place is then given back while it is the last; otherwise the
// turn passes unused, for those behind have been told theirs.
//
// Without a Refusal the handler is to run, by [Outcome.Run] unless the Outcome is nil. With
// a Refusal it is not: all header fields of the answer are set except Content-Type and
// X-Content-Type-Options, and nothing is written. The request that Admit returns replaces r in
// both cases. It is r, or a copy whose context has the decision.
func (g *Gate) Admit(ctx context.Context, h http.Header, r *http.Request) (*http.Request, *Outcome, *gate.Refusal) {
	if g.options.Skip != nil && g.options.Skip(r) {
		return g.undecided(r), nil, nil
	}
	if g.options.Expose {
		g.exposeFields(h)
	}
	rec := newRecord(r.Context(), g)
	refused, decided := g.decide(ctx, h, r, rec)
	switch {
	case refused != nil:
		return r, nil, refused
	case !decided:
		return g.undecided(r), g.outcome(nil), nil
	}
	r = r.WithContext(rec)
	rec.write(h)
	if !rec.decision.Allowed {
		return r, nil, g.deny(h, r, rec.decision)
	}
	if err := hold(rec, rec.decision.Delay); err != nil {
		rec.leave()
		return r, nil, g.fail(h, r, err, gone)
	}
	return r, g.outcome(rec), nil
}

// decide asks the Store, and fills in the decision of rec. If there is none, it
// says what to answer instead.
//
// Usually all keys are found first, and one call of the Store decides. If a key is
// exhausted, the keys that are known are charged before the next key function runs, so that
// a request that they deny does not cause the work of verifying a token.
func (g *Gate) decide(ctx context.Context, h http.Header, r *http.Request, rec *record) (refused *gate.Refusal, decided bool) {
	var few [2]core.Ask
	c := charging{record: rec, cost: 1, asks: few[:0]}
	if g.options.Cost != nil {
		if c.cost = g.options.Cost(r); c.cost < 0 {
			err := fmt.Errorf("%w: %d", core.ErrNegativeCost, c.cost)
			return g.fail(h, r, err, unidentified(r, err)), false
		}
	}
	var failed error // the error of the Store; after one, it is not called again
	for i := range g.asks {
		a := &g.asks[i]
		key, err := a.key(ctx, r)
		if err == nil && key == "" {
			err = errEmptyKey
		}
		if err != nil {
			if failed == nil {
				failed = c.takeRejected(a.limiter, err)
			}
			if failed == nil && c.denied() {
				return nil, true
			}
			return g.reject(h, rec, r, err, failed), false
		}
		c.asks = appendDistinct(c.asks, core.Ask{Limiter: a.limiter, Key: key, Cost: c.cost, MaxDelay: g.options.MaxDelay, Peek: c.cost == 0})
		if failed != nil || i == len(g.asks)-1 || !g.exhausted.has(g.place(a.limiter), key) {
			continue
		}
		failed = c.takeKnown(r.Context())
		switch {
		case failed == nil && c.denied():
			c.refund()
			c.remember(false)
			return nil, true
		case failed != nil && r.Context().Err() != nil:
			return g.fail(h, r, failed, gone), false
		}
	}
	if failed == nil {
		failed = c.take(r.Context())
	}
	if failed != nil {
		return g.fail(h, r, failed, storeFault(r, failed, g.options.FailClosed)), false
	}
	return nil, true
}

// reject makes the answer to a request without a key. The fields tell what its other keys
// were charged. A Store that could not charge them does not change the answer.
func (g *Gate) reject(h http.Header, rec *record, r *http.Request, err, storeErr error) *gate.Refusal {
	f := unidentified(r, err)
	if storeErr != nil && g.options.OnError == nil {
		g.journal.warn(r.Context(), "weir: the store could not charge a request without a key", storeErr, f.status)
	}
	refused := g.fail(h, r, err, f)
	if refused != nil {
		rec.write(h)
	}
	return refused
}

// errEmptyKey: an empty key would be one bucket for everybody it happens to.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)

func (g *Gate) deny(h http.Header, r *http.Request, d core.Decision) *gate.Refusal {
	retry, _ := gate.RetryAfter(d)
	if retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(retry, 10))
	} else {
		h.Del("Retry-After")
	}
	h.Set("Cache-Control", "no-store")
	return &gate.Refusal{Problem: quotaProblem(r, d, retry), Decision: d, Err: gate.ErrDenied}
}

// fail makes the answer to a fault; nil if the request is to be let through.
func (g *Gate) fail(h http.Header, r *http.Request, err error, f fault) *gate.Refusal {
	status := f.status
	if g.options.OnError != nil {
		s := g.options.OnError(r, err, status)
		if s == 0 && !f.ended || s >= 400 && s <= 599 {
			status = s
		}
	} else if f.log != "" {
		g.journal.warn(r.Context(), f.log, err, status)
	}
	if status == 0 {
		return nil
	}
	return refuse(h, r, err, status)
}

// undecided is r, or a copy that keeps what is between it and the gates around this
// one. Without that, [gate.Settle] in the handler would charge one of those.
func (g *Gate) undecided(r *http.Request) *http.Request {
	outer := recordOf(r.Context())
	if outer == nil {
		return r
	}
	return r.WithContext(&record{Context: r.Context(), outer: outer, gate: g, versions: outer.versions})
}

// outcome is nil if the gate does nothing after a request that was let through. r
// is nil if the Store could not decide about it: then nothing was taken that could
// come back.
func (g *Gate) outcome(r *record) *Outcome {
	if g.options.RefundIf == nil {
		r = nil
	}
	if r == nil && g.options.InFlight == nil {
		return nil
	}
	return &Outcome{gate: g, record: r}
}

// hold waits for the turn of a request, or until nobody waits for its answer any
// more.
func hold(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
