package client

import (
	"math/rand/v2"
	"sync"
	"time"
)

// maxGrown is the largest number of keys whose pauses grow.
const maxGrown = 1024

// growingPauses are the pauses that responses without a time have begun. The zero value has none.
type growingPauses struct {
	mu    sync.Mutex
	pause map[string]growingPause // by key
}

// A growingPause is the latest pause of a key.
type growingPause struct {
	doubled int
	end     time.Time
}

// begin begins a pause of key because of a response to a request that was sent at this time, and returns its length. A
// request that was sent before the end of the latest pause continues that, or begins another one of the same length.
func (g *growingPauses) begin(key string, sent time.Time, longest time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, known := g.pause[key]
	now := time.Now()
	switch {
	case known && now.Before(p.end):
		return p.end.Sub(now)
	case known && sent.Before(p.end):
		return growing(p.doubled, longest)
	case known && now.Sub(p.end) > longest: // a month later, say
		p.doubled = 0
	case known:
		p.doubled++
	case g.pause == nil:
		g.pause = make(map[string]growingPause)
	case len(g.pause) >= maxGrown:
		for other := range g.pause { // any one, which then begins with 1 s again
			delete(g.pause, other)
			break
		}
	}
	d := growing(p.doubled, longest)
	p.end = now.Add(d)
	g.pause[key] = p
	return d
}

// succeed ends the growth if a request that was sent at this time, after the end of the pause, was successful.
func (g *growingPauses) succeed(key string, sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, known := g.pause[key]; known && !sent.Before(p.end) {
		delete(g.pause, key)
	}
}

// growing returns a second that has doubled n times, and up to a quarter more, but at most longest.
func growing(n int, longest time.Duration) time.Duration {
	d := longest
	if n < 32 {
		d = min(d, time.Second<<n)
	}
	return min(longest, d+rand.N(d/4+1))
}
