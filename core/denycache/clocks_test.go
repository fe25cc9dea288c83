package denycache_test

import (
	"sync"
	"time"
)

// A pair is the two clocks: the reference's, which counts whole microseconds and
// can be set back, and that of this process.
type pair struct {
	mu    sync.Mutex
	local int64 // nanoseconds
	ahead int64 // of the reference's clock, in nanoseconds
}

func newPair() *pair {
	return &pair{local: 1000, ahead: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
}

func (p *pair) now() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.local + p.ahead) / 1000
}

func (p *pair) localNow() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.local
}

// pass lets d pass.
func (p *pair) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local += int64(d)
}

// setBack sets the reference's clock back by d, and lets later pass here.
func (p *pair) setBack(d, later time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local += int64(later)
	p.ahead -= int64(d + later)
}
