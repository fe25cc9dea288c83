package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
)

// A group is the charges that one script call can decide.
type group struct {
	charges []*core.Charge
	keys    []string

	admitted bool
	replies  [][]int64 // a reading for every charge
	err      error
}

// A grouper says where charges have to be for one call to reach them: those
// with the same answer go together.
type grouper func(tag string) string

func grouperFor(rdb redis.UniversalClient) grouper {
	switch rdb.(type) {
	case *redis.Client:
		return func(string) string { return "" }
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

// split makes the groups of charges.
func (s *Store) split(charges []core.Charge) []*group {
	var groups []*group
	where := make(map[string]*group, 1)
	var identity, tag string
	for i := range charges {
		c := &charges[i]
		if i == 0 || c.Key != identity {
			identity, tag = c.Key, s.keys.tag(c.Key)
		}
		at := s.group(tag)
		g := where[at]
		if g == nil {
			g = new(group)
			where[at] = g
			groups = append(groups, g)
		}
		g.charges = append(g.charges, c)
		g.keys = append(g.keys, s.keys.key(tag, c.Rule))
	}
	return groups
}
