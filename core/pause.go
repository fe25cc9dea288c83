package core

import "github.com/weir-go/weir/core/driver"

// Pause returns a rule that admits every event of a key until [Limiter.Pause] closes it for a time: in all
// processes that share the Store, at their next decision. It is for a time that others have named, such as
// the Retry-After of a service that all processes call, and for penalties. A limiter has at most one.
//
//	partner := core.Must(core.New(store, core.Pause("partner"), core.TokenBucket("rate", core.PerSecond(10))))
//	if err := partner.Wait(ctx, "acme"); err != nil { // waits for the end of a pause, too
//		return err
//	}
//	res, err := client.Do(req)
//	if err == nil && res.StatusCode == http.StatusTooManyRequests {
//		err = partner.Pause(ctx, "acme", retryAfter)
//	}
//
// While a key is paused, the decision is denied, whatever the event costs. It charges no other rule and takes no
// place, and RetryAfter is exact. The limit of its [State] is [Blocked], with RetryAfter, ResetAfter and Window until
// the end; that of any other State is [Unlimited]. A Peek, or an ask of cost zero, is denied, too. A pause does
// not end events that were admitted before, and they can be settled. [Limiter.Wait] does not return in a pause, but a
// gate passes a request that a [LeakyBucket] had delayed before. Debit, Credit and refunds do not change it.
// Limiters with a Pause of one name on one Store share it, as with any [Rule].
//
// A Pause has no Limit. Plans, Soft, FromFirst, SubWindows, Hold, Spare and the like are errors. With [Spec.Shadow], it
// denies nothing.
//
// # Stores
//
// The end is the time of the Store plus the length. If the clock of a Redis steps back, a pause ends later, but its
// rest is never longer than its length. With package failover, a pause is written to the primary and to the backup of
// this process. The backups of other processes do not know it, so they admit its events in an outage, and this one
// does not know if another process ends it early. A pause that begins in an outage is known in this process only, and
// ends with the outage at the latest. One that is ended in an outage is there again after the outage. If the primary
// fails and the next decision may be its own, Pause returns an error. Package denycache may answer from its memory for
// up to its MaxAge after another process has begun a pause, ended it early or made it longer. Package lease asks its
// Store for each decision of a limiter with a Pause.
func Pause(name string) Rule { return NewRule(Spec{Name: name, Algorithm: driver.Pause}) }

// closed returns r, a Pause, as the State of a paused key has it.
func (r Rule) closed() Rule {
	known := r.d.divided.Load()
	if known == nil {
		known = &definition{spec: r.d.spec, plan: Plan{Limit: Blocked}, compiled: r.d.compiled}
		r.d.divided.Store(known)
	}
	return Rule{known}
}

// off returns r without its limits and other properties: every event is admitted, without a charge. The limit Unlimited
// does not suffice, because a Pause has it, too.
func (r Rule) off() Rule {
	d := newDefinition(Spec{Name: r.Name(), Algorithm: r.Algorithm(), Limit: Unlimited})
	d.once.Do(func() {}) // it is never compiled
	return Rule{d}
}

// paused reports whether a pause denies d.
func (d *Decision) paused() bool {
	for _, s := range d.States() {
		if !s.Allowed && s.Rule.Kind().Closes && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}
