package driver

import (
	"fmt"
	"sync"
)

// A Declarer is a Store that remembers the definitions of its rules. Package core declares the
// rules of a Limiter when it is made, and when its rules are replaced. A Store over another Store
// must pass the changes on with [Declare].
type Declarer interface {
	// Declare remembers the new definitions of every change instead of the old ones. If it cannot
	// serve a definition, it changes nothing and returns an error.
	Declare(changes ...Change) error
}

// A Change contains the definitions of one Limiter before and after a change: of its rules, and of
// the same rules under each plan. Old is empty for a new Limiter.
type Change struct{ Old, New []Definition }

// Declare calls the method Declare of s if s is a [Declarer]. Otherwise it returns nil.
func Declare(s Store, changes ...Change) error {
	if d, ok := s.(Declarer); ok {
		return d.Declare(changes...)
	}
	return nil
}

// A Namespace remembers the definition of every rule name and plan, so that two rules do not share
// a State by accident. A Store that embeds a Namespace is a [Declarer]. The zero Namespace is ready
// to use. A Namespace is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[ruleName]declared
}

// A ruleName identifies a definition in a Namespace.
type ruleName struct{ name, plan string }

// declared is a definition, and the number of Limiters that have it.
type declared struct {
	definition Definition
	limiters   int
}

// Declare implements [Declarer]. If a name belongs to another definition already, and to a Limiter
// that is not changed by the same call, Declare returns an [ErrRuleConflict]. Limiters with equal
// definitions are not in conflict.
func (n *Namespace) Declare(changes ...Change) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := make(map[ruleName]declared) // the rules that change
	before := func(d *Definition) (ruleName, declared) {
		name := ruleName{d.Name, d.Plan}
		if e, ok := next[name]; ok {
			return name, e
		}
		return name, n.rules[name]
	}
	for _, c := range changes {
		for _, d := range c.Old {
			name, e := before(&d)
			e.limiters--
			next[name] = e
		}
	}
	for _, c := range changes {
		for _, d := range c.New {
			name, e := before(&d)
			if e.limiters > 0 && !e.definition.Equal(d) {
				return &RuleError{
					Rule: d.Name, Field: "name", Category: ErrRuleConflict,
					Reason: fmt.Sprintf("is taken on this store by another rule: %s, and now %s", e.definition, d),
				}
			}
			next[name] = declared{d, e.limiters + 1}
		}
	}
	if n.rules == nil {
		n.rules = make(map[ruleName]declared, len(next))
	}
	for name, e := range next {
		if e.limiters > 0 {
			n.rules[name] = e
		} else {
			delete(n.rules, name)
		}
	}
	return nil
}
