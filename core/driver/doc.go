// Package driver is for implementers of stores and of adapters between stores: it has the
// interface [Store] and the algorithms. Applications use package core instead.
//
// # A store
//
// A Store keeps a [State] for each rule of each key, and leaves all arithmetic to this
// package. A rule is a [Compiled]. What happens to a State is a [Charge]:
//
//	r := charge.Read(state, now)                         // what the state says now
//	fits := charge.Fits(&r)                              // Take: would it be admitted?
//	state, changed = charge.Commit(state, &r, now, all)  // Take: all says whether all charges fit
//	charge.Answer(&r, all)                               // Take: fills in the Verdict
//	state = charge.Apply(state, &r, now)                 // Adjust: cannot be denied
//
// Package core/storetest has a
// complete store of less than a hundred lines, and the conformance suite that every store
// has to pass.
//
// A store that runs the algorithms elsewhere, such as in a script on a server, sends the
// [Constants] of a rule there, gets a [Reading] back, and calls [Charge.Answer].
//
// # Time
//
// Times are microseconds since any fixed origin that is not negative and less than 2^53;
// fixed windows begin at multiples of their period from there, so stores use the Unix
// epoch. Nothing here reads a clock or takes a lock. Arithmetic is in integers and exact.
//
// A clock may step back. Then a State lies further ahead than it could: it counts as
// written now, which admits no event too many, and is written back as such. The comments
// of the algorithms say what that means for each.
package driver
