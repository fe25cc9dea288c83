package redisstore

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
)

// A group is the charges that one script call can decide.
type group struct {
	charges []core.Charge
	keys    []string
	places  []int // of the charges in the decision; nil if it is the whole

	timed bool // the time is wanted: it may have to be undone

	admitted bool
	readings []int64 // of all charges, one after the other
	time     int64   // of the server, if timed
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

// oneKey says whether all charges are of one key.
func oneKey(charges []core.Charge) bool {
	for i := range charges {
		if charges[i].Key != charges[0].Key {
			return false
		}
	}
	return true
}

// whole makes one group of all charges.
func (s *Store) whole(charges []core.Charge) group {
	g := group{charges: charges, keys: make([]string, len(charges))}
	var tag string
	for i := range charges {
		c := &charges[i]
		if i == 0 || c.Key != charges[i-1].Key {
			tag = s.keys.tag(c.Key)
		}
		g.keys[i] = s.keys.key(tag, c.Rule)
		g.timed = g.timed || c.Receipt != nil && c.Op != core.Undo
	}
	return g
}

// split makes the groups of charges, with copies of them, each a part of the
// decision that may have to be undone.
func (s *Store) split(charges []core.Charge) []*group {
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

// reading is the part of readings that is about the i-th charge.
func (g *group) reading(i int) []int64 {
	from := 0
	for j := range i {
		from += programs[g.charges[j].Rule.Algorithm()].readings
	}
	return g.readings[from : from+programs[g.charges[i].Rule.Algorithm()].readings]
}

// queues says whether g takes places in queues.
func (g *group) queues() bool {
	return slices.ContainsFunc(g.charges, func(c core.Charge) bool {
		return c.Op == core.Spend && programs[c.Rule.Algorithm()].queue
	})
}

// peek is g as a group that takes nothing.
func (g *group) peek() *group {
	look := *g
	look.charges = slices.Clone(g.charges)
	for i := range look.charges {
		look.charges[i].Op = core.Peek
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
		if c.Op != core.Spend || !g.taken(i) {
			continue
		}
		receipt := g.receipt(i)
		back.charges = append(back.charges, core.Charge{Key: c.Key, Rule: c.Rule, Op: core.Undo, Cost: c.Cost, Receipt: &receipt})
		back.keys = append(back.keys, g.keys[i])
	}
	if back.charges == nil {
		return nil
	}
	return back
}

// taken says whether the i-th charge of a group that was admitted was taken, as
// all were but for shadows that did not fit.
func (g *group) taken(i int) bool {
	c := &g.charges[i]
	if !c.Rule.IsShadow() {
		return true
	}
	v, err := programs[c.Rule.Algorithm()].verdict(c, g.reading(i), true)
	return err == nil && v.Allowed
}

// receipt is what undoing the i-th charge takes.
func (g *group) receipt(i int) core.Receipt {
	m := core.Receipt{At: g.time}
	switch g.charges[i].Rule.Algorithm() {
	case core.AlgorithmTokenBucket, core.AlgorithmLeakyBucket:
		m.Used = usedOf(g.reading(i))
	}
	return m
}

// answer fills in the States, and the receipts of what was taken. admitted is the
// outcome of all groups together.
func (g *group) answer(admitted bool) error {
	fit := true
	for i := range g.charges {
		c := &g.charges[i]
		spent := admitted && c.Op == core.Spend
		v, err := programs[c.Rule.Algorithm()].verdict(c, g.reading(i), spent)
		if err != nil {
			return err
		}
		c.Answer(v, spent)
		fit = fit && (c.State.Allowed || c.Rule.IsShadow())
		if c.Receipt != nil && (spent && c.State.Allowed || c.Op == core.Debit) {
			*c.Receipt = g.receipt(i)
		}
	}
	if fit != g.admitted {
		return errReply // the script and the arithmetic disagree: a reply to something else
	}
	return nil
}
