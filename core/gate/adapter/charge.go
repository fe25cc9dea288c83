package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/keyfunc"
)

// charges holds the charges of a request while the gate determines its keys. Usually the method
// decide finds all keys, and the method charge then charges all asks, each a limiter with its key,
// in one call of the Store. If a known key is exhausted or another key is missing, the known keys
// are charged earlier, with a reservation to which later asks are added.
type charges struct {
	*requestContext
	first    *core.Limiter // of the key function of New
	decision core.Decision
	cost     int   // of the limiters without a cost of their own
	charged  int   // the number of asks that have been charged
	raised   bool  // one of these asks needs a higher cost
	failed   error // the error of the Store, which is not called again after an error
}

// limiter returns the limiter of the i-th key function.
func (c *charges) limiter(i int) *core.Limiter {
	if i == 0 {
		return c.first
	}
	return c.gate.asks[i].Limiter
}

// decide calls the key functions of the gate and charges the keys. decided reports whether the
// request has a decision. If not, a nil Rejection means that the request is to be let through.
//
// If a key is exhausted, the known keys are charged before the next key function runs, so that no
// token is verified for a request that these keys deny.
func (c *charges) decide(ctx context.Context, h http.Header, r *http.Request) (rejection *gate.Rejection, decided bool) {
	g := c.gate
	if g.options.Cost != nil {
		c.cost = g.options.Cost(ctx, r)
	}
	var few [2]core.Ask
	asks := few[:0] // each limiter, key and plan once; not in c, which would then be allocated
	for i := range g.asks {
		a := &g.asks[i]
		ask := core.Ask{Limiter: c.limiter(i), MaxDelay: g.options.MaxDelay}
		err := c.identify(ctx, r, a, &ask)
		// The error of an invalid token may contain an ErrNotLimited of the function that returns the
		// keys of tokens.
		if errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey) {
			continue
		}
		if errors.Is(err, core.ErrNegativeCost) {
			return g.reject(h, r, err, keyFailure(r, err)), false
		}
		if err != nil {
			if c.chargeWithoutKey(asks, ask, err); c.denied() {
				return nil, true
			}
			return c.rejectWithoutKey(h, r, err), false
		}
		asks = c.add(asks, ask)
		if c.failed != nil || i == len(g.asks)-1 || !g.exhausted.has(ask.Limiter, ask.Key) {
			continue
		}
		c.chargeKnown(r.Context(), asks)
		switch {
		case c.denied():
			c.refund(http.StatusTooManyRequests)
			c.addExhausted(asks, false)
			return nil, true
		case c.failed != nil && r.Context().Err() != nil:
			return g.reject(h, r, c.failed, ended), false
		}
	}
	return c.charge(h, r, asks)
}

// identify sets the cost, the key and the plan of ask, with the functions of a.
func (c *charges) identify(ctx context.Context, r *http.Request, a *config.Ask, ask *core.Ask) (err error) {
	ask.Cost = c.cost
	if a.Cost != nil {
		ask.Cost = a.Cost(ctx, r)
	}
	if ask.Peek = ask.Cost == 0; ask.Cost < 0 {
		return fmt.Errorf("%w: %d", core.ErrNegativeCost, ask.Cost)
	}
	if ask.Key, err = a.Key(ctx, r); err != nil {
		return err
	}
	if ask.Key == "" {
		return errEmptyKey
	}
	if a.Plan != nil && inner.HasPlans(ask.Limiter) {
		if ask.Plan, err = a.Plan(ctx, r); errors.Is(err, keyfunc.ErrNoKey) {
			ask.Plan, err = "", nil
		}
	}
	return err
}

// The method add adds ask unless asks contains its limiter, key and plan. The larger cost counts.
func (c *charges) add(asks []core.Ask, ask core.Ask) []core.Ask {
	for i := range asks {
		if o := &asks[i]; o.Limiter == ask.Limiter && o.Key == ask.Key && o.Plan == ask.Plan {
			if ask.Cost > o.Cost {
				*o, c.raised = ask, c.raised || i < c.charged
			}
			return asks
		}
	}
	return append(asks, ask)
}

