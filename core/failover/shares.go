package failover

import (
	"sync"

	"github.com/weir-go/weir/core"
)

// mostShares bounds the divided rules that are remembered, for programs that make
// rules without end.
const mostShares = 4096

// shares remembers the n-th part of every rule. They come from the program, not
// from its clients.
type shares struct {
	n     int
	mu    sync.RWMutex
	known map[core.Rule]core.Rule
}

func newShares(n int) *shares {
	return &shares{n: n, known: make(map[core.Rule]core.Rule)}
}

// of is the share of r, a rule that can be run.
func (s *shares) of(r core.Rule) core.Rule {
	s.mu.RLock()
	share, ok := s.known[r]
	s.mu.RUnlock()
	if ok {
		return share
	}
	divided := r.Divide(s.n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if share, ok = s.known[r]; ok {
		return share
	}
	if len(s.known) >= mostShares {
		clear(s.known)
	}
	s.known[r] = divided
	return divided
}
