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
	g := &Gate{config: config{asks: []ask{{l, key}}, versions: IETFDraft.bit(), inherits: true}, distinct: true}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("%s: New: option %d is nil", adapter, i))
		}
		o.apply(&g.config)
	}
	for _, a := range g.asks {
		if !a.limiter.SharesStore(l) {
			panic(adapter + ": New: gate.And: the limiters are on different stores, which cannot decide together")
		}
		rules := a.limiter.Rules()
		for i := range rules {
			g.addPolicy(newPolicy(&rules[i]))
			g.reserves = g.reserves || rules[i].Algorithm() == core.AlgorithmLeakyBucket
		}
	}
	g.reserves = g.reserves || g.refundIf != nil || g.cost != nil
	g.exposed = g.exposedFields()
	g.journal.start()
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
func (g *Gate) decide(ctx context.Context, h http.Header, r *http.Request, rec *record) (refused *Refusal, decided bool) {
	// Every key is found before anything is charged.
	var few [2]core.Ask
	asks := few[:0]
	for i := range g.asks {
		key, err := g.asks[i].key(ctx, r)
		if err == nil && key == "" {
			err = errEmptyKey
		}
		if err != nil {
			return g.fail(h, r, err, unidentified(r, err)), false
		}
		asks = append(asks, core.Ask{Limiter: g.asks[i].limiter, Key: key, Cost: 1, MaxDelay: g.maxDelay})
	}
	if g.cost != nil {
		cost := g.cost(r)
		if cost < 0 {
			err := fmt.Errorf("%w: %d", core.ErrNegativeCost, cost)
			return g.fail(h, r, err, unidentified(r, err)), false
		}
		for i := range asks {
			asks[i].Cost = cost
		}
	}
	if err := rec.take(r.Context(), asks); err != nil {
		return g.fail(h, r, err, g.storeFault(r, err)), false
	}
	return nil, true
}

// take asks the Store.
func (r *record) take(ctx context.Context, asks []core.Ask) (err error) {
	if r.gate.reserves {
		r.reservation, err = core.ReserveAll(ctx, asks...)
		if err == nil {
			r.decision = r.reservation.Decision()
		}
		return err
	}
	r.key = asks[0].Key
	for _, a := range asks[1:] {
		r.more = append(r.more, a.Key)
	}
	if len(asks) == 1 && r.gate.maxDelay == 0 {
		r.decision, err = asks[0].Limiter.Allow(ctx, r.key)
	} else {
		r.decision, err = core.AllowAll(ctx, asks...)
	}
	return err
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
