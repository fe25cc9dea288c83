package redisstore

import "github.com/weir-go/weir/core"

// Clock makes scripts read Unix microseconds from clock, as decimal text.
func Clock(clock func() string) Option { return func(c *config) { c.clock = clock } }

// Key is where the state of a rule of an identity is kept.
func (s *Store) Key(identity string, r *core.Rule) string {
	return s.keys.key(s.keys.tag(identity), r)
}

// Script is the source that decides charges of the given rules.
func Script(rules ...*core.Rule) string {
	var charges []*core.Charge
	for _, r := range rules {
		charges = append(charges, &core.Charge{Rule: r})
	}
	return new(scripts).forCharges(charges).source
}
