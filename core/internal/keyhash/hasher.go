// Package keyhash hides the keys of limits in the names of Redis keys.
package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"
	"sync"
)

// TagLen is the length of a tag.
const TagLen = 22

// A Hasher hashes keys with SHA-256, or with HMAC-SHA-256 if it has a secret. It is safe for
// concurrent use.
type Hasher struct {
	macs   *sync.Pool // of hash.Hash; nil without a secret
	hashes bool       // a key may be a hash: see OrHash
}

// New returns a Hasher with a secret, which may be nil.
func New(secret []byte) Hasher {
	if secret == nil {
		return Hasher{}
	}
	return Hasher{macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// OrHash returns a Hasher for which a key that is # and a tag stands for the key with this tag. It is for the keys of
// operators: a client that could choose such a key would use the states of another one.
func (h Hasher) OrHash() Hasher {
	h.hashes = true
	return h
}

// tagOf returns the tag in a key that is # and a tag.
func tagOf(key string) (tag string, ok bool) {
	tag, ok = strings.CutPrefix(key, "#")
	if _, err := base64.RawURLEncoding.DecodeString(tag); !ok || len(tag) != TagLen || err != nil {
		return "", false
	}
	return tag, true
}

// IsHash reports whether key stands for the key with a tag: see OrHash.
func (h Hasher) IsHash(key string) bool {
	_, ok := tagOf(key)
	return ok && h.hashes
}

// Tag returns 128 bits of the hash of key, as base64 for URLs.
func (h Hasher) Tag(key string) string {
	text := h.text(key)
	return string(text[:]) // on the stack of a caller that does not keep it, because Tag is inlined
}

func (h Hasher) text(key string) (text [TagLen]byte) {
	if h.hashes {
		if tag, ok := tagOf(key); ok {
			copy(text[:], tag)
			return text
		}
	}
	sum := h.Sum(key)
	base64.RawURLEncoding.Encode(text[:], sum[:16])
	return text
}

// Sum returns the hash of key. A key that is a hash (see OrHash) is hashed again.
func (h Hasher) Sum(key string) [sha256.Size]byte {
	if h.macs != nil {
		return h.mac(key)
	}
	var buf [256]byte // on the stack, for all but very long keys
	return sha256.Sum256(append(buf[:0], key...))
}

func (h Hasher) mac(key string) (sum [sha256.Size]byte) {
	mac := h.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write([]byte(key))
	mac.Sum(sum[:0])
	h.macs.Put(mac)
	return sum
}
