package observe

import (
	"sync/atomic"
	"time"
)

const (
	unreads = 32                    // calls of clock.now that do not read the clock of the system
	often   = 10 * time.Millisecond // the longest time between two readings of a clock that is read often
	after   = 64                    // such readings in a row, from which on not each call reads it
)

// A clock tells the time since the store was made. To read the clock of the system takes 20 to 30 ns, so
// that a clock that has been read often does so only for one in 33 calls. After the next pause, the
// results of up to 32 calls may therefore be those of before the pause.
type clock struct {
	start  time.Time
	latest atomic.Int64
	quick  atomic.Int64 // readings in a row with little time between them
	unread atomic.Int64 // calls that return latest
}

func (c *clock) init() {
	c.start = time.Now()
	c.latest.Store(-int64(often))
}

func (c *clock) now() time.Duration {
	if c.unread.Add(-1) >= 0 {
		return time.Duration(c.latest.Load())
	}
	return c.read()
}

// read reads the clock of the system.
func (c *clock) read() time.Duration {
	now := time.Since(c.start)
	if before := c.latest.Swap(int64(now)); now-time.Duration(before) >= often {
		c.quick.Store(0)
	} else if c.quick.Add(1) > after {
		c.unread.Store(unreads)
	}
	return now
}
