package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Crowd makes s, a Store on a *redis.Client, send each request in one round trip with earlier
// requests, on keys that no other request uses. The neighbours must not change the outcome.
func Crowd(s *Store) *Store {
	s.executor.sender = &crowd{server: s.executor.sender.(*server), random: rand.New(rand.NewPCG(1, 2))}
	return s
}

type crowd struct {
	*server
	mu      sync.Mutex
	random  *rand.Rand
	earlier []*request
}

func (c *crowd) send(d *deadline, r *request) error {
	c.mu.Lock()
	own, requests := clone(r), make([]*request, 0, 4)
	for i := range c.random.IntN(4) {
		if len(c.earlier) > 0 {
			neighbour := clone(c.earlier[c.random.IntN(len(c.earlier))])
			neighbour.clock = r.clock
			for j, key := range neighbour.keys {
				neighbour.keys[j] = fmt.Sprint(key, "/", i%2) // some neighbours share keys
			}
			requests = append(requests, neighbour)
		}
	}
	requests = slices.Insert(requests, c.random.IntN(len(requests)+1), r)
	if c.earlier = append(c.earlier, own); len(c.earlier) > 100 {
		c.earlier = slices.Delete(c.earlier, 0, 50)
	}
	c.mu.Unlock()
	c.server.run(context.WithoutCancel(d.ctx), requests)
	for _, neighbour := range requests {
		if r.err == nil && neighbour.err != nil {
			return fmt.Errorf("a neighbour failed: %w", neighbour.err)
		}
	}
	return d.outcome(r)
}

// clone returns a copy of r that was not sent.
func clone(r *request) *request {
	return &request{
		verb: r.verb, most: r.most, clock: r.clock, keys: slices.Clone(r.keys), charges: slices.Clone(r.charges), set: r.set,
		values: r.values, work: r.work,
	}
}
