package redisstore

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// opArgument returns the op of c as scripts know it.
func opArgument(c *driver.Charge) any {
	switch c.Op {
	case driver.Spend:
		if c.Rule.Shadow() {
			return "shadow_spend"
		}
		return "spend"
	case driver.Peek:
		if c.Rule.Shadow() {
			return "shadow_peek"
		}
		return "peek"
	case driver.Reset:
		return "reset"
	case driver.Debit:
		return "debit"
	case driver.Credit:
		return "credit"
	case driver.Undo:
		return "undo"
	}
	panic(fmt.Sprintf("redisstore: no op has the number %d", c.Op))
}

// costArgument is the cost that a script is sent, within the range that a double counts
// exactly. A Spend or Peek of any cost above the capacity is denied alike.
func costArgument(c *driver.Charge) int64 {
	switch {
	case c.Op.Asks():
		return min(int64(c.Cost), c.Rule.Capacity()+1)
	case c.Op == driver.Reset:
		return 1
	}
	return min(int64(c.Cost), maxCount+1) // more than any rule can count
}

// appendReceipt appends the arguments of m, the receipt of an undo, to args. A fraction that
// was written under another rate, and is not below denominator, is left out: then less is in
// use before the charge, and less is freed. The zero Receipt becomes that of a charge so long
// ago that nothing of it counts.
func appendReceipt(args []any, m driver.Receipt, denominator int64) []any {
	if m.At == 0 {
		m.At = -maxInteger
	}
	if m.Used.Frac >= denominator {
		m.Used.Frac = 0
	}
	return append(args, integer(m.At), integer(m.Used.Micros), integer(m.Used.Frac), integer(min(m.Age, maxInteger)))
}

// An argumentCache keeps the arguments of charges with cost 1 and without MaxDelay, which
// nearly all charges are. Clients may choose other costs, and would fill the cache. A lookup
// takes no lock and allocates nothing. The zero argumentCache is empty.
type argumentCache struct {
	mu    sync.Mutex
	known atomic.Pointer[map[driver.Constants][]any]
}

// maxCached bounds the cache of a program that makes rules without end.
const maxCached = 4096

// of returns the arguments of c, which the caller must not change.
func (a *argumentCache) of(c *driver.Charge) []any {
	cost, maxDelay := costArgument(c), c.Patience()
	if cost != 1 || maxDelay != driver.Never {
		return algorithmOf(c.Rule.Algorithm()).arguments(c.Rule, cost, maxDelay)
	}
	k := c.Rule.Constants()
	if known := a.known.Load(); known != nil {
		if args, ok := (*known)[k]; ok {
			return args
		}
	}
	args := algorithmOf(k.Algorithm).arguments(c.Rule, cost, maxDelay)
	a.mu.Lock()
	defer a.mu.Unlock()
	next := make(map[driver.Constants][]any)
	if known := a.known.Load(); known != nil && len(*known) < maxCached {
		maps.Copy(next, *known)
	}
	next[k] = args
	a.known.Store(&next)
	return args
}
