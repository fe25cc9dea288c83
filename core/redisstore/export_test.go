package redisstore

import "github.com/weir-go/weir/core"

// Clock makes scripts read Unix microseconds from clock, as decimal text.
func Clock(clock func() string) Option { return option(func(c *config) { c.clock = clock }) }

// Key is where the state of a rule of an identity is kept.
func (s *Store) Key(identity string, r core.Rule) string {
	return s.router.keys.key(s.router.keys.tag(identity), r.Compiled())
}
