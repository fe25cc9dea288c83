package failover

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Store decides by its primary, and by its backup while the primary cannot decide. It is made
// by [New] and is safe for concurrent use.
type Store struct {
	primary  *timeout
	direct   bool // the primary has a deadline of its own, and is called without the timeout
	backup   backup
	breaker  *breaker
	prober   *prober
	notifier notifier
	start    time.Time

	failures, backups, lost atomic.Uint64
}

// New returns a Store that calls primary, and backup while primary cannot decide. It makes no
// call, so the primary may be absent. New panics if primary, backup or an option is nil.
//
// A primary that is a [driver.Deadliner], with a deadline not longer than the [Deadline] of this
// package, is called directly. Any other primary is called on a goroutine of its own and with a
// copy of the charges, which costs a decision about two microseconds.
//
// Close a Store that is no longer used before the program ends.
func New(primary, backup driver.Store, opts ...Option) *Store {
	argument.NotNil("failover: New", "primary", primary)
	argument.NotNil("failover: New", "backup", backup)
	c := config{deadline: DefaultDeadline}
	argument.Apply("failover: New", &c, opts)
	s := &Store{primary: newTimeout(primary, c.deadline), start: time.Now()}
	d, ok := primary.(driver.Deadliner)
	s.direct = ok && d.Deadline() <= c.deadline
	s.backup.init(backup, &c)
	s.notifier.call = c.onChange
	s.breaker = newBreaker(c.deadline/2, s.notifier.add)
	s.prober = newProber(s.breaker, s.primary, s.now)
	return s
}

// now returns the time since the Store was made.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// Declare implements [driver.Declarer]. It declares the rules on the primary and, divided by
// [Instances], on the backup.
func (s *Store) Declare(rules ...*driver.Compiled) error {
	if d, ok := s.primary.store.(driver.Declarer); ok {
		if err := d.Declare(rules...); err != nil {
			return err
		}
	}
	return s.backup.declare(rules)
}

// Check returns a core.ErrInvalidRule if [FailClosedFor] or [FailOpenFor] names a rule that no
// limiter on the Store has. With a misspelt name, the ordinary backup would decide the intended
// rule. Call Check when all limiters are made. The first decision of the backup logs the error.
func (s *Store) Check() error { return s.backup.check() }

// State returns the present State.
func (s *Store) State() State { return s.breaker.State() }

// Stats counts events since a Store was made.
type Stats struct {
	Failures uint64 // calls of the primary that failed
	Backup   uint64 // calls that the backup or FailOpen decided; calls that return core.ErrFailClosed do not count
	Lost     uint64 // calls whose Credits or Undos the primary did not do: their cost stays charged
	Outages  uint64 // how often the breaker opened
	Probes   uint64 // probes that were sent
	Hanging  int    // calls without a caller, after the deadline for example, that the primary has not returned from
	Cause    error  // the cause of the last outage; nil before the first
}

// Stats returns the counts so far. Calls that the primary has decided are not counted, because
// counting would slow them down.
func (s *Store) Stats() Stats {
	outages, cause := s.breaker.history()
	return Stats{
		Failures: s.failures.Load(),
		Backup:   s.backups.Load(),
		Lost:     s.lost.Load(),
		Outages:  outages,
		Probes:   s.prober.sent.Load(),
		Hanging:  int(max(0, s.primary.hanging.Load())),
		Cause:    cause,
	}
}

// Close ends the probes in the background, and waits for them and for an [OnChange] that is
// running. It closes neither store. A closed Store goes on deciding, but does not return to a
// primary during an outage, and does not call OnChange. Close may be called again. It returns nil.
func (s *Store) Close() error {
	s.prober.close()
	s.notifier.close()
	return nil
}
