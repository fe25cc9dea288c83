package redisstore

import (
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// errReply is the error of a reply with a wrong format or impossible values.
var errReply = errors.New("the reply does not have the shape of a decision")

// decode sets the outcome of c from the reply of its script. The headers of take.lua, adjust.lua
// and take_bucket.lua describe the reply. A reply that does not match the charges of c, or contains
// values that are impossible for their rules, is an error, so that it cannot admit an event.
func (c *call) decode(reply any) error {
	c.readings = make([]driver.Reading, 0, len(c.charges))
	if n, ok := reply.(int64); ok && c.short() {
		c.admitted = n >= 0
		if !c.admitted {
			n = -1 - n
		}
		return c.decodeReading(0, [maxReadings]int64{n})
	}
	rest, _ := reply.([]any)
	next := func() int64 { // -1 if there is no valid integer
		if len(rest) == 0 {
			return -1
		}
		n, ok := rest[0].(int64)
		if rest = rest[1:]; !ok || n < 0 || n > maxInteger {
			return -1
		}
		return n
	}
	var outcome int64
	c.time, outcome = next(), next()
	if c.time < 0 || outcome < 0 || outcome > 1+int64(len(c.charges)) {
		return errReply
	}
	c.admitted = outcome > 0
	c.corrupt = max(0, outcome-1)
	for i := range c.charges {
		var reported [maxReadings]int64
		for j := range algorithmOf(c.charges[i].Rule.Algorithm()).readings {
			if reported[j] = next(); reported[j] < 0 {
				return errReply
			}
		}
		if err := c.decodeReading(i, reported); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}

// decodeReading appends the reading of the i-th charge, from the integers that were reported.
func (c *call) decodeReading(i int, reported [maxReadings]int64) error {
	rule := c.charges[i].Rule
	r, ok := algorithmOf(rule.Algorithm()).read(rule.Constants(), reported)
	if !ok {
		return errReply
	}
	c.readings = append(c.readings, r)
	return nil
}
