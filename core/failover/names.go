package failover

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// names are those of the rules that have been declared. The zero names are none.
type names struct {
	mu     sync.Mutex
	known  map[string]bool
	warned sync.Once
}

func (n *names) declare(rules []*driver.Compiled) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = make(map[string]bool)
	}
	for _, r := range rules {
		n.known[r.Name()] = true
	}
}

// warn logs the error of check, once.
func (n *names) warn(check func() error) {
	n.warned.Do(func() {
		if err := check(); err != nil {
			slog.Default().Warn("weir: FailClosedFor or FailOpenFor name rules that do not exist", slog.String("error", err.Error()))
		}
	})
}

// Check returns a core.ErrInvalidRule if [FailClosedFor] or [FailOpenFor] name a rule that
// no limiter on the Store has: with a misspelt name, the intended rule is decided by the
// ordinary backup.
// Call it when all limiters are made. Otherwise the first decision of the backup logs it.
func (s *Store) Check() error {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	var unknown []string
	for name := range s.config.answers {
		if !s.names.known[name] {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if unknown == nil {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("%w: failover: FailClosedFor or FailOpenFor name %s, which no limiter on the store has",
		driver.ErrInvalidRule, strings.Join(unknown, ", "))
}
