// Package keyhash hides the keys of limits in the names of Redis keys.
package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// TagLen is the length of a tag.
const TagLen = 22

// A Hasher hashes keys with SHA-256, or with HMAC-SHA-256 if it has a secret. It is safe for
// concurrent use.
type Hasher struct {
	macs *sync.Pool // of hash.Hash; nil without a secret
}

// New returns a Hasher with a secret, which may be nil.
func New(secret []byte) Hasher {
	if secret == nil {
		return Hasher{}
	}
	return Hasher{&sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// Tag returns 128 bits of the hash of key, as base64 for URLs.
func (h Hasher) Tag(key string) string {
	text := h.text(key)
	return string(text[:]) // on the stack of a caller that does not keep it, because Tag is inlined
}

func (h Hasher) text(key string) (text [TagLen]byte) {
	var sum [sha256.Size]byte
	if h.macs == nil {
		var buf [256]byte // on the stack, for all but very long keys
		sum = sha256.Sum256(append(buf[:0], key...))
	} else {
		sum = h.mac(key)
	}
	base64.RawURLEncoding.Encode(text[:], sum[:16])
	return text
}

func (h Hasher) mac(key string) (sum [sha256.Size]byte) {
	mac := h.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write([]byte(key))
	mac.Sum(sum[:0])
	h.macs.Put(mac)
	return sum
}
