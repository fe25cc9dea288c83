package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Pause returns a rule that admits every event of a key until [Limiter.Pause] closes it for a time: in all
// processes that share the Store, at their next decision. It is for a time that somebody else has named, such as
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
// not end events that were admitted before, and they can be settled. Debit, Credit and refunds do not change it.
// Limiters with a Pause of one name on one Store share it, as with any [Rule].
//
// A Pause has no Limit: its [Spec] contains Unlimited. Plans, Soft, FromFirst, SubWindows, Hold, Spare and the like are
// errors. With [Spec.Shadow], it denies nothing.
//
// # Stores
//
// The end is the time of the Store plus the length. If the clock of a Redis steps back, a pause ends later, but its
// rest is never longer than its length. With package failover, a pause is written to the primary and to the backup of
// this process. The backups of other processes do not know it, so they admit its events in an outage. A pause that
// begins in an outage is known in this process only, and ends with the outage. Package denycache may answer from its
// memory for up to its MaxAge after another process has ended a pause early or made it longer. Package lease asks its
// Store for each decision of a limiter with a Pause.
func Pause(name string) Rule { return NewRule(Spec{Name: name, Algorithm: driver.Pause}) }

// maxPause is the length of the longest pause.
const maxPause = 366 * 24 * time.Hour

// Pause makes the [Pause] rule of l deny all events of key from now on, for d or until the end of a present pause,
// whichever is later: pauses do not add up. d is rounded up to microseconds. If d is zero, the pause ends, and
// nothing else changes: [Limiter.Reset] also forgets the events of the other rules.
//
// The error is an [ErrInvalidAsk] if d is negative or more than 366 days, or if l has no Pause. After an error of
// the Store, the key may be paused.
//
// The function of [Limiter.Choose] is not asked. A key whose limits it has chosen to be Unlimited can be paused, but
// is not denied.
func (l *Limiter) Pause(ctx context.Context, key string, d time.Duration) error {
	if d < 0 || d > maxPause {
		return invalidAsk(fmt.Sprintf("a pause of %v, outside 0 to 366 days", d))
	}
	rules := l.current.Load().rules
	i := slices.IndexFunc(rules, Rule.isPause)
	if i < 0 {
		return invalidAsk("the limiter has no Pause rule")
	}
	op := driver.Debit
	if d == 0 {
		op = driver.Reset
	}
	length := (d + time.Microsecond - 1).Truncate(time.Microsecond)
	_, err := adjust(ctx, op, Ask{Limiter: l, Key: key, MaxDelay: length}, rules[i:i+1])
	if d == 0 {
		l.waiters.Wake(key)
	}
	return err
}

func (r Rule) isPause() bool { return r.Algorithm() == driver.Pause }

// closed returns r, a Pause, as the State of a paused key has it.
func (r Rule) closed() Rule {
	known := r.d.divided.Load()
	if known == nil {
		known = &definition{spec: r.d.spec, plan: Plan{Limit: Blocked}, compiled: r.d.compiled}
		r.d.divided.Store(known)
	}
	return Rule{known}
}

// paused reports whether a pause denies d.
func (d *Decision) paused() bool {
	for _, s := range d.States() {
		if !s.Allowed && s.Rule.isPause() && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}
