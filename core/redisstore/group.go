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

// oneGroup says whether one call reaches all charges: on a single server any, and elsewhere
// those of one key.
func (s *Store) oneGroup(charges []driver.Charge) bool {
	for i := range charges {
		if s.group != nil && charges[i].Key != charges[0].Key {
			return false
		}
	}
	return true
}

// newGroup makes one group of all charges.
func (s *Store) newGroup(charges []driver.Charge) group {
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

// groups makes a group for each place that charges have to be at, and calls add for each
// charge, with its group, its index and the tag of its key.
func (s *Store) groups(charges []driver.Charge, add func(g *group, i int, tag string)) []*group {
	var groups []*group
	where := make(map[string]*group)
	for i := range charges {
		tag, at := s.keys.tag(charges[i].Key), ""
		if s.group != nil {
			at = s.group(tag)
		}
		g := where[at]
		if g == nil {
			g = new(group)
			where[at] = g
			groups = append(groups, g)
		}
		add(g, i, tag)
	}
	return groups
}

// split makes the groups of charges, with copies of them. All report the time: a Spend may
// have to be undone.
func (s *Store) split(charges []driver.Charge) []*group {
	return s.groups(charges, func(g *group, i int, tag string) {
		g.timed = true
		g.charges = append(g.charges, charges[i])
		g.keys = append(g.keys, s.keys.key(tag, charges[i].Rule))
		g.places = append(g.places, i)
	})
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
		if c.Op != driver.Spend || c.Rule.Shadow() && !c.Fits(&g.readings[i]) {
			continue
		}
		receipt := g.readings[i].Receipt(g.time)
		back.charges = append(back.charges, driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Undo, Cost: c.Cost, Receipt: &receipt})
		back.keys = append(back.keys, g.keys[i])
	}
	if back.charges == nil {
		return nil
	}
	return back
}

// answer sets the Verdicts, and the receipts of charges that were taken. admitted is the outcome
// of all groups together.
func (g *group) answer(admitted bool) error {
	fit := true
	for i := range g.charges {
		c, r := &g.charges[i], &g.readings[i]
		switch {
		case c.Op == driver.Reset, c.Op == driver.Debit && c.Rule.Algorithm().IsBucket():
			// r is from before: a Reset says whether anything was in use, and the receipt of a
			// bucket how much.
			c.Apply(driver.StateOf(g.time+r.Used.Micros, r.Used.Frac, g.time), r, g.time)
		default:
			c.Answer(r, admitted)
			takes := c.Op == driver.Spend || c.Op == driver.Debit
			if takes && admitted && c.Verdict.Allowed && c.Receipt != nil {
				*c.Receipt = g.readings[i].Receipt(g.time)
			}
		}
		fit = fit && (c.Verdict.Allowed || c.Rule.Shadow())
	}
	if fit != g.admitted {
		return errReply // the script and the arithmetic disagree: a reply to something else
	}
	return nil
}

// answerAll is answer for the groups that split made of charges, and sets the Verdicts of those.
func answerAll(groups []*group, charges []driver.Charge, admitted bool) error {
	for _, g := range groups {
		if err := g.answer(admitted); err != nil {
			return err
		}
		for i, place := range g.places {
			charges[place].Verdict = g.charges[i].Verdict
		}
	}
	return nil
}
