package failover

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Store decides by its primary, and by its backup while that is away. It is made
// by [New] and safe for concurrent use.
type Store struct {
	primary, backup core.Store
	config          config
	direct          bool // the primary is [Prompt] enough to be called without a guard
	guard           *guard
	breaker         *breaker
	shares          *shares // nil without Instances
	names           names
	watch           watch
	notify          notifier
	start           time.Time

	failures, backups, lost, probes atomic.Uint64
}

// New returns a Store that asks primary, and backup while primary cannot decide.
// Nothing is sent before the first decision, so the primary may be absent. New
// panics if one of the two or an option is nil.
//
// Close a Store that is given up before the program ends.
func New(primary, backup core.Store, opts ...Option) *Store {
	argument.NotNil("failover: New", "primary", primary)
	argument.NotNil("failover: New", "backup", backup)
	c := config{deadline: DefaultDeadline}
	argument.Apply("failover: New", &c, opts)
	s := &Store{primary: primary, backup: backup, config: c, start: time.Now()}
	if p, ok := primary.(Prompt); ok && p.Deadline() <= c.deadline {
		s.direct = true
	}
	s.guard = newGuard(primary, c.deadline)
	if c.share > 1 {
		s.shares = newShares(c.share)
	}
	s.watch.init()
	s.notify.call = c.onChange
	s.breaker = newBreaker(c.deadline/2, s.notify.add)
	return s
}

// now is how long the Store exists.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// Declare implements [core.Declarer]: it declares the rules on both stores, and
// the divided ones on the backup if there is an [Instances].
func (s *Store) Declare(rules ...core.Rule) error {
	s.names.declare(rules)
	if d, ok := s.primary.(core.Declarer); ok {
		if err := d.Declare(rules...); err != nil {
			return err
		}
	}
	d, ok := s.backup.(core.Declarer)
	if !ok {
		return nil
	}
	if s.shares != nil {
		divided := make([]core.Rule, len(rules))
		for i := range rules {
			divided[i] = rules[i].Divide(s.config.share)
		}
		rules = divided
	}
	return d.Declare(rules...)
}

// Take implements [core.Store]. Errors are those of a ctx that has ended, those of
// charges that break the contract, and those of the backup. A Credit or an Undo
// has others: see the package comment.
func (s *Store) Take(ctx context.Context, charges []core.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(charges) == 0 {
		return nil
	}
	if !charges[0].Op.Asks() {
		return s.tell(ctx, charges)
	}
	begun := s.now()
	if !s.breaker.admits(begun) {
		return s.fallBack(ctx, charges)
	}
	away, err := s.ask(ctx, begun, charges)
	if away {
		return s.fallBack(ctx, charges)
	}
	return err
}

// ask asks the primary at begun. away says that it did not decide, for the reason
// in err, and that the backup has to.
func (s *Store) ask(ctx context.Context, begun time.Duration, charges []core.Charge) (away bool, err error) {
	clearReceipts(charges)
	if s.direct {
		err = safely(ctx, take, s.primary, charges)
	} else {
		err = s.guard.call(ctx, take, charges)
	}
	if err == nil {
		s.breaker.succeed(begun)
		sign(charges, byPrimary)
		return false, nil
	}
	return s.assess(ctx, begun, charges, err)
}

// assess says what the error of a call of the primary means: for the call, and for
// the primary.
func (s *Store) assess(ctx context.Context, begun time.Duration, charges []core.Charge, err error) (away bool, _ error) {
	if !counts(err) {
		return false, err
	}
	now := s.now()
	if ended := ctx.Err(); ended != nil {
		// Whose caller leaves says nothing about the primary, unless that had had its
		// time. But it may be that all callers leave because it hangs: so it is asked.
		if now-begun >= s.config.deadline {
			s.breaker.fail(begun, now, err)
			s.look(charges)
		} else if !s.breaker.answeredSince(begun) {
			s.look(charges)
		}
		return false, ended
	}
	s.failures.Add(1)
	s.breaker.fail(begun, now, err)
	s.look(charges)
	return true, err
}

// refusals are the errors that are about a call and not about the store. Clients
// might cause them.
var refusals = []error{
	core.ErrInvalidCharge, core.ErrInvalidRule, core.ErrRuleConflict, core.ErrNegativeCost,
	core.ErrNegativeDelay, core.ErrNoAsks, core.ErrManyStores, core.ErrNoStore,
}

// counts says whether err is a failure of the store. What is not known is one: a
// Store may return the errors of its network as they are.
func counts(err error) bool {
	if errors.Is(err, core.ErrUnavailable) {
		return true
	}
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return true
}
