package simulate

import (
	"math/rand/v2"
	"strconv"
)

// A sender sends the requests of one client of a [Generator].
type sender struct {
	event  Event
	index  int
	n      int64 // the number of its next request or burst
	at     int64
	random *rand.Rand // of a Poisson
	passed float64    // of a Poisson: the exact time since Begin, in microseconds
}

// sender returns the sender of the i-th client, with the time of its first request.
func (g *Generator) sender(i int) *sender {
	s := &sender{index: i, at: Begin}
	s.event = Event{Key: "client:" + strconv.Itoa(i+1), Cost: g.Cost, Plan: g.Plan, Request: g.Request}
	if g.Kind == Poisson {
		s.random = rand.New(rand.NewPCG(g.Seed, uint64(i)))
	}
	s.at = g.next(s)
	return s
}

// send yields n events.
func (s *sender) send(yield func(*Event) bool, n int) bool {
	for range n {
		s.event.At = s.at
		if !yield(&s.event) {
			return false
		}
	}
	return true
}

// senders is a heap, in the order of the next requests.
type senders []*sender

func (h senders) Len() int { return len(h) }
func (h senders) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].index < h[j].index
}
func (h senders) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *senders) Push(s any)   { *h = append(*h, s.(*sender)) }
func (h *senders) Pop() any     { panic("unused") }
