package adapter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/core/internal/argument"
	"github.com/weir-go/weir/core/internal/sampler"
	"github.com/weir-go/weir/keyfunc"
)

// A Gate decides about the requests of one middleware. It is safe for concurrent use. See [New].
type Gate struct {
	options     config.Config
	asks        []config.Ask // the limiter and key function of New, then those of each gate.And
	versions    versions     // of the header fields, as set by options; outer gates may add more
	policies    policies
	policyField string   // the RateLimit-Policy of this gate alone, for the first policies
	distinct    bool     // the policies that clients see have different names
	ownCosts    bool     // an ask has a cost of its own
	exposed     []string // the names for Access-Control-Expose-Headers
	log         failureLog
	exhausted   *exhaustedKeys // nil if there is only one key
}

// New returns a Gate for the adapter called name, and the function that an option of [Denied] has
// set, or nil. F is the type of that function. The Gate charges l for the key that key returns.
//
// New panics if l, key or an option is nil, if an option is the OnDenied of another adapter, or if
// the limiters use different Stores.
func New[F any](name string, l *core.Limiter, key keyfunc.Func, opts ...gate.Option) (*Gate, F) {
	g := newGate(name, l, key, opts)
	denied, ok := g.options.OnDenied.(F)
	if g.options.OnDenied != nil && (!ok || g.options.OnDeniedBy != name) {
		panic(fmt.Sprintf("%s: New: %s.OnDenied is an option for %[2]s.New only", name, g.options.OnDeniedBy))
	}
	return g, denied
}

func newGate(name string, l *core.Limiter, key keyfunc.Func, opts []gate.Option) *Gate {
	function := name + ": New"
	argument.NotNil(function, "limiter", l)
	argument.NotNil(function, "key function", key)
	g := &Gate{options: config.Config{Versions: 1 << gate.IETFDraft, Inherits: true}, distinct: true, log: failureLog{sampler.New(1, time.Second)}}
	argument.Apply(function, &g.options, opts)
	g.versions = versions(g.options.Versions)
	g.policies.others.Max = maxPolicies
	g.asks = append([]config.Ask{{Limiter: l, Key: key}}, g.options.And...)
	var names, members []string // of the policies that clients see
	for i := range g.asks {
		a := &g.asks[i]
		if !inner.SharesStore(a.Limiter, l) {
			panic(function + ": gate.And: the limiters are on different stores, which cannot decide together")
		}
		g.ownCosts = g.ownCosts || a.Cost != nil
		if a.Plan == nil {
			a.Plan = g.options.Plan
		}
		for _, rule := range a.Limiter.Rules() {
			p := newPolicy(rule)
			g.policies.first = append(g.policies.first, p)
			if p.visible {
				g.distinct = g.distinct && !slices.Contains(names, p.name)
				names, members = append(names, p.name), append(members, p.member)
			}
		}
	}
	g.policyField = strings.Join(members, ", ")
	g.exposed = exposedFields(g.versions)
	if len(g.asks) > 1 {
		g.exhausted = newExhaustedKeys()
	}
	return g
}

// Denied returns the OnDenied option of the adapter called name. [New] returns f to that adapter,
// and panics in any other adapter. Denied panics if f, which must be a function, is nil.
func Denied[F any](name string, f F) gate.Option {
	argument.NotNil(name+": OnDenied", "function", f)
	return argument.OptionFunc[config.Config](func(c *config.Config) { c.OnDenied, c.OnDeniedBy = f, name })
}
