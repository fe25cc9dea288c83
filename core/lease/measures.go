package lease

import "github.com/weir-go/weir/core/driver"

// Describe returns the [driver.Description] of the Store behind, with that Store behind s.
func (s *Store) Describe() driver.Description {
	d := driver.Describe(s.next)
	d.Behind = map[string]driver.Store{"": s.next}
	return d
}

// Measures returns the figures of [Stats], for package observe.
func (s *Store) Measures() []driver.Measure {
	n := s.Stats()
	return []driver.Measure{
		{Name: "weir.lease.hits", Help: "Charges that were decided without a call of the store behind.", Unit: "{charge}", Total: true, Value: float64(n.Hits)},
		{Name: "weir.lease.calls", Help: "Calls of the store behind, for decisions and for blocks of tokens.", Unit: "{call}", Total: true, Value: float64(n.Calls)},
		{Name: "weir.lease.leased", Help: "Tokens taken in blocks.", Unit: "{token}", Total: true, Value: float64(n.Leased)},
		{Name: "weir.lease.held", Help: "Tokens held now.", Unit: "{token}", Value: float64(n.Held)},
		{Name: "weir.lease.keys", Help: "Keys in memory now, counted for each rule and plan.", Unit: "{entry}", Value: float64(n.Keys)},
	}
}
