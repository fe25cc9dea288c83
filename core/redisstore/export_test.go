package redisstore

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
)

// Clock makes scripts take the time from clock, which returns Unix microseconds as decimal text.
func Clock(clock func() string) Option { return option(func(c *config) { c.clock = clock }) }

// Key returns the key for the state of a rule of an identity.
func (s *Store) Key(identity string, r core.Rule) string {
	return s.router.keys.key(s.router.keys.tag(identity), testkit.Compiled(r))
}
