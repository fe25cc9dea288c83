package driver

import "time"

// A Description contains facts about a Store that do not change, so that a caller adapts to it. A Store
// tells them with a method
//
//	Describe() Description
//
// which a Store without any of these facts does not need. A Store over another one must have it: it returns
// the Description of the Store behind, of which it changes the facts that are not true of itself, with Behind.
// A Store over several has a fact only if all of them have it, and the Clock of the one that decides usually.
type Description struct {
	// Local says that the States are in this process only. Package core then renews no places of in-flight
	// rules: it takes them with the field Lasting of their rules, and frees them when their holders end.
	Local bool
	// Steady says that the clock of the Store never steps back, except for quotas. Receipts that it wrote
	// then need no Age.
	Steady bool
	// Deadline is the longest time that a call of Take or Adjust lasts, if the calls end by themselves.
	// Package failover sets no timeout for them. Zero means that it is not known.
	Deadline time.Duration
	// Clock returns the time of a Store that does not decide by the clock of a server or of this process.
	// Package core chooses the periods of a [Quota] by it. Nil means time.Now.
	Clock func() time.Time
	// Behind are the Stores behind, for figures and logs, by their roles: "primary" and "backup", or "" for the
	// only one. There are none behind most Stores.
	Behind map[string]Store
}

// Describe returns the Description of s: the zero Description if it has no method Describe.
func Describe(s Store) (d Description) {
	if of, ok := s.(interface{ Describe() Description }); ok {
		d = of.Describe()
	}
	return d
}
