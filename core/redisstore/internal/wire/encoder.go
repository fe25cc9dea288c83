package wire

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/memo"
)

// An Encoder makes the keys in Redis, and the arguments of requests. It is safe for concurrent use.
//
// The hash tag of keys contains 128 bits of a hash of the identity. The length of keys is therefore bounded, keys hide
// the identity, and no client can choose the slot.
//
// It keeps the arguments of charges with cost 1, by their rule. Nearly all charges are of this kind. Clients may choose
// other costs, and could fill the memory with them. The number of rules is bounded, because an application may make new
// rules all the time. A quota with anchors has a new rule in each decision, so no quotas are kept.
type Encoder struct {
	Prefix string // of all keys, with the name of the application
	keyhash.Hasher
	rules memo.Map[*driver.Compiled, []any]
}

// maxCached is the number of rules in an Encoder.
const maxCached = 4096

// NewEncoder returns an Encoder of keys with a prefix.
func NewEncoder(prefix string, h keyhash.Hasher) *Encoder {
	e := &Encoder{Prefix: prefix, Hasher: h}
	e.rules.Max = maxCached
	return e
}

// Key returns the key for the state of r, of the identity with a hash tag: for a sliding log of 500/h that is called
// "api", "weir:shop:{<tag>}l4:3600:api".
func (e *Encoder) Key(tag string, r *driver.Compiled) string {
	return e.Prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + ":" + r.StateName
}

// Probe returns the key for probes by the algorithm of r, in the hash slot of tag. No state has that key.
func (e *Encoder) Probe(tag string, r *driver.Compiled) string {
	return e.Prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + "?"
}

// Encode sets the arguments of r, and its properties. It panics if there is no script for a charge.
func (e *Encoder) Encode(r *Request) {
	first := &r.Charges[0]
	r.verb, r.values, r.Adjusts = adjust, 1, !first.Op.Asks() // the outcome is a value
	r.args = append(r.args, integer(int64(len(r.Charges))), nil)
	switch {
	case first.AtMost:
		r.verb = atMost
		r.args = append(r.args, integer(min(int64(first.Cost), maxInteger)))
	case first.Op.Asks():
		r.verb = take
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		k := c.Rule.Kind
		a := algorithmOf(&c.Rule.Definition)
		r.args = append(r.args, libraries[a.library], opArgument(c))
		if k.Delays && c.Op.Asks() && c.MaxDelay > 0 {
			r.timed = append(r.timed, timed{index: len(r.args) + bucketDelay, micros: c.MaxDelay.Microseconds()})
		}
		r.args = append(r.args, e.arguments(c)...)
		receipt := len(r.args)
		undoes, renews := c.Op == driver.Undo, c.Op == driver.Renew
		switch {
		case Waits(c):
			r.args = append(r.args, waiterArguments(c)...)
			r.grow(receipt, c.Waiter.Age.Microseconds())
		case undoes || renews:
			r.args = append(r.args, receiptArguments(c)...)
			r.grow(receipt, c.Receipt.Age)
		}
		r.set |= 1 << a.library
		r.Undoes = r.Undoes || undoes && !r.Repeats
		r.Urgent = r.Urgent || undoes || renews
		r.Takes = r.Takes || c.Op == driver.Spend && k.Holds
		r.values += a.reported(&c.Rule.Constants)
		if c.Op.Asks() && c.Cost <= lightCost {
			r.Work += a.light
		} else {
			r.Work += a.heavy
		}
	}
	r.args[1] = integer(int64(len(r.args) - 2))
	if len(r.timed) > 0 {
		r.Wait(0)
	}
}

// grow notes that the receipt at an index has an age, unless that is 0, which means not known.
func (r *Request) grow(receipt int, age int64) {
	if at := receipt + receiptAge; at < len(r.args) && age > 0 {
		r.timed = append(r.timed, timed{index: at, micros: age, grows: true})
	}
}

