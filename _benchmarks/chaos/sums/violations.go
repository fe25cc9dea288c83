package main

import (
	"errors"
	"fmt"
	"sync"
)

// violations collects the violations of all callers and checks. It is safe for concurrent use.
type violations struct {
	mu    sync.Mutex
	lines []error
	more  int // the violations that are not in lines
}

// mostLines is the number of violations that are listed.
const mostLines = 50

func (v *violations) addf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.lines) == mostLines {
		v.more++
		return
	}
	v.lines = append(v.lines, fmt.Errorf("violation: "+format, args...))
}

// err returns the violations, a line each, or nil if there are none.
func (v *violations) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.lines
	if v.more > 0 {
		all = append(all, fmt.Errorf("and %d other violations", v.more))
	}
	return errors.Join(all...)
}
