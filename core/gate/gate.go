package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/unexported"
	coreunexported "github.com/weir-go/weir/core/internal/unexported"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// A gate decides about the requests of one middleware. It is safe for concurrent use.
type gate struct {
	options
	asks        []ask // the limiter and key function of New, then those of each And
	policies    *policies
	policyField string   // the RateLimit-Policy of this gate alone, for the first policies
	distinct    bool     // the policies that clients see have different names
	ownCosts    bool     // an ask has a cost of its own
	readsBody   bool     // an ask has the cost of the body
	versions    versions // without outer gates
	exposed     []string // the names for Access-Control-Expose-Headers
	log         failureLog
	exhausted   *exhaustedKeys   // nil if nothing follows the only key
	check       bool             // it is a gate of Check
	ofAll       policyOfAll      // of the option Routes; nil if that has none
	now         func() time.Time // the clock by which the Store decides
}

// newGate returns a gate of the adapter called name.
func newGate(name string, l *core.Limiter, key keyfunc.Func, opts []Option) *gate {
	function := name + ": New"
	argument.NotNil(function, "limiter", l)
	argument.NotNil(function, "key function", key)
	g := &gate{options: options{adapter: name, maxDelay: defaultMaxDelay}, policies: newPolicies(), now: inner.Clock(l), distinct: true, log: newFailureLog()}
	argument.Apply(function, &g.options, opts)
	g.ofAll, _ = g.routes.(policyOfAll)
	g.asks = append([]ask{{limiter: l, key: key}}, g.and...)
	var names, members []string // of the policies that clients see
	for i := range g.asks {
		a := &g.asks[i]
		if !inner.SharesStore(a.limiter, l) {
			panic(function + ": gate.And: the limiters are on different stores, which cannot decide together")
		}
		g.ownCosts = g.ownCosts || a.cost != nil || a.body != nil
		if a.cost == nil && a.body == nil {
			a.body = g.costOfBody
		}
		if a.body != nil {
			a.cost, g.readsBody = noCost, true
		}
		if a.plan == nil {
			a.plan = g.plan
		}
		for _, rule := range a.limiter.Rules() {
			p := newPolicy(rule)
			g.policies.first, g.policies.places = append(g.policies.first, p), g.policies.places || p.places
			if p.visible {
				g.distinct = g.distinct && !slices.Contains(names, p.name)
				names, members = append(names, p.name), append(members, p.member)
			}
		}
	}
	g.policyField = strings.Join(members, ", ")
	g.versions = ownVersions(g.headers)
	g.exposed = exposedFields(g.versions)
	if len(g.asks) > 1 || g.readsBody {
		g.exhausted = newExhaustedKeys(g.readsBody)
	}
	return g
}

// ReadsBody reports whether the gate has a CostOfBody: see ReadsBody of package adapter.
func (g *gate) ReadsBody() bool { return g.readsBody }

// inner has the functions of package core that only gates need.
var inner = coreunexported.Core.(interface {
	HasPlans(*core.Limiter) bool
	SharesStore(l, o *core.Limiter) bool
	Clock(*core.Limiter) func() time.Time
	Attempt(*core.Ask)
	AttemptUnlessDenied(*core.Ask)
	Key(*core.Reservation, *core.Limiter) (key string, n int)
	Forget(r *core.Reservation, l *core.Limiter, key string)
	HasPlaces(*core.Reservation) (has, local bool)
	RefundDelayed(*core.Reservation, context.Context) error
})

// functions has the functions of this package that only package adapter needs, and which it documents.
type functions struct{}

func init() { unexported.Functions = functions{} }

// New returns a *gate of the adapter called name, and the functions of its options OnDenied and OnRejected.
func (functions) New(name string, l *core.Limiter, key keyfunc.Func, opts []Option) (g any, denied, rejected any) {
	made := newGate(name, l, key, opts)
	return made, made.onDenied, made.onRejected
}

// Respond returns the option OnDenied or OnRejected of the adapter called name.
func (functions) Respond(name string, denied bool, f any) Option {
	option, set := "OnRejected", func(o *options) { o.onRejected = f }
	if denied {
		option, set = "OnDenied", func(o *options) { o.onDenied = f }
	}
	argument.NotNil(name+": "+option, "function", f)
	return argument.OptionFunc[options](func(o *options) {
		if o.adapter != "" && o.adapter != name {
			panic(fmt.Sprintf("%s: New: %s.%s is an option for %[2]s.New only", o.adapter, name, option))
		}
		set(o)
	})
}

// Limiter returns the limiter of a function of the adapter called name, such as its Limit, for one rule on s.
func (functions) Limiter(name, function string, s core.Store, rule core.Rule, opts []Option) *core.Limiter {
	o := options{adapter: name}
	argument.Apply(name+": "+function, &o, opts)
	l, err := core.New(s, rule)
	if err != nil {
		panic(name + ": " + function + ": " + err.Error())
	}
	for _, a := range o.and {
		if !inner.SharesStore(a.limiter, l) {
			panic(fmt.Sprintf("%s: %s: gate.And needs limiters on one store: give that of And to %[1]s.Limit", name, function))
		}
	}
	return l
}
