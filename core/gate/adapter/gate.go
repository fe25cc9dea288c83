package adapter

import (
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/core/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// A Gate decides about requests. It is made by [New] and safe for concurrent
// use.
type Gate struct {
	options     config.Config
	asks        []ask    // the one of New, and those of And
	versions    versions // of the fields, without those of the gates around this one
	policies    []policy // of the rules of all asks, in the order of the States
	policyField string   // the RateLimit-Policy of this gate alone
	distinct    bool     // no two policies that clients see have the same name
	reserves    bool     // what a request took can be given back
	exposed     []string // the names for Access-Control-Expose-Headers
	log         failureLog
	exhausted   *exhaustedKeys // nil if there is only one key
}

// New makes a Gate for the adapter of this name. The Gate asks l for the key that key finds.
// F is the type of the function that the adapter's OnDenied takes;
// New returns the one that opts have set with [Denied], or nil.
//
// New panics if l, key or an option is nil, if an option is the OnDenied of
// another adapter, or if the limiters are on different Stores.
func New[F any](name string, l *core.Limiter, key keyfunc.Func, opts ...gate.Option) (*Gate, F) {
	g := newGate(name, l, key, opts)
	denied, ok := g.options.OnDenied.(F)
	if g.options.OnDenied != nil && (!ok || g.options.OnDeniedBy != name) {
		panic(fmt.Sprintf("%s: New: %s.OnDenied is an option for %[2]s.New only", name, g.options.OnDeniedBy))
	}
	return g, denied
}

// An ask is a limiter and the function that finds the key for it.
type ask struct {
	limiter *core.Limiter
	key     keyfunc.Func
	rules   int // of the limiter
}

func newGate(name string, l *core.Limiter, key keyfunc.Func, opts []gate.Option) *Gate {
	function := name + ": New"
	argument.NotNil(function, "limiter", l)
	argument.NotNil(function, "key function", key)
	g := &Gate{options: config.Config{Versions: 1 << gate.IETFDraft, Inherits: true}, distinct: true}
	argument.Apply(function, &g.options, opts)
	g.versions = versions(g.options.Versions)
	g.asks = append(g.asks, ask{limiter: l, key: key})
	for _, a := range g.options.And {
		g.asks = append(g.asks, ask{limiter: a.Limiter, key: a.Key})
	}
	for i := range g.asks {
		a := &g.asks[i]
		if !a.limiter.SharesStore(l) {
			panic(function + ": gate.And: the limiters are on different stores, which cannot decide together")
		}
		rules := a.limiter.Rules()
		a.rules = len(rules)
		for i := range rules {
			g.addPolicy(newPolicy(rules[i]))
			g.reserves = g.reserves || rules[i].Algorithm() == driver.LeakyBucket
		}
	}
	g.reserves = g.reserves || g.options.RefundIf != nil || g.options.Cost != nil
	g.exposed = exposedFields(g.versions, g.policyField != "")
	g.log.start()
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
	}
	g.policies = append(g.policies, p)
}

// place is where the limiter is first in the asks.
func (g *Gate) place(l *core.Limiter) int {
	for i := range g.asks {
		if g.asks[i].limiter == l {
			return i
		}
	}
	panic("adapter: a limiter of another gate")
}

// Denied makes the OnDenied option of the adapter name: [New] hands f to that adapter, and
// panics in any other. Denied panics if f, a function, is nil.
func Denied[F any](name string, f F) gate.Option {
	argument.NotNil(name+": OnDenied", "function", f)
	return argument.OptionFunc[config.Config](func(c *config.Config) { c.OnDenied, c.OnDeniedBy = f, name })
}
