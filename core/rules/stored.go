package rules

import "time"

// A stored is the part of the overrides of a key that is in a source.
type stored struct{ override, block override }

// An override is the Override of a key. The zero value is none.
type override struct {
	*selections
	until time.Time
}

// inForce reports whether the override applies now.
func (o override) inForce() bool {
	return o.selections != nil && (o.until.IsZero() || time.Now().Before(o.until))
}

// current returns the override that applies now, or the zero override if neither does.
func (s *stored) current() override {
	switch {
	case s.block.inForce():
		return s.block
	case s.override.inForce():
		return s.override
	}
	return override{}
}

// public returns o for applications.
func (o override) public() (p Override) {
	if o.selections != nil {
		p = o.enforced.Override.clone()
		p.Until = o.until
	}
	return p
}
