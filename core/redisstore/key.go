package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A keyer makes Redis keys. An identity becomes 128 bits of a hash inside a
// hash tag: of bounded length, unreadable, and unable to choose its slot.
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

const digestSize = 16

// tag is the hash of an identity, as text: 22 characters.
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
	base64.RawURLEncoding.Encode(text[:], sum[:digestSize])
	return string(text[:])
}

// key is the key of the state of r, for example "weir:{<tag>}l2:<name of r>" for a
// sliding log.
func (k *keyer) key(tag string, r *driver.Compiled) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(r.Algorithm()).version + ":" + r.Name()
}

// probe is the key of a probe by an algorithm, in the hash slot of tag. No rule has it.
func (k *keyer) probe(tag string, a driver.Algorithm) string {
	return k.prefix + "{" + tag + "}" + algorithmOf(a).version + "?"
}
