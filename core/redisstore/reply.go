package redisstore

import (
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// errReply is a reply that no script of this package gives.
var errReply = errors.New("the reply does not have the shape of a decision")

// decode sets the outcome of c from the reply of its script: see take.lua, adjust.lua and
// take_bucket.lua. Anything but a reply to c, with values that the rules can have, is an
// error: a reply must never open a limit because it is misunderstood.
func (c *call) decode(reply any) error {
	c.readings = make([]driver.Reading, 0, len(c.charges))
	switch reply := reply.(type) {
	case int64:
		return c.decodeShort(reply)
	case []any:
		return c.decodeIntegers(reply)
	}
	return errReply
}

// decodeShort reads the reply of take_bucket.lua that is one integer.
func (c *call) decodeShort(n int64) error {
	if !c.short() {
		return errReply
	}
	c.admitted = n >= 0
	if !c.admitted {
		n = -1 - n
	}
	return c.decodeReading(0, [maxReadings]int64{n})
}

// decodeIntegers reads a reply of several integers.
func (c *call) decodeIntegers(reply []any) error {
	next := func() int64 {
		if len(reply) == 0 {
			return -1
		}
		n, ok := reply[0].(int64)
		if reply = reply[1:]; !ok || n < 0 || n > maxInteger {
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
	if len(reply) > 0 {
		return errReply
	}
	return nil
}

// decodeReading appends the reading of the i-th charge, as reported.
func (c *call) decodeReading(i int, reported [maxReadings]int64) error {
	rule := c.charges[i].Rule
	r, ok := algorithmOf(rule.Algorithm()).read(rule.Constants(), reported)
	if !ok {
		return errReply
	}
	c.readings = append(c.readings, r)
	return nil
}
