package redisstore

import (
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// errReply is the error of a reply with a wrong format or impossible values.
var errReply = errors.New("the reply does not have the shape of a decision")

// decode sets the outcome of c from the time of the server and the part of the reply that belongs
// to c. The headers of decisions.lua, take.lua and adjust.lua describe the reply. A reply that does not match the
// charges of c, or contains values that are impossible for their rules, is an error, so that it
// cannot admit an event.
func (c *call) decode(time any, reply []any) error {
	c.time = validInteger(time)
	if c.time <= 0 {
		return errReply
	}
	next := func() int64 {
		if len(reply) == 0 {
			return -1
		}
		n := validInteger(reply[0])
		reply = reply[1:]
		return n
	}
	outcome := next()
	if c.admitted = outcome == 1; outcome < 0 || outcome > 1 {
		return errReply
	}
	c.readings, c.found = c.readings[:0], c.found[:0]
	for i := range c.charges {
		rule := c.charges[i].Rule
		a := algorithmOf(&rule.Definition)
		var reported [maxReadings]int64
		for j := range a.reported(&rule.Constants) {
			if reported[j] = next(); reported[j] < 0 {
				return errReply
			}
		}
		r, ok := a.read(rule.Constants, reported)
		if !ok {
			return errReply
		}
		if c.charges[i].Op == driver.Spend && rule.Kind.Holds {
			r.Number += c.number - c.time
		}
		c.readings, c.found = append(c.readings, r), append(c.found, foundPlaces(rule, reported))
	}
	if len(reply) > 0 {
		return errReply
	}
	return nil
}

// validInteger returns v if it is an integer that scripts report, otherwise -1.
func validInteger(v any) int64 {
	n, ok := v.(int64)
	if !ok || n < 0 || n > maxInteger {
		return -1
	}
	return n
}
