package driver

import (
	"fmt"
	"maps"
	"sync"
)

// A Namespace remembers the definition of every rule name, so that two rules do not share a State
// by accident. Embed it in a Store to make that a [Declarer]. The zero Namespace is ready to use;
// it is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[string]*Compiled
}

// Declare remembers all rules. If the name of one belongs to another definition, it remembers none
// and returns an [ErrRuleConflict]. Declaring a rule again is not a conflict.
func (n *Namespace) Declare(rules ...*Compiled) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	added := make(map[string]*Compiled, len(rules))
	for _, r := range rules {
		known, ok := n.rules[r.Name()]
		if !ok {
			known, ok = added[r.Name()]
		}
		if ok && !known.definition.Equal(r.definition) {
			return &RuleError{
				Rule: r.Name(), Field: "name", Category: ErrRuleConflict,
				Reason: fmt.Sprintf("is taken on this store by another rule: %s, and now %s", known, r),
			}
		}
		added[r.Name()] = r
	}
	if n.rules == nil {
		n.rules = added
	}
	maps.Copy(n.rules, added)
	return nil
}
