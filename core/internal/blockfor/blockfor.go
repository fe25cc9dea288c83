// Package blockfor has the facts about bans (core.Spec.BlockFor) that several packages need.
package blockfor

import "github.com/weir-go/weir/core/driver"

// Suffix follows the name of a rule in the name of the pause that bans its keys.
const Suffix = ".ban"

// Begins reports whether the Verdict of c is a denial that may begin a ban. One that no unused key would escape does not, and
// neither does that of a leaky bucket which has room for the event, but not within MaxDelay.
func Begins(c *driver.Charge) bool {
	v, k := &c.Verdict, &c.Rule.Constants
	never := v.RetryAfter == driver.Never || int64(c.Cost) > k.Capacity-k.Rollover
	return !v.Allowed && !never && (c.MaxDelay == 0 || v.Remaining < c.Cost)
}
