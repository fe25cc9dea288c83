package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// charges holds the charges of a request while the gate determines its keys. Usually the method
// decide finds all keys, and the method charge then charges all asks, each a limiter with its key,
// in one call of the Store. If a known key is exhausted or another key is missing, the known keys
// are charged earlier, with a reservation to which later asks are added.
type charges struct {
	*requestContext
	cost    int
	charged int   // the number of asks that a reservation has decided
	failed  error // the error of the Store, which is not called again after an error
}

// decide calls the key functions of the gate and charges the keys. decided reports whether the
// request has a decision. If not, a nil Rejection means that the request is to be let through.
//
// If a key is exhausted, the known keys are charged before the next key function runs, so that no
// token is verified for a request that these keys deny.
func (c *charges) decide(ctx context.Context, h http.Header, r *http.Request) (rejection *gate.Rejection, decided bool) {
	g := c.gate
	if g.options.Cost != nil {
		if c.cost = g.options.Cost(ctx, r); c.cost < 0 {
			err := fmt.Errorf("%w: %d", core.ErrNegativeCost, c.cost)
			return g.reject(h, r, err, keyFailure(r, err)), false
		}
	}
	for i := range g.asks {
		a := &g.asks[i]
		key, err := a.Key(ctx, r)
		// The error of an invalid token may contain an ErrNotLimited of the function that returns the
		// keys of tokens.
		if errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey) {
			continue
		}
		if err == nil && key == "" {
			err = errEmptyKey
		}
		if err != nil {
			if c.chargeWithoutKey(a.Limiter, err); c.denied() {
				return nil, true
			}
			return c.rejectWithoutKey(h, r, err), false
		}
		c.add(a.Limiter, key)
		if c.failed != nil || i == len(g.asks)-1 || !g.exhausted.has(g.indexOf(a.Limiter), key) {
			continue
		}
		c.chargeKnown(r.Context())
		switch {
		case c.denied():
			c.refund(http.StatusTooManyRequests)
			c.addExhausted(false)
			return nil, true
		case c.failed != nil && r.Context().Err() != nil:
			return g.reject(h, r, c.failed, ended), false
		}
	}
	return c.charge(h, r)
}

// The method add adds an ask unless c.asks has this limiter and key. All asks have the same cost.
func (c *charges) add(l *core.Limiter, key string) {
	for i := range c.asks {
		if c.asks[i].Limiter == l && c.asks[i].Key == key {
			return
		}
	}
	c.asks = append(c.asks, core.Ask{Limiter: l, Key: key, Cost: c.cost, MaxDelay: c.gate.options.MaxDelay, Peek: c.cost == 0})
}

// The method charge charges the remaining asks when all keys are known. Its results are as in
// decide.
func (c *charges) charge(h http.Header, r *http.Request) (rejection *gate.Rejection, decided bool) {
	before, ctx := c.charged, r.Context()
	switch {
	case len(c.asks) == 0: // keyfunc.ErrNotLimited
		return nil, false
	case c.failed != nil:
	case before > 0 || c.gate.reserves:
		c.reserve(ctx, c.asks[before:]...)
	case len(c.asks) == 1 && c.gate.options.MaxDelay == 0:
		c.decision, c.failed = c.asks[0].Limiter.Allow(ctx, c.asks[0].Key)
	default:
		c.decision, c.failed = core.AllowTogether(ctx, c.asks...)
	}
	if c.failed != nil {
		return c.gate.reject(h, r, c.failed, storeFailure(r, c.failed, c.gate.options.FailClosed)), false
	}
	if before > 0 && (!c.decision.Allowed || c.cost == 0) {
		c.refund(http.StatusTooManyRequests)
	}
	c.addExhausted(false)
	return nil, true
}

// denied reports whether the asks that were charged early are denied.
func (c *charges) denied() bool {
	return c.failed == nil && c.reservation != nil && !c.decision.Allowed
}

// chargeKnown charges the keys that are known so far. It charges at least 1, because a cost of zero
// must not make a request free if another key turns out to be missing.
func (c *charges) chargeKnown(ctx context.Context) {
	for i := c.charged; i < len(c.asks); i++ {
		c.asks[i].Peek = false
	}
	c.reserve(ctx, c.asks[c.charged:]...)
}

// chargeWithoutKey charges a request without a key for l; missing is the error of the key function.
// It charges the known keys and, unless they are denied, the partial key that the error may contain
// (see [keyfunc.Join]). If the partial key is denied, the known keys stay charged, because the key
// function has already run. The charge ignores the end of the request's context; otherwise a client
// could avoid the charge by hanging up.
func (c *charges) chargeWithoutKey(l *core.Limiter, missing error) {
	ctx := context.WithoutCancel(c.Context)
	if c.failed == nil {
		c.chargeKnown(ctx)
	}
	if c.failed != nil {
		return
	}
	c.addExhausted(true)
	var partial interface {
		error
		PartialKey() string
	}
	if errors.As(missing, &partial) {
		c.reserve(ctx, core.Ask{Limiter: l, Key: partial.PartialKey(), Cost: c.cost, MaxDelay: c.gate.options.MaxDelay})
	}
}

// reserve charges asks in addition to the asks that are charged already.
func (c *charges) reserve(ctx context.Context, asks ...core.Ask) {
	if len(asks) == 0 {
		return
	}
	if c.reservation == nil {
		c.reservation, c.failed = core.ReserveTogether(ctx, asks...)
	} else {
		c.failed = c.reservation.Extend(ctx, asks...)
	}
	if c.failed == nil {
		c.charged, c.decision = len(c.asks), c.reservation.Decision()
	}
}

// rejectWithoutKey rejects a request whose key function has returned err. The header fields
// describe the charges of its other keys. An error of the Store does not change the response.
func (c *charges) rejectWithoutKey(h http.Header, r *http.Request, err error) *gate.Rejection {
	f := keyFailure(r, err)
	if c.failed != nil && c.gate.options.OnError == nil {
		c.gate.log.warn(r.Context(), "weir: the store could not charge a request without a key", c.failed, f.status)
	}
	rejection := c.gate.reject(h, r, err, f)
	if rejection != nil {
		c.writeFields(h)
	}
	return rejection
}

// addExhausted adds the denied keys to the exhausted keys of the gate. After a request without a
// key it also adds keys whose remaining capacity is below the cost. It does not add such keys after
// an admitted request: with a limit of one per second, every request would add its key, and the
// next request would take two calls of the Store.
func (c *charges) addExhausted(withoutKey bool) {
	g := c.gate
	if g.exhausted == nil || c.decision.Allowed && !withoutKey {
		return
	}
	state := 0 // the index of the next State
	for i := range c.asks {
		a, exhausted, reset := &c.asks[i], false, time.Duration(0)
		n := g.indexOf(a.Limiter)
		for range g.asks[n].Rules {
			s := c.decision.State(state)
			state++
			if !s.Rule.IsShadow() && !s.Unknown && (!s.Allowed || withoutKey && s.Remaining < max(a.Cost, 1)) {
				exhausted, reset = true, max(reset, s.ResetAfter)
			}
		}
		if exhausted && n < len(g.asks)-1 { // no key function follows the last key
			g.exhausted.add(n, a.Key, reset)
		}
	}
}

// errEmptyKey is the error of a key function that returned an empty key. All requests with an empty
// key would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)
