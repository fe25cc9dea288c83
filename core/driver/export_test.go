package driver

// Horizon is the longest span of a limit in microseconds.
const Horizon = horizon

// Price returns the time in which a bucket refills n events.
func (c *Compiled) Price(n int64) Span { return c.engine.(*bucket).price(n) }
