// Package driver provides the interface [Store] and the algorithms for authors of stores.
// Applications use package core instead.
//
// # A store
//
// A Store keeps a [State] for each rule of each key, and leaves all arithmetic to this package. A
// rule is a [Compiled]. A [Charge] is the part of a decision that belongs to one rule of one key:
//
//	Reduce(charges, ...)                                 // Take with AtMost
//	admitted := true                                     // Take
//	for each charge {
//		r = charge.Read(state, now)                      // a Reading: the meaning of state now
//		admitted = admitted && (charge.Rule.Shadow || charge.Fits(&r))
//	}
//	for each charge {
//		state, changed = charge.Commit(state, &r, now, admitted)
//	}
//	for each charge {                                    // when the states have been stored
//		charge.Answer(&r, admitted)                      // fills in the Verdict
//	}
//
//	for each charge {                                    // Adjust
//		r = charge.Read(state, now)
//		state = charge.Apply(state, &r, now)             // sets r to the Reading of the new state
//	}
//	for each charge {                                    // when the states have been stored
//		charge.Answer(&r, false)
//	}
//
// Package core/storetest contains the conformance suite that every store must pass.
//
// # A store on a database
//
// Package core/casstore makes a store of any database that can read rows and swap them if they are unchanged: it
// repeats, groups and locks, so that a database needs about a hundred lines.
//
// # Other stores
//
// A store that can change only one State at a time must apply the charges one after the other. If a
// later charge does not fit, the store must undo the earlier charges. It needs its own [Receipt]
// for each of them. It must apply the charges of leaky buckets last, because only the last event of
// a queue can be undone. It must set Undoes in its storetest.Harness for the conformance suite.
//
// A store that runs the algorithms elsewhere, such as in a script on a server, sends the
// [Constants] of a rule there, receives a [Reading], and calls [Charge.Answer].
//
// # Time
//
// Times are microseconds since a fixed origin, from 1 to 2^53-1. Fixed windows begin at multiples
// of their period from the origin, so stores use the Unix epoch. Arithmetic is in integers and
// exact. The package reads no clock, and takes a lock only in [Charge.Answer], when it wakes callers who wait for
// places in this process.
//
// If a clock steps back, the time in a State may be later than is possible. Such a State is treated
// as if it had been written now. This never admits too many events. The State is then stored again
// with the corrected time. A State that was deleted does not count again: a store whose clock can step back
// deletes it so much later than ExpiresAt.
package driver
