package failover

import (
	"sync"

	"github.com/weir-go/weir/core"
)

// mostShares bounds the divided rules that are remembered, for programs that make
// rules without end.
const mostShares = 4096

// A definition is what a rule's share is worked out from.
type definition struct {
	name       string
	algorithm  core.Algorithm
	limit      core.Limit
	subWindows int
	soft       float64
	shadow     bool
}

// shares remembers the n-th part of every rule. They come from the program, not
// from its clients.
type shares struct {
	n     int
	mu    sync.RWMutex
	known map[definition]*core.Rule
}

func newShares(n int) *shares {
	return &shares{n: n, known: make(map[definition]*core.Rule)}
}

// of is the share of r, a rule that can be run.
func (s *shares) of(r *core.Rule) *core.Rule {
	d := definition{r.Name(), r.Algorithm(), r.Limit(), r.SubWindowCount(), r.SoftPercent(), r.IsShadow()}
	s.mu.RLock()
	share := s.known[d]
	s.mu.RUnlock()
	if share != nil {
		return share
	}
	divided := r.Divide(s.n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if share := s.known[d]; share != nil {
		return share
	}
	if len(s.known) >= mostShares {
		for any := range s.known {
			delete(s.known, any)
			break
		}
	}
	s.known[d] = &divided
	return &divided
}
