package denycache

import (
	"sync"
	"sync/atomic"
)

// A stripe orders the changes of the entries of a part of the keys.
type stripe struct {
	mu sync.Mutex
	// generation counts the calls of forget for a key of the stripe. An answer is remembered
	// only if there was none since the Store was asked: the answer may be from before.
	generation atomic.Uint64
	probes     map[place]*probe
}

const stripes = 256

// A probe counts the calls that ask the Store about a denial that has ended (they fly), and
// the calls that wait for their answers.
type probe struct {
	flying  int
	waiting int
	width   int           // the most calls that may fly
	changed chan struct{} // closed at every answer
}

// enter lets the caller fly, or counts it as waiting. A caller that waits already passes its
// probe as waitsFor, and others nil.
func (s *stripe) enter(at place, waitsFor *probe) (p *probe, flies bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = waitsFor; p == nil {
		p = s.probes[at]
	}
	if p == nil {
		p = &probe{width: 1, changed: make(chan struct{})}
		if s.probes == nil {
			s.probes = make(map[place]*probe)
		}
		s.probes[at] = p
	}
	switch flies = p.flying < p.width; {
	case flies:
		p.flying++
		if waitsFor != nil {
			p.waiting--
		}
	case waitsFor == nil:
		p.waiting++
	}
	return p, flies, p.changed
}

// land ends a flight and wakes who waits for it. Those whom the answer does not deny
// may fly, twice as many as before; or all, if there was no answer.
func (s *stripe) land(at place, p *probe, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.width = min(2*p.width, unbounded)
	if !answered {
		p.width = unbounded
	}
	p.flying--
	close(p.changed)
	p.changed = make(chan struct{})
	s.sweep(at, p)
}

const unbounded = 1 << 30

// quit ends a wait.
func (s *stripe) quit(at place, p *probe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.waiting--
	s.sweep(at, p)
}

// sweep forgets p when nobody is left.
func (s *stripe) sweep(at place, p *probe) {
	if p.flying == 0 && p.waiting == 0 {
		delete(s.probes, at)
	}
}
