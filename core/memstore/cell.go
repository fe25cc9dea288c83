package memstore

import (
	"math/bits"

	"github.com/weir-go/weir/core/driver"
)

// A cell is the state of a bucket that is not in debt, in two words: when it will be full,
// the fraction of that (48 bits), and how much of it may be in use before one more
// token is refused (16 bits). The last tells a spent bucket from one that is
// hardly used without its rule, which eviction does not have.
type cell struct {
	full int64
	rest uint64
}

const fracBits = 48

func (c *cell) state() driver.State {
	return driver.StateOf(c.full, int64(c.rest&(1<<fracBits-1)), 0)
}

// set stores the words of a State.
func (c *cell) set(full, frac int64, tolerance uint16) {
	c.full = full
	c.rest = uint64(tolerance)<<fracBits | uint64(frac)
}

// idle says whether the bucket is full, which is the same as not being there.
func (c *cell) idle(now int64) bool { return c.full <= now && c.rest<<16 == 0 || c.full < now }

// cellWeight is the size of a slot[cell].
const cellWeight = 24

func (*cell) weight() int { return cellWeight }

func (c *cell) pressure(now int64) uint64 {
	if c.idle(now) {
		return 0
	}
	return pressure(uint64(max(0, c.full-now)), unpackSpan(uint16(c.rest>>fracBits)))
}

// tolerance is the packed span that may be in use for one more token to fit.
func tolerance(r *driver.Compiled) uint16 {
	return packSpan(uint64(max(1, r.Slack())))
}

// packSpan keeps the ten highest bits of us and their exponent, rounding down.
func packSpan(us uint64) uint16 {
	exponent := max(0, bits.Len64(us)-10)
	return uint16(exponent)<<10 | uint16(us>>exponent)
}

func unpackSpan(p uint16) uint64 { return uint64(p&1023) << (p >> 10) }
