package redisstore

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
)

// A group is the charges that one script call can decide or adjust.
type group struct {
	charges []driver.Charge
	keys    []string
	places  []int // of the charges in the call of Take or Adjust; nil if it is the whole

	timed bool // the script reports the time

	admitted bool
	readings []driver.Reading // of all charges
	time     int64            // of the server, if timed
	err      error
}

// A grouper says where charges have to be for one call to reach them: those
// with the same answer go together. Nil means that all do.
type grouper func(tag string) string

func grouperFor(rdb redis.UniversalClient) grouper {
	switch rdb.(type) {
	case *redis.Client:
		return nil
	case *redis.ClusterClient:
		return slot
	}
	return func(tag string) string { return tag }
}

// slot is the hash slot of a tag: CRC-16/XMODEM modulo 16384 (Redis Cluster
// specification), as two bytes.
func slot(tag string) string {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	crc %= 16384
	return string([]byte{byte(crc >> 8), byte(crc)})
}

// oneGroup says whether one call reaches all charges: on a Cluster, those of one key.
func (s *Store) oneGroup(charges []driver.Charge) bool {
	for i := range charges {
		if s.group != nil && charges[i].Key != charges[0].Key {
			return false
		}
	}
	return true
}

// whole makes one group of all charges.
func (s *Store) whole(charges []driver.Charge) group {
	g := group{charges: charges, keys: make([]string, len(charges))}
	var tag string
	for i := range charges {
		c := &charges[i]
		if i == 0 || c.Key != charges[i-1].Key {
			tag = s.keys.tag(c.Key)
		}
		g.keys[i] = s.keys.key(tag, c.Rule)
		g.timed = g.timed || c.Op == driver.Debit || c.Op == driver.Reset || c.Op == driver.Spend && c.Receipt != nil
	}
	return g
}

// split makes the groups of charges, with copies of them. All report the time: a Spend may
// have to be undone.
func (s *Store) split(charges []driver.Charge) []*group {
	var groups []*group
	where := make(map[string]*group)
	for i, c := range charges {
		tag := s.keys.tag(c.Key)
		at := s.group(tag)
		g := where[at]
		if g == nil {
			g = &group{timed: true}
			where[at] = g
			groups = append(groups, g)
		}
		g.charges = append(g.charges, c)
		g.keys = append(g.keys, s.keys.key(tag, c.Rule))
		g.places = append(g.places, i)
	}
	return groups
}

// report copies the Verdicts of a group that split made to charges.
func (g *group) report(charges []driver.Charge) {
	for i, place := range g.places {
		charges[place].Verdict = g.charges[i].Verdict
	}
}

// queues says whether g takes places in queues.
func (g *group) queues() bool {
	return slices.ContainsFunc(g.charges, func(c driver.Charge) bool {
		return c.Op == driver.Spend && algorithmOf(c.Rule.Algorithm()).queue
	})
}

// peek is g as a group that takes nothing.
func (g *group) peek() *group {
	look := *g
	look.charges = slices.Clone(g.charges)
	for i := range look.charges {
		look.charges[i].Op = driver.Peek
	}
	return &look
}

// undo is a group that takes back what g has taken, or nil if that is nothing.
func (g *group) undo() *group {
	if g.err != nil || !g.admitted {
		return nil
	}
	back := new(group)
	for i, c := range g.charges {
		if c.Op != driver.Spend || c.Rule.Shadow() && !c.Fits(g.readings[i]) {
			continue
		}
		receipt := g.receipt(i)
		back.charges = append(back.charges, driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Undo, Cost: c.Cost, Receipt: &receipt})
		back.keys = append(back.keys, g.keys[i])
	}
	if back.charges == nil {
		return nil
	}
	return back
}

// receipt is the receipt of the i-th charge, whose reading was made before it.
func (g *group) receipt(i int) driver.Receipt {
	return driver.Receipt{At: g.time, Used: g.readings[i].Used}
}

// taken sets the Verdicts of a Take, and the receipts of its Spends. admitted is the outcome
// of all groups together.
func (g *group) taken(admitted bool) error {
	fit := true
	for i := range g.charges {
		c := &g.charges[i]
		spent := admitted && c.Op == driver.Spend
		c.Answer(g.readings[i], spent)
		fit = fit && (c.Verdict.Allowed || c.Rule.Shadow())
		if spent && c.Verdict.Allowed && c.Receipt != nil {
			*c.Receipt = g.receipt(i)
		}
	}
	if fit != g.admitted {
		return errReply // the script and the arithmetic disagree: a reply to something else
	}
	return nil
}

// adjusted sets the Verdicts of an Adjust, and the receipts of its Debits.
func (g *group) adjusted() error {
	if !g.admitted {
		return errReply
	}
	for i := range g.charges {
		switch c, r := &g.charges[i], g.readings[i]; {
		case c.Op == driver.Reset, c.Op == driver.Debit && c.Rule.Algorithm().IsBucket():
			// r was read before: a Reset reports whether anything was in use, and the receipt
			// of a bucket how much.
			before := driver.StateOf(g.time+r.Used.Micros, r.Used.Frac, g.time)
			c.Apply(before, r, g.time)
		default:
			c.Answer(r, false)
			if c.Op == driver.Debit && c.Receipt != nil {
				*c.Receipt = driver.Receipt{At: g.time}
			}
		}
	}
	return nil
}
