package lease

import "github.com/weir-go/weir/core/driver"

// A grant is the result of an attempt to take tokens from a lease for a charge.
type grant struct {
	outcome outcome
	account *account // nil if no lease is possible
	bundle  bundle   // the tokens that were taken, if outcome is granted
}

// An outcome is the result of an attempt to take tokens from a lease.
type outcome uint8

const (
	passThrough outcome = iota // the Store behind must decide
	granted
	denied
)

// returnTokens returns tokens to their leases after a decision was denied or has failed. It sets
// the Verdicts of their charges as if no tokens had been taken.
func returnTokens(clock func() int64, charges []driver.Charge, grants []grant) {
	for i := range grants {
		if grants[i].outcome == granted {
			grants[i].returnTokens(clock(), &charges[i])
		}
	}
}

// returnTokens returns the tokens of g, except tokens that have expired and tokens that the other
// side of a failover Store leased.
func (g *grant) returnTokens(now int64, c *driver.Charge) {
	a := g.account
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	now = a.shard.forward(now)
	a.newUse -= g.bundle.tokens(&a.u)
	if g.bundle.origin == a.origin {
		g.bundle.expire(&a.u, now)
		a.bundles[0].expire(&a.u, now)
		a.bundles[0].join(&a.u, g.bundle)
	}
	r := a.reply.reading(&a.u, now, a.held(now), 0)
	c.Answer(&r, false)
}
