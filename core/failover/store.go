package failover

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/argument"
)

// A Store passes charges to its primary, and to its backup while the primary cannot decide. Use
// [New] to make a Store. It is safe for concurrent use.
type Store struct {
	primary  *timeout
	direct   bool // the primary has a deadline of its own, and is called without the timeout
	backup   backup
	breaker  *breaker
	prober   *prober
	notifier notifier
	onChange func(from, to State, cause error) // nil without OnChange
	log      *slog.Logger                      // nil without LogTo
	start    time.Time

	failures, backups, lost atomic.Uint64
}

// New returns a Store that calls primary, and backup while primary cannot decide. New itself calls
// neither, so the primary may be unreachable. New panics if primary, backup or an option is nil.
//
// A primary whose [driver.Description] has a Deadline not longer than [Deadline] is called directly. Any other primary is called on a separate goroutine with a copy of the charges.
//
// The caller must call [Store.Close] unless it uses the Store until the program ends.
func New(primary, backup driver.Store, opts ...Option) *Store {
	argument.NotNil("failover: New", "primary", primary)
	argument.NotNil("failover: New", "backup", backup)
	c := config{deadline: DefaultDeadline}
	argument.Apply("failover: New", &c, opts)
	s := &Store{primary: newTimeout(primary, c.deadline), start: time.Now()}
	d := driver.Describe(primary)
	s.direct = d.Deadline > 0 && d.Deadline <= c.deadline
	s.backup.init(backup, d.Processes, &c)
	s.onChange, s.notifier.call = c.onChange, s.changed
	s.breaker = newBreaker(c.deadline/2, s.notifier.add)
	s.prober = newProber(s.breaker, s.primary, s.now)
	return s
}

// now returns the time since the Store was made.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// Declare implements [driver.Declarer]. It declares the definitions on the primary and on the backup.
func (s *Store) Declare(changes ...driver.Change) error {
	if err := driver.Declare(s.primary.store, changes...); err != nil {
		return err
	}
	err := s.backup.declare(changes)
	if err != nil {
		undo := make([]driver.Change, len(changes))
		for i, c := range changes {
			undo[i] = driver.Change{Old: c.New, New: c.Old}
		}
		err = errors.Join(err, driver.Declare(s.primary.store, undo...))
	}
	return err
}

// Check returns core.ErrInvalidRule if [FailClosedFor] or [FailOpenFor] names a rule that no
// limiter on the Store has. Call Check after all limiters are made: if a name is misspelt, the
// backup of New decides about the rule that was meant. The backup's first decision logs this error.
func (s *Store) Check() error { return s.backup.check() }

// State returns the present State.
func (s *Store) State() State { return s.breaker.State() }

// Stats contains counts since a Store was made.
type Stats struct {
	Failures uint64 // calls of the primary that failed
	Backup   uint64 // calls that the backup decided, including FailOpen; calls with an error do not count
	Lost     uint64 // calls with Credits or Undos that the primary did not execute: their cost stays charged
	Outages  uint64 // how often the breaker opened
	Probes   uint64 // probes that were sent
	Hanging  int    // calls that the primary has not returned from although the caller has left, for example after the deadline
	Cause    error  // the cause of the last outage; nil before the first outage
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

// Close ends the probes and waits until they, and a running function of [OnChange], have returned.
// It closes neither the primary nor the backup. A closed Store still decides, but does not return
// to the primary after an outage, and does not call the function of OnChange. Close may be called
// more than once. It returns nil.
func (s *Store) Close() error {
	s.prober.close()
	s.notifier.close()
	return nil
}
