package lease

import "github.com/weir-go/weir/core/driver"

// A grant is the result of an attempt to take tokens from a lease for a charge.
type grant struct {
	outcome outcome
	entry   *entry // nil if no lease is possible
	block   block  // the tokens that were taken, if outcome is granted
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
	e := g.entry
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	now = e.shard.forward(now)
	e.newUse -= g.block.tokens(&e.u)
	if g.block.origin == e.origin {
		g.block.expire(&e.u, now)
		e.blocks[0].expire(&e.u, now)
		e.blocks[0].join(&e.u, g.block)
	}
	r := e.reply.reading(&e.u, now, e.held(now), 0)
	c.Answer(&r, false)
}
