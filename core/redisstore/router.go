package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// A router divides charges into calls. In a Cluster, a call can use only the keys of one slot.
type router struct {
	keys keyer
	slot func(tag string) string // returns the slot of keys with this hash tag; nil for a *redis.Client
	// whole says whether a script on a *redis.Client can use all keys. It is nil for other clients.
	whole *wholeness
}

func newRouter(rdb redis.UniversalClient, c config, faults faultLog) router {
	r := router{keys: newKeyer(c)}
	switch rdb := rdb.(type) {
	case *redis.Client:
		r.whole = &wholeness{rdb: rdb, prefix: c.prefix, faults: faults}
	case *redis.ClusterClient:
		r.slot = hashSlot
	default: // for example a ring, which stores keys with the same tag on the same server
		r.slot = byTag
	}
	return r
}

// byTag is the slot of a key where only keys with the same tag are known to be on one server.
func byTag(tag string) string { return tag }

// hashSlot returns the hash slot of a tag as two bytes.
func hashSlot(tag string) string {
	slot := keyhash.Slot(tag)
	return string([]byte{byte(slot >> 8), byte(slot)})
}

// one reports whether one call can contain all charges: if they have the same key, or the server is known
// to have all keys.
func (r *router) one(charges []driver.Charge) bool {
	for i := range charges {
		if charges[i].Key != charges[0].Key {
			return r.whole != nil && r.whole.proved()
		}
	}
	return true
}

// setKeys adds the keys to a call that contains all charges.
func (r *router) setKeys(c *call) {
	var tag string
	for i := range c.charges {
		if i == 0 || c.charges[i].Key != c.charges[i-1].Key {
			tag = r.keys.tag(c.charges[i].Key)
		}
		c.keys = append(c.keys, r.keys.key(tag, c.charges[i].Rule))
	}
}

// split returns a call for each hash slot, with copies of the charges in that slot.
func (r *router) split(charges []driver.Charge) []*call {
	return r.slots(charges, func(c *call, i int, tag string) {
		c.add(charges[i], r.keys.key(tag, charges[i].Rule), i)
	})
}

// slots makes an empty call for each hash slot of charges. For each charge, it runs add with the
// call of the slot, the index of the charge and the hash tag of its key.
func (r *router) slots(charges []driver.Charge, add func(c *call, i int, tag string)) []*call {
	var calls []*call
	of := make(map[string]*call)
	slotOf := r.slot
	switch {
	case slotOf != nil:
	case r.one(charges):
		slotOf = func(string) string { return "" }
	default:
		slotOf = byTag
	}
	for i := range charges {
		tag := r.keys.tag(charges[i].Key)
		slot := slotOf(tag)
		c := of[slot]
		if c == nil {
			c = new(call)
			of[slot] = c
			calls = append(calls, c)
		}
		add(c, i, tag)
	}
	return calls
}
