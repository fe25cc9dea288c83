package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A keyer makes the keys in Redis. Their hash tag contains 128 bits of a hash of the identity. The
// length of keys is therefore bounded, keys hide the identity, and no client can choose the slot.
type keyer struct {
	prefix string
	macs   *sync.Pool // of hash.Hash; nil without a secret
}

func newKeyer(c config) keyer {
	k := keyer{prefix: c.prefix}
	if c.secret != nil {
		k.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, c.secret) }}
	}
	return k
}

// tag returns the hash of an identity as text of 22 characters.
func (k *keyer) tag(identity string) string {
	var sum [sha256.Size]byte
	if k.macs == nil {
		sum = sha256.Sum256([]byte(identity))
	} else {
		mac := k.macs.Get().(hash.Hash)
		mac.Reset()
		mac.Write([]byte(identity))
		mac.Sum(sum[:0])
		k.macs.Put(mac)
	}
	var text [22]byte
	base64.RawURLEncoding.Encode(text[:], sum[:16])
	return string(text[:])
}

// key returns the key for the state of r: for a sliding log of 500/h that is called
// "api", "weir:{<tag>}l3:3600:api".
func (k *keyer) key(tag string, r *driver.Compiled) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(r.Algorithm()).version + ":" + r.StateName()
}

// probe returns the key for probes by an algorithm, in the hash slot of tag. No state has that key.
func (k *keyer) probe(tag string, a driver.Algorithm) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(a).version + "?"
}
