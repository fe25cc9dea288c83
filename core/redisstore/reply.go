package redisstore

import (
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// errReply is a reply that no script of this package gives.
var errReply = errors.New("the reply does not have the shape of a decision")

// read sets the readings of g from a reply. Anything but the shape that was asked for, with
// values that the rules can have, is an error: a reply must never open a limit by being
// misunderstood.
func (s *Store) read(g *group, reply any) error {
	g.readings = make([]driver.Reading, 0, len(g.charges))
	switch reply := reply.(type) {
	case int64:
		return g.readBrief(reply)
	case []any:
		corrupt, err := g.readReply(reply)
		s.corrupt.Add(uint64(corrupt))
		return err
	}
	return errReply
}

// readBrief reads a reply of one integer: see take.lua.
func (g *group) readBrief(n int64) error {
	if len(g.charges) != 1 || g.timed || algorithmOf(g.charges[0].Rule.Algorithm()).source["brief"] == "" {
		return errReply
	}
	g.admitted = n >= 0
	if !g.admitted {
		n = -1 - n
	}
	return g.readCharge(0, [maxReadings]int64{n})
}

// readReply reads a reply of several integers, and returns how many states were corrupt.
func (g *group) readReply(reply []any) (corrupt int64, err error) {
	want := 2
	for i := range g.charges {
		want += algorithmOf(g.charges[i].Rule.Algorithm()).readings
	}
	if g.timed {
		want++
	}
	if len(reply) != want {
		return 0, errReply
	}
	for _, r := range reply {
		if n, ok := r.(int64); !ok || n < 0 || n > maxInteger {
			return 0, errReply
		}
	}
	next := func() int64 {
		n := reply[0].(int64)
		reply = reply[1:]
		return n
	}
	outcome, corrupt := next(), next()
	if outcome != 1 && outcome != 2 || corrupt > int64(len(g.charges)) {
		return 0, errReply
	}
	g.admitted = outcome == 1
	for i := range g.charges {
		var reported [maxReadings]int64
		for j := range algorithmOf(g.charges[i].Rule.Algorithm()).readings {
			reported[j] = next()
		}
		if err := g.readCharge(i, reported); err != nil {
			return 0, err
		}
	}
	if g.timed {
		g.time = next()
	}
	return corrupt, nil
}

// readCharge appends the reading of the i-th charge, as reported.
func (g *group) readCharge(i int, reported [maxReadings]int64) error {
	rule := g.charges[i].Rule
	r, ok := algorithmOf(rule.Algorithm()).read(rule.Constants(), reported)
	if !ok {
		return errReply
	}
	g.readings = append(g.readings, r)
	return nil
}
