package overrides

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
)

// An Override is the override or the block of a key. The zero value is none.
type Override struct {
	*Content
	Until time.Time // the zero Time means for ever
}

// A Content is an override without its end. Keys with equal overrides share one, and a Set remembers their limits by
// its address.
type Content struct {
	Blocked bool
	Plan    string
	Limits  map[string]core.Limit // by the name of the rule
}

// ID returns a text that equal Contents have.
func (c *Content) ID() string { return fmt.Sprintf("%t %q %q", c.Blocked, c.Plan, c.Limits) }

// InForce reports whether the override applies now.
func (o Override) InForce() bool {
	return o.Content != nil && (o.Until.IsZero() || time.Now().Before(o.Until))
}

// A stored is the part of the overrides of a key that is in Redis.
type stored struct{ override, block Override }

// current returns the override that applies now, or the zero Override if neither does.
func (s *stored) current() Override {
	switch {
	case s.block.InForce():
		return s.block
	case s.override.InForce():
		return s.override
	}
	return Override{}
}
