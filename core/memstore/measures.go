package memstore

import "github.com/weir-go/weir/core/driver"

// Measures returns the figures of [Stats], for package observe.
func (s *Store) Measures() []driver.Measure {
	n := s.Stats()
	return []driver.Measure{
		{Name: "weir.memstore.states", Help: "States in memory, including expired ones.", Unit: "{state}", Value: float64(n.States)},
		{Name: "weir.memstore.memory", Help: "Memory that counts towards MaxMemory.", Unit: "By", Value: float64(n.Memory)},
		{Name: "weir.memstore.evicted", Help: "States that were in use and were evicted.", Unit: "{state}", Total: true, Value: float64(n.Evicted)},
		{Name: "weir.memstore.overflowed", Help: "Overflow buckets that came into use.", Unit: "{bucket}", Total: true, Value: float64(n.Overflowed)},
	}
}
