package gate

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// A Gate decides about requests. It is made by [New] and safe for concurrent
// use.
type Gate struct {
	config
	policies    []policy // of the rules of all asks, in the order of the States
	policyField string   // the RateLimit-Policy of this gate alone
	distinct    bool     // no two policies that clients see have the same name
	soft        bool     // there is a policy that lets requests through beyond its limit
	reserves    bool     // what a request took can be given back
	exposed     []string // the names for Access-Control-Expose-Headers
	journal     journal
	exhausted   *exhaustedKeys // nil if there is only one key
}

// New makes a Gate for the adapter of that name, which asks l for the key that
// key finds. F is the type of the function that the adapter's OnDenied takes;
// New returns the one that opts have set with [Denied], or nil.
//
// New panics if l, key or an option is nil, if an option is the OnDenied of
// another adapter, or if the limiters are on different Stores.
func New[F any](adapter string, l *core.Limiter, key keyfunc.Func, opts ...Option) (*Gate, F) {
	g := newGate(adapter, l, key, opts)
	denied, ok := g.denied.(F)
	if g.denied != nil && (!ok || g.deniedBy != adapter) {
		panic(fmt.Sprintf("%s: New: %s.OnDenied is an option for %[2]s.New only", adapter, g.deniedBy))
	}
	return g, denied
}

func newGate(adapter string, l *core.Limiter, key keyfunc.Func, opts []Option) *Gate {
	switch {
	case l == nil:
		panic(adapter + ": New: limiter is nil")
	case key == nil:
		panic(adapter + ": New: key function is nil")
	}
	g := &Gate{config: config{asks: []ask{{limiter: l, key: key}}, versions: IETFDraft.bit(), inherits: true}, distinct: true}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("%s: New: option %d is nil", adapter, i))
		}
		o.apply(&g.config)
	}
	for i := range g.asks {
		a := &g.asks[i]
		if !a.limiter.SharesStore(l) {
			panic(adapter + ": New: gate.And: the limiters are on different stores, which cannot decide together")
		}
		rules := a.limiter.Rules()
		a.rules = len(rules)
		for i := range rules {
			g.addPolicy(newPolicy(rules[i]))
			g.reserves = g.reserves || rules[i].Algorithm() == core.AlgorithmLeakyBucket
		}
	}
	g.reserves = g.reserves || g.refundIf != nil || g.cost != nil
	g.exposed = g.exposedFields()
	g.journal.start()
	if len(g.asks) > 1 {
		g.exhausted = newExhaustedKeys()
	}
	return g
}

func (g *Gate) addPolicy(p policy) {
	if !p.rule.IsShadow() {
		for i := range g.policies {
			if g.policies[i].name == p.name && !g.policies[i].rule.IsShadow() {
				g.distinct = false
			}
		}
		if g.policyField != "" {
			g.policyField += ", "
		}
		g.policyField += p.member
		g.soft = g.soft || p.rule.SoftPercent() > 0
	}
	g.policies = append(g.policies, p)
}

// Admit decides about r and writes the header fields to h. ctx is the context of
// the framework, for the key functions; the Store gets r.Context().
//
// A request with a Delay (of a leaky bucket) is held until its turn, or until its
// client hangs up. Its place is then given back while it is the last; otherwise the
// turn passes unused, for those behind have been told theirs.
//
// Without a Refusal the handler is to run, by [Outcome.Run] unless the Outcome is
// nil, and with the request that is returned. It is r, or a copy whose context knows
// the decision. With a Refusal the adapter answers what that says.
func (g *Gate) Admit(ctx context.Context, h http.Header, r *http.Request) (*http.Request, *Outcome, *Refusal) {
	if g.skip != nil && g.skip(r) {
		return g.undecided(r), nil, nil
	}
	if g.expose {
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
func (g *Gate) decide(ctx context.Context, h http.Header, r *http.Request, rec *record) (refused *Refusal, decided bool) {
	var few [2]core.Ask
	c := charging{record: rec, cost: 1, asks: few[:0]}
	if g.cost != nil {
		if c.cost = g.cost(r); c.cost < 0 {
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
		c.asks = appendDistinct(c.asks, core.Ask{Limiter: a.limiter, Key: key, Cost: c.cost, MaxDelay: g.maxDelay, Peek: c.cost == 0})
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
		return g.fail(h, r, failed, g.storeFault(r, failed)), false
	}
	return nil, true
}

// reject makes the answer to a request without a key. The fields tell what its other keys
// were charged. A Store that could not charge them does not change the answer.
func (g *Gate) reject(h http.Header, rec *record, r *http.Request, err, storeErr error) *Refusal {
	f := unidentified(r, err)
	if storeErr != nil && g.onError == nil {
		g.journal.warn(r.Context(), "weir: the store could not charge a request without a key", storeErr, f.status)
	}
	refused := g.fail(h, r, err, f)
	if refused != nil {
		rec.write(h)
	}
	return refused
}

// place is where the limiter is first in the asks.
func (g *Gate) place(l *core.Limiter) int {
	for i := range g.asks {
		if g.asks[i].limiter == l {
			return i
		}
	}
	panic("gate: a limiter of another gate")
}

// errEmptyKey: an empty key would be one bucket for everybody it happens to.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)

func (g *Gate) deny(h http.Header, r *http.Request, d core.Decision) *Refusal {
	retry := retrySeconds(d)
	if retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(retry, 10))
	} else {
		h.Del("Retry-After")
	}
	h.Set("Cache-Control", "no-store")
	return &Refusal{Problem: quotaProblem(r, d, retry), Decision: d, cause: ErrDenied}
}

// RetryAfter is the Retry-After of a denied decision in seconds, for an OnDenied
// that wants to tell it in its own words. It returns false if d is admitted, or if
// waiting is no use.
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed {
		return 0, false
	}
	seconds = retrySeconds(d)
	return seconds, seconds > 0
}

// retrySeconds is the Retry-After of a denial, or zero if waiting is no use. It
// is at least 1 and not before the t of any rule that denied.
func retrySeconds(d core.Decision) int64 {
	if d.RetryAfter == core.Never {
		return 0
	}
	retry := max(1, seconds(d.RetryAfter))
	for _, s := range d.States() {
		if !s.Allowed && !s.Rule.IsShadow() {
			retry = max(retry, seconds(s.Window))
		}
	}
	return retry
}
