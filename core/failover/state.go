package failover

import "fmt"

// A State says who decides.
type State int

// The states of a Store.
const (
	// Primary: every call goes to the primary. What it fails, the backup decides.
	Primary State = iota
	// Backup: the primary is not asked, but probed in the background.
	Backup
	// Recovering: a growing share of the calls goes to the primary.
	Recovering
)

// String is "primary", "backup" or "recovering".
func (s State) String() string {
	switch s {
	case Primary:
		return "primary"
	case Backup:
		return "backup"
	case Recovering:
		return "recovering"
	}
	return fmt.Sprintf("failover.State(%d)", int(s))
}

// Stats counts what a Store has met since it was made.
type Stats struct {
	Failures uint64 // calls that the primary failed
	Backup   uint64 // calls that the backup or FailOpen has decided, and not those that end in core.ErrFailClosed
	Lost     uint64 // refunds that the primary did not carry out: what they were about stays taken
	Outages  uint64 // how often the primary was left
	Probes   uint64 // probes that were sent
	Hanging  int    // calls that the primary has not returned from although it was left, now
	Cause    error  // why the primary was left the last time; nil if it never was
}

// State says who decides now.
func (s *Store) State() State { return s.breaker.State() }

// Stats returns the counts so far. Calls that the primary has decided are not
// counted, because that would cost them something.
func (s *Store) Stats() Stats {
	outages, cause := s.breaker.history()
	return Stats{
		Failures: s.failures.Load(),
		Backup:   s.backups.Load(),
		Lost:     s.lost.Load(),
		Outages:  outages,
		Probes:   s.probes.Load(),
		Hanging:  int(max(0, s.timeout.hanging.Load())),
		Cause:    cause,
	}
}
