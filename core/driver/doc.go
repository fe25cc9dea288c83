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
//		charge.Answer(&r, admitted)                      // fills in the Verdict
//	}
//
//	for each charge {                                    // Adjust
//		r = charge.Read(state, now)
//		state = charge.Apply(state, &r, now)             // and fills in the Verdict
//	}
//
// Package core/storetest contains a complete store of less than a hundred lines, and the
// conformance suite that every store must pass. Its store compares and sets bytes, as one on a database does.
//
// # A store on a database
//
// A store of several processes, on an SQL database for example, needs one row for the Key and the
// [Compiled.ID] of a charge, with the bytes of the [State] and the time from which the row may be deleted
// ([Compiled.ExpiresAt]). A decision takes two round trips:
//
//   - One reads the rows of all charges, and the time of the database. No row is the zero State, and
//     [State.UnmarshalBinary] makes a State of the bytes. The store then does what is written above.
//   - The other writes the new States in one transaction, if all rows still have the bytes that were read. It
//     is not necessary if no State has changed.
//
// If a row has other bytes, nothing is written, and the store begins again with the charges as they were: with
// the zero Receipt of a Spend or Debit, and with AtMost with the Cost of the call ([SetCost]). It may give up
// after some attempts. An error of the database, and giving up, are an error that wraps [ErrUnavailable]; the
// end of ctx is the error of ctx. If it is not known whether the transaction was committed, the store must not
// repeat it, because a charge counts at most once.
//
// Such a store embeds a [Namespace]. It implements [Prober] if the database can be readable without being
// writable, and tells its deadline in a [Description], if it has one.
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
// exact. The package reads no clock and takes no lock.
//
// If a clock steps back, the time in a State may be later than is possible. Such a State is treated
// as if it had been written now. This never admits too many events. The State is then stored again
// with the corrected time. The comments of bucket, window and log describe the effects.
package driver
