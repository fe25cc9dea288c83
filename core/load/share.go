package load

// A usage is how much of a resource was used and how much of it there was, both
// since the same moment and in the same unit.
type usage struct{ used, whole float64 }

// A meter compares a usage with the one before. The zero meter knows of none.
type meter struct {
	last  usage
	known bool
}

// free is the share that was not used since the last call. It is 0 on the first
// one and whenever the two usages tell nothing: when there was nothing to use in
// between, or when a counter went back, as after a migration of the machine.
func (m *meter) free(now usage) float64 {
	last, known := m.last, m.known
	m.last, m.known = now, true
	used, whole := now.used-last.used, now.whole-last.whole
	if !known || used < 0 || whole <= 0 {
		return 0
	}
	return clamp(1 - used/whole)
}

// clamp is the nearest share to x; not a number is 0.
func clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}
