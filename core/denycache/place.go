package denycache

import (
	"crypto/sha256"
	"strings"

	"github.com/weir-go/weir/core/driver"
)

// A place names the state of one rule of one key. Places are equal if both are:
// the size tells a digest from a key of the same bytes.
type place struct {
	key  string // or its digest
	size int    // of the key
	rule uint64
}

// maxKey bounds the memory that a key takes, whatever a client sends.
const maxKey = 128

func placeOf(c *driver.Charge) place {
	p := place{key: c.Key, size: len(c.Key), rule: c.Rule.ID()}
	if p.size > maxKey {
		digest := sha256.Sum256([]byte(c.Key))
		p.key = string(digest[:])
	}
	return p
}

// owned is p with a key of its own, not a part of a larger string that would be
// kept with it, or of bytes that are used again.
func (p place) owned() place {
	p.key = strings.Clone(p.key)
	return p
}
