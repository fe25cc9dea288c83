package wire

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/memo"
)

// An Encoder encodes requests. It keeps the arguments of charges with cost 1, by their rule. Nearly all charges
// are of this kind. Clients may choose other costs, and could fill the memory with them. The number
// of rules is bounded, because an application may make new rules all the time. A quota with anchors has a
// new rule in each decision, so no quotas are kept. Use [NewEncoder]. It is safe for concurrent use.
type Encoder struct {
	rules memo.Map[*driver.Compiled, []any]
}

// maxCached is the number of rules in an Encoder.
const maxCached = 4096

// NewEncoder returns an Encoder.
func NewEncoder() *Encoder {
	e := new(Encoder)
	e.rules.Max = maxCached
	return e
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
