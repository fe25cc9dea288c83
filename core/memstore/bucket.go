package memstore

import (
	"math/bits"

	"github.com/weir-go/weir/core/driver"
)

// A bucket packs the State of a bucket without a debt into two words. The first is the time at
// which the bucket will be full. The second contains the fraction of that time (48 bits) and the
// slack (16 bits), so that eviction can compute the fill ratio without the rule: a bucket that will
// be full within the slack can admit one more event.
type bucket struct {
	full int64
	rest uint64
}

const fracBits = 48

func (b *bucket) state() driver.State {
	return driver.State{Time: b.full, Amount: int64(b.rest & (1<<fracBits - 1))}
}

// set stores the words of a State of rule.
func (b *bucket) set(full, frac int64, rule *driver.Compiled) {
	k := &rule.Constants
	slack := max(1, k.Full.Micros-k.Headroom.Micros-k.Unit.Micros)
	b.full, b.rest = full, uint64(packSpan(uint64(slack)))<<fracBits|uint64(frac)
}

// idle reports whether the bucket is full and therefore equivalent to an absent bucket.
func (b *bucket) idle(_ *shard, now int64) bool {
	return b.full <= now && b.rest<<16 == 0 || b.full < now
}

// bucketSize is the size of a slot[bucket].
const bucketSize = 24

func (*bucket) size() int { return bucketSize }

func (b *bucket) fillRatio(s *shard, now int64) uint64 {
	if b.idle(s, now) {
		return 0
	}
	return ratio(uint64(max(0, b.full-now)), unpackSpan(uint16(b.rest>>fracBits)))
}

// packSpan returns the ten highest bits of us microseconds, and their exponent. It rounds down.
func packSpan(us uint64) uint16 {
	exponent := max(0, bits.Len64(us)-10)
	return uint16(exponent)<<10 | uint16(us>>exponent)
}

func unpackSpan(p uint16) uint64 { return uint64(p&1023) << (p >> 10) }
