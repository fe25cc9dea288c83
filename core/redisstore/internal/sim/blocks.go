package sim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// blocks knows which users an operator has blocked.
type blocks struct {
	mu    sync.Mutex
	users map[string]blockState
}

// A blockState is that of a user: until it is known, a change is under way.
type blockState struct {
	blocked, known bool
	since          time.Time
}

func newBlocks() *blocks { return &blocks{users: map[string]blockState{}} }

const blockedUsers = 4

// watch gives p rules with overrides in Redis.
func (s *simulation) watch(t *testing.T, p *process, store driver.Store) {
	config, err := rules.Parse("limits.yaml", []byte("policies: {api: {rules: [{name: minute, algorithm: token_bucket, limit: 100000/m}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	source := rules.Redis(p.rdb, "test")
	if p.set, err = rules.New(store, config, rules.Overrides(source)); err != nil {
		t.Fatal(err)
	}
	l, err := p.set.Limiter("api")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range l.Rules() {
		s.rules.add(testkit.Compiled(r))
	}
	ctx, stop := context.WithCancel(context.Background())
	s.watching = append(s.watching, stop)
	go func() { _ = p.set.Watch(ctx, source) }()
}

func (s *simulation) stopWatching() {
	for _, stop := range s.watching {
		stop()
	}
	s.watching = nil
}

// block blocks users and frees them.
func (c *client) block() {
	b := c.blocks
	for c.rest(3 * time.Second) {
		user := fmt.Sprint("user", c.random.IntN(blockedUsers))
		b.mu.Lock()
		state := b.users[user]
		b.users[user] = blockState{blocked: state.blocked}
		b.mu.Unlock()
		for {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			var err error
			if state.blocked {
				err = c.process.set.Unblock(ctx, "api", user)
			} else {
				err = c.process.set.Block(ctx, "api", user, time.Time{})
			}
			cancel()
			c.logf("%v blocks %s %v: %v", c.process, user, !state.blocked, err)
			if err == nil {
				break
			}
			if !c.rest(500 * time.Millisecond) {
				return
			}
		}
		b.mu.Lock()
		b.users[user] = blockState{!state.blocked, true, time.Now()}
		b.mu.Unlock()
	}
}

// enforced is the time within which each process enforces a block.
const enforced = 2 * time.Second

// useBlockedKey makes events of the users.
func (c *client) useBlockedKey() {
	l, err := c.process.set.Limiter("api")
	if err != nil {
		panic(err)
	}
	b := c.blocks
	for c.rest(c.scenario.idle) {
		user := fmt.Sprint("user", c.random.IntN(blockedUsers))
		b.mu.Lock()
		before := b.users[user]
		b.mu.Unlock()
		begun := time.Now()
		d, err := l.Allow(context.Background(), user)
		c.called("Allow", user, begun, 2*timeout, err)
		if err != nil || !before.known || begun.Sub(before.since) < enforced+50*time.Millisecond || !c.healthyFor(c.process, user, healed) {
			continue
		}
		if d.Blocked() != before.blocked {
			c.violate(blocked, "%v: an event of %s is blocked: %v, %v after that became %v", c.process, user, d.Blocked(), begun.Sub(before.since), before.blocked)
		}
	}
}