// The method charge charges the remaining asks when all keys are known. Its results are as in
// decide.
func (c *charges) charge(h http.Header, r *http.Request, asks []core.Ask) (rejection *gate.Rejection, decided bool) {
	before, ctx := c.charged, r.Context()
	if len(asks) == 0 { // keyfunc.ErrNotLimited
		return nil, false
	}
	if c.failed == nil && c.raised && c.decision.Allowed {
		c.refund(http.StatusTooManyRequests)
		c.reservation, c.charged, before = core.Reservation{}, 0, 0
		for i := range asks {
			asks[i].Peek = asks[i].Cost == 0
		}
	}
	if c.failed == nil {
		c.reserve(ctx, asks[before:]...)
	}
	if c.failed != nil {
		return c.gate.reject(h, r, c.failed, storeFailure(r, c.failed, c.gate.options.FailClosed)), false
	}
	switch {
	case before == 0:
	case !c.decision.Allowed:
		c.refund(http.StatusTooManyRequests)
	default:
		for i, a := range asks[:before] {
			c.settleAsk(i, a.Cost) // chargeKnown has charged 1 for a cost of 0
		}
	}
	c.addExhausted(asks, false)
	return nil, true
}

// denied reports whether the asks that were charged early are denied.
func (c *charges) denied() bool {
	return c.failed == nil && c.decision.Len() > 0 && !c.decision.Allowed
}

// chargeKnown charges the keys that are known so far. It charges at least 1, because a cost of zero
// must not make a request free if another key turns out to be missing.
func (c *charges) chargeKnown(ctx context.Context, asks []core.Ask) {
	asks = asks[c.charged:]
	for i := range asks {
		asks[i].Peek = false
	}
	c.reserve(ctx, asks...)
}

// chargeWithoutKey charges a request that has no key for ask; missing is the error of a key function.
// It charges asks, whose keys are known, and unless they are denied, the partial key that the error
// may contain (see [keyfunc.Join]). If the partial key is denied, the known keys stay charged,
// because the key function has already run. The charge ignores the end of the request's context;
// otherwise a client could avoid the charge by hanging up.
func (c *charges) chargeWithoutKey(asks []core.Ask, ask core.Ask, missing error) {
	ctx := context.WithoutCancel(c.Context)
	if c.failed == nil {
		c.chargeKnown(ctx, asks)
	}
	if c.failed != nil {
		return
	}
	c.addExhausted(asks, true)
	var partial interface {
		error
		PartialKey() string
	}
	if errors.As(missing, &partial) {
		ask.Key, ask.Plan, ask.Peek = partial.PartialKey(), "", false
		c.reserve(ctx, ask)
	}
}

// reserve charges asks in addition to the asks that are charged already.
func (c *charges) reserve(ctx context.Context, asks ...core.Ask) {
	if len(asks) == 0 {
		return
	}
	if c.decision, c.failed = c.reservation.Extend(ctx, asks...); c.failed == nil {
		c.charged += len(asks)
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
		c.writeFields(h, &c.decision)
	}
	return rejection
}

// addExhausted adds the denied keys to the exhausted keys of the gate. After a request without a
// key it also adds keys whose remaining capacity is below the cost. It does not add such keys after
// an admitted request: with a limit of one per second, every request would add its key, and the
// next request would take two calls of the Store.
func (c *charges) addExhausted(asks []core.Ask, withoutKey bool) {
	g := c.gate
	if g.exhausted == nil || c.decision.Allowed && !withoutKey {
		return
	}
	reset := make([]time.Duration, len(asks)) // of the exhausted asks; else zero
	for _, s := range c.decision.States() {
		if s.Ask == len(asks) { // a partial key
			break
		}
		least := max(asks[s.Ask].Cost, 1)
		if !s.Rule.IsShadow() && !s.Unknown && (!s.Allowed || withoutKey && s.Remaining < least) {
			reset[s.Ask] = max(reset[s.Ask], s.ResetAfter, 1)
		}
	}
	for i := range asks {
		last := true
		for n := range len(g.asks) - 1 {
			last = last && c.limiter(n) != asks[i].Limiter
		}
		if reset[i] > 0 && !last { // no key function follows the last key
			g.exhausted.add(asks[i].Limiter, asks[i].Key, reset[i])
		}
	}
}

// errEmptyKey is the error of a key function that returned an empty key. All requests with an empty
// key would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)
