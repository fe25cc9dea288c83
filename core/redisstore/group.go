package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
)

// A group is the charges that one script call can decide.
type group struct {
	charges []core.Charge
	keys    []string
	places  []int // of the charges in the decision; nil if it is the whole

	admitted bool
	readings []int64 // of all charges, one after the other
	time     int64   // of the server, when the group is a part of a decision
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
	}
	return g
}

// split makes the groups of charges, with copies of them: a group may outlast
// the call.
func (s *Store) split(charges []core.Charge) []*group {
	var groups []*group
	where := make(map[string]*group)
	for i, c := range charges {
		tag := s.keys.tag(c.Key)
		at := s.group(tag)
		g := where[at]
		if g == nil {
			g = new(group)
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

// spent is a group of the charges of g that took something, or nil.
func (g *group) spent() *group {
	if g.err != nil || !g.admitted {
		return nil
	}
	back := &group{time: g.time}
	for i, c := range g.charges {
		if c.Op == core.Spend {
			back.charges = append(back.charges, c)
			back.keys = append(back.keys, g.keys[i])
			back.readings = append(back.readings, g.reading(i)...)
		}
	}
	if back.charges == nil {
		return nil
	}
	return back
}

// answer fills in the States. admitted is the outcome of all groups together.
func (g *group) answer(admitted bool) error {
	fit := true
	for i := range g.charges {
		c := &g.charges[i]
		verdict := programs[c.Rule.Algorithm()].verdict
		v, err := verdict(c.Rule.Program(), c.Asked(), g.reading(i), admitted && c.Op == core.Spend)
		if err != nil {
			return err
		}
		c.Answer(v)
		fit = fit && c.State.Allowed
	}
	if fit != g.admitted {
		return errReply // the script and the arithmetic disagree: a reply to something else
	}
	return nil
}
