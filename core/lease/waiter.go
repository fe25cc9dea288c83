package lease

import (
	"context"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A waiter represents a caller that waits for a fetch. The lock of the shard guards the waiter.
type waiter struct {
	cost     int64
	attempts int           // the number of fetches for the waiter
	gone     bool          // the context of the caller has ended
	done     chan struct{} // closed when the waiter is settled: grant, verdict and err are set

	grant   grant
	verdict driver.Verdict // unset if the grant is passed through
	err     error
}

func (w *waiter) settle(g grant, v driver.Verdict, err error) {
	w.grant, w.verdict, w.err = g, v, err
	close(w.done)
}

// await waits until w, which is about c, is settled or ctx ends, and sets g. mu is the lock of the
// shard.
func (w *waiter) await(ctx context.Context, mu *sync.Mutex, c *driver.Charge, g *grant) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-w.done:
		default:
			w.gone = true
			return ctx.Err()
		}
	}
	if w.err == nil && w.grant.outcome != passThrough {
		c.Verdict = w.verdict
		c.Verdict.Rule = c.Rule // w.verdict contains the Rule of the account, which may differ
	}
	*g = w.grant
	return w.err
}
