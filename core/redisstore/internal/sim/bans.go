package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
)

const (
	banTime = 8 * time.Second
	banName = ".ban" // ends the name of the pause
	// A lease takes a ban that has not begun as open for a second.
	banNoticed = time.Second + 3*timeout
	modestTime = 300 * time.Millisecond // between the events of the modest key: less than the rate, and more than a third of it
	banCost    = 10
)

func banRule() core.Rule {
	return core.TokenBucket("banned", core.Limit{Events: 400, Per: 10 * time.Second}).BlockFor(banTime)
}

func isBan(key string) bool { return strings.HasSuffix(key, banName) }

// bans knows the present ban of the greedy key in Redis.
type bans struct {
	mu          sync.Mutex
	known       time.Time // when a process was told about it first
	least, most time.Time // its end is between these times
}

// useModestly makes events of a key, all from one process, that are within its limit, and above the part of a process.
func (c *client) useModestly() {
	for c.sleep(modestTime) {
		begun := time.Now()
		d, err := c.process.banned.AllowN(context.Background(), "modest", banCost)
		c.called("AllowN", "modest", begun, 2*timeout, err)
		if err == nil && d.State(0).Ban > 0 {
			c.violate(banInnocent, "%v: a key below its limit is banned: %v", c.process, d)
		}
	}
}

// useGreedily makes events of a key far above its limit.
func (c *client) useGreedily() {
	for c.rest(c.scenario.idle) {
		begun := time.Now()
		d, err := c.process.banned.AllowN(context.Background(), "greedy", banCost)
		c.called("AllowN", "greedy", begun, 4*timeout, err) // the denial that begins a ban takes two calls
		if err == nil {
			c.bans.decided(c, begun, d)
		}
	}
}

// decided checks a decision about the greedy key that was made since a time.
func (b *bans) decided(c *client, begun time.Time, d core.Decision) {
	now, left := time.Now(), d.State(0).Ban
	onlyRedis := c.onlyRedis("greedy", begun.Add(-c.cached())) && c.lossesWithin(pauseUnclear) == 0
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case left > banTime:
		c.violate(banEnds, "%v: the ban lasts %v, want %v at most", c.process, left, banTime)
	case !onlyRedis:
	case d.Allowed && begun.After(b.known.Add(banNoticed)) && now.Before(b.least):
		c.violate(banHolds, "%v: an event was admitted %v before the end of a ban", c.process, b.least.Sub(now))
	case left == 0:
	case now.Before(b.least) && begun.Add(left).After(b.most.Add(2*timeout)):
		c.violate(banEnds, "%v: a ban ends %v later than before", c.process, begun.Add(left).Sub(b.most))
	case !now.Before(b.least):
		b.known, b.least, b.most = now, begun.Add(left-2*timeout), now.Add(left)
	}
}
