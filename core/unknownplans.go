package core

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// unknownPlans holds the unknown plans of which a warning was logged. The zero value is empty.
type unknownPlans struct {
	mu    sync.RWMutex
	names map[string]bool
}

// maxUnknownPlans bounds the warnings of a Limiter, because clients may cause them.
const maxUnknownPlans = 16

// warn logs, once for each name, that no rule of s has the plan. The log is that of o, which may be nil.
func (u *unknownPlans) warn(plan string, s *ruleSet, o driver.Observer) {
	plan = plan[:min(len(plan), 64)] // names of plans are no longer
	u.mu.RLock()
	known := u.names[plan] || len(u.names) == maxUnknownPlans
	u.mu.RUnlock()
	if known || !u.add(plan) {
		return
	}
	names := make([]string, len(s.rules))
	for i, r := range s.rules {
		names[i] = r.Name()
	}
	log := slog.Default()
	if o != nil {
		log = o.Logger()
	}
	log.Warn("weir: unknown plan; its callers have the limits without a plan", "plan", plan, "rules", names)
}

// add adds plan, and reports whether it was added.
func (u *unknownPlans) add(plan string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names[plan] || len(u.names) == maxUnknownPlans {
		return false
	}
	if u.names == nil {
		u.names = make(map[string]bool)
	}
	u.names[strings.Clone(plan)] = true // plan may be a part of a larger string
	return true
}
