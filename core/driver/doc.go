// Package driver is for implementers of stores and of adapters between stores: it has the interface
// [Store] and the algorithms. Applications use package core instead.
//
// # A store
//
// A Store keeps a [State] for each rule of each key, and leaves all arithmetic to this package. A
// rule is a [Compiled]. What happens to a State is a [Charge]:
//
//	admitted := true                                     // Take
//	for each charge {
//		r = charge.Read(state, now)                      // what the state says now
//		admitted = admitted && (charge.Rule.Shadow() || charge.Fits(&r))
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
// Package core/storetest has a complete store of less than a hundred lines, and the conformance
// suite that every store has to pass.
//
// A store that can change only one State at a time takes the charges one after the other, and gives
// them back by an Undo, with receipts of its own, if a later one does not fit. It takes leaky
// buckets last: a place in a queue can be given back only while it is the last one. It sets
// GivesBack in its storetest.Harness.
//
// A store that runs the algorithms elsewhere, such as in a script on a server, sends the
// [Constants] of a rule there, gets a [Reading] back, and calls [Charge.Answer].
//
// # Time
//
// Times are microseconds since a fixed origin, from 1 to 2^53-1. Fixed windows begin at multiples
// of their period from there, so stores use the Unix epoch. Nothing here reads a clock or takes a
// lock. Arithmetic is in integers and exact.
//
// A clock may step back. Then a State lies further ahead than it could: it counts as written now,
// which admits no event too many, and is written back as such. The comments of the algorithms say
// what that means for each.
package driver
