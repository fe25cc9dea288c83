package driver

import (
	"cmp"
	"fmt"
	"strconv"
	"sync/atomic"
)

// A Compiled holds a rule and its constants in exact integers. [Definition.Compile] returns it. Its
// fields must not be changed, and it must not be copied.
type Compiled struct {
	Definition
	Kind      *Kind     // that of the Definition
	Constants Constants // Rules with one ID and equal Constants admit the same events

	// StateName is the name of the rule's States, which no other rule of the same Algorithm has: the
	// length of the States and the name of the rule. For a bucket, the length is the time in which it
	// fills up. For other algorithms it is the period, or Hold, and for a sliding window also the number of
	// sub-windows. "60:api" is the rule "api" with 100 events a minute. Limits of the same length share
	// the States of a rule.
	StateName string
	// ID is a hash of the algorithm and of StateName, the same in every process. Rules with the same
	// ID share States. A Store must keep the States of other rules apart.
	ID uint64

	// Lasting is an in-flight rule for a [Local] Store: the places that it takes do not lapse. It is nil
	// for other rules, and for a Lasting rule.
	Lasting *Compiled

	engine  engine
	divided atomic.Pointer[[]division] // the latest, which does not change; nil before the first
}

// A division holds the fraction of a rule for one of n processes.
type division struct {
	n    int
	part *Compiled
}

// maxDivisions is the largest number of divisions that a Compiled keeps: charges of several numbers of processes are undone
// in turns while that number changes.
const maxDivisions = 8

// Constants contains the numbers of an algorithm, for a store that runs the algorithm elsewhere.
type Constants struct {
	Algorithm Algorithm
	Capacity  int64 // the largest cost that is ever admitted, including Extra
	Extra     int64 // the part of Capacity that a soft limit adds
	Rollover  int64 // the part of Capacity that a Quota can have from the last period

	// Bucket: the times in which one event, the whole bucket and its Headroom refill, and their
	// Denominator, at least 1. A debt is at most 100 years of 366 days long.
	Unit, Full, Headroom Span
	Denominator          int64 // zero for other algorithms

	// Window, log or places.
	Period    int64 // in microseconds; of an in-flight rule, Hold
	SubWindow int64 // in microseconds; 1 for a SlidingLog, zero for a FixedWindow

	Periods Periods // of a Quota: see During; Period is then a bound of their lengths
	// Share is the part, as a fraction, of the limit and of the events that have rolled over that Headroom leaves to a Quota
	// with a Rollover. Its denominator is at most 90 million. Zero for other rules.
	Share [2]int64
}

// Periods are two periods of the calendar that follow each other: from Start to Boundary, and from
// Boundary to End, in microseconds since the Unix epoch. The caller of a Store passes the periods around
// the boundary that is nearest to its own clock, and the clock of the Store says which of them is the
// present one. Clocks therefore may differ by up to half a period. Beyond End and before Start, periods
// continue with the same lengths.
type Periods struct{ Start, Boundary, End int64 }

// A Span is Micros + Frac/Denominator microseconds, with the Denominator of its rule.
type Span struct{ Micros, Frac int64 }

// Never is the largest number of microseconds or nanoseconds. It is the RetryAfter of a cost that
// can never be admitted, and as the bound of a delay it means no bound.
const Never = 1<<63 - 1

func newCompiled(d Definition, e engine) *Compiled {
	k := e.constants()
	k.Algorithm = d.Algorithm
	name := d.length() + ":" + d.Name
	c := &Compiled{
		Definition: d, Kind: d.Kind(), Constants: k, StateName: name, ID: stateID(d.Algorithm, name), engine: e,
	}
	if p, ok := e.(*places); ok && !p.lasting {
		lasting := *p
		lasting.lasting = true
		c.Lasting = newCompiled(d, &lasting)
	}
	return c
}

// stateID returns the FNV-1a hash of the algorithm and the name of States.
func stateID(a Algorithm, name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := (offset ^ uint64(a)) * prime
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	return h
}

