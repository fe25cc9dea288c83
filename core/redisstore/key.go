package redisstore

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// A keyer makes the keys in Redis. Their hash tag contains 128 bits of a hash of the identity. The
// length of keys is therefore bounded, keys hide the identity, and no client can choose the slot.
type keyer struct {
	prefix string // with app
	app    string
	hasher keyhash.Hasher
}

func newKeyer(c config) keyer { return keyer{c.prefix, c.app, keyhash.New(c.secret)} }

// tag returns the hash of an identity.
func (k *keyer) tag(identity string) string { return k.hasher.Tag(identity) }

// key returns the key for the state of r: for a sliding log of 500/h that is called
// "api", "weir:shop:{<tag>}l4:3600:api".
func (k *keyer) key(tag string, r *driver.Compiled) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + ":" + r.StateName
}

// probe returns the key for probes by the algorithm of r, in the hash slot of tag. No state has that key.
func (k *keyer) probe(tag string, r *driver.Compiled) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + "?"
}
