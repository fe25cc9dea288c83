package failover

import (
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// maxDivided bounds the divided rules that are kept, for programs that make rules without
// end.
const maxDivided = 4096

// A divider keeps the n-th part of every rule. Rules come from the program, not from its
// clients.
type divider struct {
	n     int
	mu    sync.RWMutex
	parts map[*driver.Compiled]*driver.Compiled
}

func newDivider(n int) *divider {
	return &divider{n: n, parts: make(map[*driver.Compiled]*driver.Compiled)}
}

// divide returns the n-th part of r, the same for the same r.
func (d *divider) divide(r *driver.Compiled) *driver.Compiled {
	d.mu.RLock()
	part := d.parts[r]
	d.mu.RUnlock()
	if part != nil {
		return part
	}
	part = r.Divide(d.n)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.parts) >= maxDivided {
		clear(d.parts)
	}
	d.parts[r] = part
	return part
}