// Divide returns the rule for one of n processes, as described in
// [github.com/weir-go/weir/core.Rule.Divide], or c itself. It has no Rollover, also for n below 2: the counts of one process
// add to no limit. Divide caches the results for the latest n, so that a store can call it for every charge.
func (c *Compiled) Divide(n int) *Compiled {
	if n = max(n, 1); n == 1 && c.Rollover == 0 {
		return c
	}
	latest := c.divided.Load()
	if latest != nil {
		for _, d := range *latest {
			if d.n == n {
				return d.part
			}
		}
	}
	part := c.Definition.divide(n)
	if part != nil && c.Kind.Calendar {
		part = part.During(c.Constants.Periods)
	}
	all := []division{{n, cmp.Or(part, c)}}
	if latest != nil {
		all = append(all, (*latest)[:min(len(*latest), maxDivisions-1)]...)
	}
	if !c.divided.CompareAndSwap(latest, &all) {
		return c.Divide(n) // another goroutine has divided c meanwhile
	}
	return all[0].part
}

// During returns c, a [Quota], in the given periods, which must not be empty. Each charge of a quota has
// such a rule. All of them share the States of c.
func (c *Compiled) During(p Periods) *Compiled {
	q := *c.engine.(*quota)
	q.periods = p
	d := &Compiled{Definition: c.Definition, Kind: c.Kind, Constants: c.Constants, StateName: c.StateName, ID: c.ID, engine: &q}
	d.Constants.Periods = p
	return d
}

// with returns c, a quota, with a limit to which rest events of the last period are added. It is for a Verdict.
func (c *Compiled) with(rest int64) *Compiled {
	o := c.engine.(*quota).rollover
	d := &Compiled{Definition: c.Definition, Kind: c.Kind, Constants: c.Constants, StateName: c.StateName, ID: c.ID, engine: c.engine}
	d.Events, d.Text = d.Events+int(rest), ""
	d.Constants.Rollover = c.Constants.Capacity - o.capacity(rest)
	return d
}

// ExpiresAt returns the time from which s means the same as the zero State, or zero if s is the
// zero State. From then on a Store whose clock does not step back may forget s. It is the same for all rules
// with one ID. A Store that counts whole seconds must round up.
func (c *Compiled) ExpiresAt(s State) int64 { return c.engine.expiresAt(s) }

// Given the receipt m of a charge, Keep returns a receipt for an Undo of all but cost units of it.
func (c *Compiled) Keep(m Receipt, cost int64) Receipt {
	if b, ok := c.engine.(*bucket); ok {
		return b.keep(m, cost)
	}
	return m
}

// length returns the length of the States of a rule as a text: the time in which a bucket fills up,
// or the period of another algorithm (of an in-flight rule, Hold), and for a sliding window the number of
// sub-windows ("60/60"). A fixed window from the first event has the length "60/first".
// The unit is the second, or a smaller unit that is followed by its name ("1500ms",
// "333333us+1/3"). The text is empty for an invalid bucket.
//
// Rules with the same name and length share States. A State means the same under each of their
// limits: a half empty bucket is half empty. Under another length it does not: an empty bucket of a
// minute would be a nearly full bucket of an hour. If limits of different lengths shared a State, a
// client that can choose between them would gain events with every change. As they do not, it gains
// at most one limit for each length.
func (d *Definition) length() string {
	if d.Calendar != 0 {
		return d.Calendar.String()
	}
	us := (d.Per + d.Hold).Microseconds() // one of them is zero
	switch {
	case d.FromFirst:
		return durationText(us) + "/first"
	case d.SubWindows != 0:
		return durationText(us) + "/" + strconv.Itoa(d.SubWindows)
	case !d.Kind().Refills:
		return durationText(us)
	case d.inherited.den == 0 && d.fault() != nil:
		return ""
	}
	f := d.fillTime()
	if f.span.Frac == 0 {
		return durationText(f.span.Micros)
	}
	g := gcd(f.span.Frac, f.den)
	return fmt.Sprintf("%dus+%d/%d", f.span.Micros, f.span.Frac/g, f.den/g)
}

// A fill is the time in which a bucket fills up, and the denominator of the time.
type fill struct {
	span Span
	den  int64
}

// fillTime returns the fill time of d, a valid bucket.
func (d *Definition) fillTime() fill {
	if d.inherited.den != 0 {
		return d.inherited
	}
	capacity := int64(d.capacity())
	b := newBucket(int64(d.Events), d.Per.Microseconds(), capacity+portion(capacity, d.Soft), 0, false)
	return fill{b.full, b.den}
}

// durationText returns us microseconds as a text.
func durationText(us int64) string {
	switch {
	case us%1_000_000 == 0:
		return strconv.FormatInt(us/1_000_000, 10)
	case us%1000 == 0:
		return strconv.FormatInt(us/1000, 10) + "ms"
	}
	return strconv.FormatInt(us, 10) + "us"
}
