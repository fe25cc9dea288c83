package lease

import "github.com/weir-go/weir/core/driver"

// A grant is the result of an attempt to take tokens from a lease for a charge. Tokens of a
// decision that another charge denies are returned to the lease.
type grant struct {
	outcome outcome
	entry   *entry // nil if no lease is possible
	block   block  // the tokens that were taken, if outcome is granted
	changes uint64 // of the entry at the attempt
}

// An outcome is the result of an attempt to take tokens from a lease.
type outcome uint8

const (
	passThrough outcome = iota // the Store behind has to decide
	granted
	denied
)

// returnTokens returns the tokens of grants, of a decision that was denied or has failed, to
// their leases, and makes the Verdicts of their charges those of charges that took nothing.
func returnTokens(clock func() int64, charges []driver.Charge, grants []grant) {
	for i := range grants {
		if grants[i].outcome == granted {
			grants[i].returnTokens(clock(), &charges[i])
		}
	}
}

// returnTokens drops tokens that have expired and those of another side of a failover Store.
func (g *grant) returnTokens(now int64, c *driver.Charge) {
	e := g.entry
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	e.newUse -= g.block.tokens(&e.u)
	if g.block.origin == e.origin {
		g.block.expire(&e.u, now)
		e.blocks[0].expire(&e.u, now)
		e.blocks[0].join(&e.u, g.block)
	}
	r := e.reading(now, e.held(now), 0)
	c.Answer(&r, false)
}
