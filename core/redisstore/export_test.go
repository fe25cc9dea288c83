package redisstore

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// Clock makes scripts read Unix microseconds from clock, as decimal text.
func Clock(clock func() string) Option { return option(func(c *config) { c.clock = clock }) }

// Key is where the state of a rule of an identity is kept.
func (s *Store) Key(identity string, r core.Rule) string {
	return s.keys.key(s.keys.tag(identity), r.Compiled())
}

// Script is the source that spends under the given rules.
func Script(rules ...core.Rule) string {
	var shape []byte
	for _, r := range rules {
		shape = append(shape, byte(r.Compiled().Algorithm()), byte(driver.Spend))
	}
	return compose(string(shape)).source
}
