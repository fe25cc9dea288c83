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
// Package core/storetest contains a complete store of less than a hundred lines, and the
// conformance suite that every store must pass. Its store compares and sets bytes, as one on a database does.
//
// # A store on a database
//
// A store of several processes, on an SQL database for example, needs a table with the Key of a charge as bytes,
// the [Compiled.ID] of its rule as a signed integer of 64 bits, the bytes of the [State], and the time after
// which the row may be deleted ([Compiled.ExpiresAt]). Key and ID are the primary key. A call has two steps:
//
//   - The first reads the rows of all charges, and the time of the database. No row is the zero State, whose
//     encoding has no bytes; [State.UnmarshalBinary] makes a State of the bytes. The store then computes
//     the new States as above. (After Apply, which does not say whether it changed the State, compare the bytes.)
//   - The second writes the new States in one transaction, if these rows still have the bytes that were
//     read, or still do not exist. A zero State deletes its row. Rows whose State has not changed need no check,
//     and without a change there is no second step. If rows are locked, lock them in the order of the primary key.
//
// If a row has other bytes, nothing is written, and the store begins again with the charges as they were: with
// the Receipt of a Spend or Debit, and with AtMost the Cost of the call. Otherwise an event that is
// denied at the second attempt would keep the Receipt of the first one. The store may give up after some attempts;
// the conformance suite makes 64 calls at a time for one key. After an error of Adjust, Verdict.Rule must be nil
// for a charge that was not written. If it is not known whether the transaction was committed, the store must not
// repeat it, because a charge counts at most once. Errors of the database, bytes that are no State, and giving up
// are errors that wrap [ErrUnavailable]; if ctx ends, the error is ctx.Err(), without it.
//
// Such a store embeds a [Namespace]. It implements [Prober] if the database can be readable without being
// writable: for a row with an empty Key, which no charge has. It tells its deadline in a [Description], if it has
// one. The other interfaces and functions are for stores over stores and for package core.
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
