package lease

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. It passes the charges to the Store behind. A Reset discards the
// tokens of the key that are held in this process, for all plans that share the State, even if the
// call fails, because the Store may have applied it. A Debit that leaves nothing in the Store,
// under the limit of its plan, discards these tokens, too.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	s.calls.Add(1)
	if slices.ContainsFunc(charges, isBan) {
		s.bans.Add(1)
		defer s.bans.Add(1)
	}
	err := s.next.Adjust(ctx, charges)
	heard := s.clock()
	for i := range charges {
		s.passed(&charges[i], heard, err)
	}
	return err
}

// passed updates the accounts of the key and rule of c, which the Store behind has answered at heard with
// err. The rule need not be leasable: another plan may have a larger limit.
func (s *Store) passed(c *driver.Charge, heard int64, err error) {
	sh, hash := s.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.forward(heard)
	delete(sh.open, hash)
	applied := err == nil || c.Verdict.Done
	for a := sh.accounts[hash]; a != nil; a = a.next {
		switch {
		case !a.is(c):
		case c.Op == driver.Reset || c.Op == driver.Debit && applied && c.Verdict.Remaining == 0:
			sh.evict(a)
		case applied && a.u.rule.Constants == c.Rule.Constants:
			a.reply, a.empty = newReply(&a.u, c, heard), false
		}
	}
}