// arguments returns the arguments of c without its MaxDelay. The caller must not change them.
func (e *Encoder) arguments(c *driver.Charge) []any {
	if cost := costArgument(c); cost != 1 || c.Rule.Kind.Calendar {
		return arguments(c.Rule, cost)
	}
	return e.rules.Get(c.Rule, func(r *driver.Compiled) []any { return arguments(r, 1) })
}

func arguments(r *driver.Compiled, cost int64) []any {
	return algorithmOf(&r.Definition).arguments(r, cost)
}

// The ops of charges as scripts know them, boxed once.
var (
	opArguments = [...]any{
		driver.Spend: "spend", driver.Peek: "peek", driver.Reset: "reset",
		driver.Credit: "credit", driver.Debit: "debit", driver.Undo: "undo", driver.Renew: "renew",
	}
	shadowArguments = [...]any{driver.Spend: "shadow_spend", driver.Peek: "shadow_peek"}
)

// opArgument returns the op of c as scripts know it. It panics if there is no such op.
func opArgument(c *driver.Charge) any {
	switch undoes := c.Op == driver.Undo; {
	case Waits(c):
		return "wait"
	case undoes && c.Waiter != nil:
		return "leave"
	case undoes && c.Rule.Kind.Delays:
		return "undo_last"
	case c.Ban && c.Op == driver.Debit:
		return "begin"
	case c.Op.Asks() && c.Rule.Shadow:
		return shadowArguments[c.Op]
	}
	return opArguments[c.Op]
}

// costArgument returns the cost for a script, within the range of integers that a double represents
// exactly. Spends and Peeks of all costs above the capacity are denied alike. With AtMost, it is the unit
// of which scripts take several. For the debit of a pause, it is the length.
func costArgument(c *driver.Charge) int64 {
	switch closes := c.Rule.Kind.Closes; {
	case closes && c.Op == driver.Debit:
		return min(c.Pause.Microseconds(), maxPause)
	case c.AtMost, closes:
		return 1
	case c.Op.Asks():
		return min(int64(c.Cost), c.Rule.Constants.Capacity+1)
	case c.Op == driver.Reset:
		return 1
	}
	return min(int64(c.Cost), maxCount+1) // more than any rule can count
}

// Waits reports whether c is the Spend of a [driver.Waiter].
func Waits(c *driver.Charge) bool { return c.Op == driver.Spend && c.Waiter != nil }

// waiterArguments returns the arguments of the [driver.Waiter] of c. The cost of the next caller is 0 if there is none.
func waiterArguments(c *driver.Charge) []any {
	w, known, next := c.Waiter, int64(0), min(int64(c.Waiter.Next), 1<<costBits-1)
	if w.Known {
		known = 1
	}
	if !c.Rule.ByCost {
		next = min(next, 1)
	}
	return []any{integer(w.Queue), integer(known), integer(next), integer(w.Age.Microseconds()), integer(w.Behind.Microseconds())}
}

// receiptAge is the index of the age in the arguments of a receipt, except for that of a place, and in those of a
// waiter.
const receiptAge = 3

// receiptArguments returns the arguments of the receipt of c, an undo or a renewal. If the rate was changed
// since the charge, a fraction >= denominator becomes 0, and the undo frees slightly less. A zero
// Receipt is sent as the receipt of a charge so long ago that the undo frees nothing. The receipt of a place is its
// number, and none has the number 0; that of a queue is its number, too.
func receiptArguments(c *driver.Charge) []any {
	m, k := c.Receipt, &c.Rule.Constants
	switch {
	case c.Waiter != nil:
		return []any{integer(c.Waiter.Queue)}
	case c.Rule.Kind.Holds:
		return []any{integer(max(0, m.At))}
	case m.At <= 0:
		m.At = -maxInteger
	}
	if m.Used.Frac >= k.Denominator {
		m.Used.Frac = 0
	}
	return []any{integer(m.At), integer(m.Used.Micros), integer(m.Used.Frac), integer(min(m.Age, maxInteger))}
}
