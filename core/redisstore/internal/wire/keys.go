package wire

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// Keys makes the keys in Redis. Their hash tag contains 128 bits of a hash of the identity. The
// length of keys is therefore bounded, keys hide the identity, and no client can choose the slot.
type Keys struct {
	Prefix string // with the name of the application
	keyhash.Hasher
}

// Key returns the key for the state of r, of the identity with a hash tag: for a sliding log of 500/h that is called
// "api", "weir:shop:{<tag>}l4:3600:api".
func (k *Keys) Key(tag string, r *driver.Compiled) string {
	return k.Prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + ":" + r.StateName
}

// Probe returns the key for probes by the algorithm of r, in the hash slot of tag. No state has that key.
func (k *Keys) Probe(tag string, r *driver.Compiled) string {
	return k.Prefix + "{" + tag + "}" + algorithmOf(&r.Definition).version + "?"
}
