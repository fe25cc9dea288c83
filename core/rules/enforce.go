package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// InPercent reports whether key belongs to the given percentage of the keys of a policy (see
// [Policy]). A key that belongs to a percentage also belongs to every larger one. percent is rounded
// to hundredths.
//
// The result is true if n < 100 × percent, where n is the remainder of the division by 10000 of the
// first 8 bytes, as a big-endian number, of SHA-256(policy, 0x00, key). Other programs can compute
// it, too. Test vectors:
//
//	policy  key          n
//	api     user:1       2074
//	api     user:2       2581
//	login   user:1       1581
//	login   203.0.113.7  2565
//	login   用户           203
func InPercent(policy, key string, percent float64) bool {
	return float64(bucket(policy, key)) < math.Round(percent*100)
}

// bucket returns n of InPercent.
func bucket(policy, key string) uint64 {
	var buf [256]byte
	sum := sha256.Sum256(append(append(append(buf[:0], policy...), 0), key...))
	return binary.BigEndian.Uint64(sum[:]) % 10_000
}
