package simulate

import (
	"slices"

	"github.com/weir-go/weir/core"
)

// A Client has the counts of one key, over all policies.
type Client struct {
	Requests, Denied uint64
	Delayed          uint64 // admitted, after a delay
	DeniedBy         []DeniedBy
	windows          []window
}

// A DeniedBy is the number of events of a client that a policy denied, alone or together with another one.
type DeniedBy struct {
	Policy *Policy
	Denied uint64
}

// count counts a decision.
func (c *Client) count(d *core.Decision) {
	c.Requests++
	switch {
	case !d.Allowed:
		c.Denied++
	case d.Delay > 0:
		c.Delayed++
	}
}

// deny counts an event that p denied.
func (c *Client) deny(p *Policy) {
	i := slices.IndexFunc(c.DeniedBy, func(by DeniedBy) bool { return by.Policy == p })
	if i < 0 {
		i, c.DeniedBy = len(c.DeniedBy), append(c.DeniedBy, DeniedBy{Policy: p})
	}
	c.DeniedBy[i].Denied++
}

// window returns the window of a rule and a limit of it, which it makes if there is none.
func (c *Client) window(r *Rule, l core.Limit) *window {
	for i := range c.windows {
		if w := &c.windows[i]; w.rule == r && w.limit == l {
			return w
		}
	}
	c.windows = append(c.windows, window{rule: r, limit: l})
	return &c.windows[len(c.windows)-1]
}
