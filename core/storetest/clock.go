package storetest

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Clock stands still until Advance moves it. The zero Clock reads 2026-01-01 00:00 UTC. A Clock
// is safe for concurrent use, and must not be copied.
type Clock struct{ moved atomic.Int64 }

var clockStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// Micros returns the time in microseconds since the Unix epoch.
func (c *Clock) Micros() int64 { return clockStart + c.moved.Load() }

// Now returns the time.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.Micros()) }

// Advance moves the clock by d, rounded toward zero to microseconds. A negative d moves it back.
func (c *Clock) Advance(d time.Duration) { c.moved.Add(d.Microseconds()) }

// Harness returns a Harness of s, a Store that reads the time from c.
func (c *Clock) Harness(s driver.Store) *Harness {
	return &Harness{Store: s, Now: c.Now, Advance: c.Advance}
}
