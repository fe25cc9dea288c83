package driver

import (
	"fmt"
	"sync"
)

// A Namespace remembers the definition behind every rule name, so that two
// rules do not share a State by accident. Embed it in a Store to make that a
// [Declarer]. The zero Namespace is ready; it is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[string]*Compiled
}

// Declare remembers all rules, or none and returns an [ErrRuleConflict] if one
// of the names is already taken by another definition. Declaring a rule again
// is not a conflict.
func (n *Namespace) Declare(rules ...*Compiled) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rules {
		if known, ok := n.rules[r.Name()]; ok && !known.definition.Equal(r.definition) {
			return &RuleError{
				Rule: r.Name(), Field: "name", Category: ErrRuleConflict,
				Reason: fmt.Sprintf("is taken on this store by another rule: %s, and now %s", known, r),
			}
		}
	}
	if n.rules == nil {
		n.rules = make(map[string]*Compiled)
	}
	for _, r := range rules {
		n.rules[r.Name()] = r
	}
	return nil
}
