package denycache

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
		{Name: "weir.denycache.hits", Help: "Decisions that a cached denial denied.", Unit: "{decision}", Total: true, Value: float64(n.Hits)},
		{Name: "weir.denycache.misses", Help: "Decisions that called the store behind the cache.", Unit: "{decision}", Total: true, Value: float64(n.Misses)},
		{Name: "weir.denycache.keys", Help: "Entries of the cache of denials.", Unit: "{entry}", Value: float64(n.Keys)},
	}
}
