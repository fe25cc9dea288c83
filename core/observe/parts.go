package observe

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A Measurer is a part of a store that reports figures about itself. Stores of one kind must report
// the same Names in the same order. To a part with a method LogTo(*slog.Logger), this package also gives
// its log, for changes of the state of the part.
type Measurer interface {
	Measures() []driver.Measure
}

// parts are the parts of a store that report measures.
type parts struct {
	mu  sync.Mutex
	all []part
}

type part struct {
	role string
	Measurer
}

// add adds p, if it reports measures, and makes it log to log, unless that is nil.
func (s *parts) add(role string, p any, log *slog.Logger) {
	if l, ok := p.(interface{ LogTo(*slog.Logger) }); ok && log != nil {
		l.LogTo(log)
	}
	if m, ok := p.(Measurer); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, part{role, m})
	}
}

// A Measure is a figure of the store or of a part of it.
type Measure struct {
	Role string // "primary" or "backup", of a store below package failover; otherwise empty
	driver.Measure
}

// measures returns the figures of all parts. Those of several parts of one role with the same name are
// added.
func (s *parts) measures() (all []Measure) {
	s.mu.Lock()
	parts := slices.Clone(s.all)
	s.mu.Unlock()
	for _, p := range parts {
		for _, m := range p.Measures() {
			i := slices.IndexFunc(all, func(o Measure) bool { return o.Role == p.role && o.Name == m.Name })
			if i >= 0 {
				all[i].Value += m.Value
				continue
			}
			all = append(all, Measure{p.role, m})
		}
	}
	return all
}
