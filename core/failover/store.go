package failover

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Store decides by its primary, and by its backup while that is away. It is made
// by [New] and safe for concurrent use.
type Store struct {
	primary, backup driver.Store
	config          config
	direct          bool // the primary ends its calls in time, and is called without the timeout
	timeout         *timeout
	breaker         *breaker
	divider         *divider // nil without Instances
	names           names
	prober          prober
	notify          notifier
	start           time.Time

	failures, backups, lost, probes atomic.Uint64
}

// New returns a Store that calls primary, and backup while primary cannot decide.
// Nothing is sent before the first decision, so the primary may be absent. New
// panics if one of the two or an option is nil.
//
// A primary that is a [driver.Deadliner], with a deadline that is not longer than the
// [Deadline] of this package, is called directly. Any other primary is called on a goroutine
// of its own and with a copy of the charges, which costs a decision about two microseconds.
//
// Close a Store that is given up before the program ends.
func New(primary, backup driver.Store, opts ...Option) *Store {
	argument.NotNil("failover: New", "primary", primary)
	argument.NotNil("failover: New", "backup", backup)
	c := config{deadline: DefaultDeadline}
	argument.Apply("failover: New", &c, opts)
	s := &Store{primary: primary, backup: backup, config: c, start: time.Now()}
	d, ok := primary.(driver.Deadliner)
	s.direct = ok && d.Deadline() <= c.deadline
	s.timeout = newTimeout(primary, c.deadline)
	if c.instances > 1 {
		s.divider = newDivider(c.instances)
	}
	s.prober.init()
	s.notify.call = c.onChange
	s.breaker = newBreaker(c.deadline/2, s.notify.add)
	return s
}

// now is how long the Store exists.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// Declare implements [driver.Declarer]: it declares the rules on both stores, and
// the divided ones on the backup if there is an [Instances].
func (s *Store) Declare(rules ...*driver.Compiled) error {
	s.names.declare(rules)
	if d, ok := s.primary.(driver.Declarer); ok {
		if err := d.Declare(rules...); err != nil {
			return err
		}
	}
	d, ok := s.backup.(driver.Declarer)
	if !ok {
		return nil
	}
	if s.divider != nil {
		divided := make([]*driver.Compiled, len(rules))
		for i, r := range rules {
			divided[i] = s.divider.divide(r)
		}
		rules = divided
	}
	return d.Declare(rules...)
}

// Take implements [driver.Store]. Errors are those of a ctx that has ended, those of the
// primary that are about the call, and those of the backup.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	begun := s.now()
	if !s.breaker.admits(begun) {
		return s.useBackup(ctx, take, charges)
	}
	failed, err := s.callPrimary(ctx, begun, take, charges)
	if failed {
		return s.useBackup(ctx, take, charges)
	}
	return err
}

// callPrimary calls do for the primary at begun. failed says that the primary failed with
// err, and that the caller has not left: the backup has to decide.
func (s *Store) callPrimary(ctx context.Context, begun time.Duration, do verb, charges []driver.Charge) (failed bool, err error) {
	clearReceipts(charges)
	if s.direct {
		err = safely(ctx, do, s.primary, charges)
	} else {
		err = s.timeout.call(ctx, do, charges)
	}
	if err == nil {
		s.breaker.succeed(begun)
		setOrigins(charges, byPrimary)
		return false, nil
	}
	return s.assess(ctx, begun, charges, err)
}

// assess works out what err of a call of the primary means for the call and for the primary.
func (s *Store) assess(ctx context.Context, begun time.Duration, charges []driver.Charge, err error) (failed bool, _ error) {
	if !isFailure(err) {
		return false, err
	}
	now := s.now()
	if ended := ctx.Err(); ended != nil {
		// A cancelled call is no evidence against the primary unless the whole deadline had
		// passed. Callers may be cancelling because the primary hangs, so it is probed.
		if now-begun >= s.config.deadline {
			s.breaker.fail(begun, now, err)
			s.startProbing(charges)
		} else if !s.breaker.answeredSince(begun) {
			s.startProbing(charges)
		}
		return false, ended
	}
	s.failures.Add(1)
	s.breaker.fail(begun, now, err)
	s.startProbing(charges)
	return true, err
}

// isFailure says whether err is a failure of the store, and not about a call: clients might
// cause one of those. An unknown error is a failure, for a Store may return the errors of its
// network as they are.
func isFailure(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, driver.ErrInvalidCharge) &&
		!errors.Is(err, driver.ErrInvalidRule) && !errors.Is(err, driver.ErrRuleConflict)
}
