package memstore

import "unsafe"

// SetClock makes s read Unix microseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }

// Weight returns the weight of all entries in bytes, and the limit on it.
func (s *Store) Weight() (weight, limit int) {
	for i := range s.shards {
		weight += s.shards[i].weight
		limit += s.shards[i].limit
	}
	return weight, limit
}

// Recount returns the weight of all entries in bytes, entry by entry.
func (s *Store) Recount() (weight int) {
	for i := range s.shards {
		sh := &s.shards[i]
		weight += recount(&sh.buckets) + recount(&sh.entries)
	}
	return weight
}

func recount[V any, E value[V]](t *table[V]) (weight int) {
	for i := range t.slots {
		if t.slots[i].hash != 0 {
			weight += E(&t.slots[i].value).weight()
		}
	}
	return weight
}

// Bytes returns the size of all tables and of the runs of all logs.
func (s *Store) Bytes() (bytes int) {
	for i := range s.shards {
		sh := &s.shards[i]
		bytes += size(&sh.buckets) + size(&sh.entries)
		for j := range sh.entries.slots {
			bytes += sh.entries.slots[j].value.state.Size()
		}
	}
	return bytes
}

func size[V any](t *table[V]) int { return len(t.slots) * int(unsafe.Sizeof(slot[V]{})) }

// MaxBytes returns the documented bound on Bytes when rules have spilled: 36 bytes
// for each key that MaxMemory has room for, and for each shard the free slots that a small table has and
// the overflow buckets.
func (s *Store) MaxBytes(rules int) (bytes int) {
	for i := range s.shards {
		bytes += s.shards[i].limit*3/2 + spareSlots*(bucketWeight+entryWeight) + rules*overflowBuckets*(entryWeight+56+16)*3/2
	}
	return bytes
}

// Visited returns the number of slots that evictions have looked at.
func (s *Store) Visited() (slots int) {
	for i := range s.shards {
		sh := &s.shards[i]
		slots += int(sh.buckets.sampled + sh.entries.sampled)
	}
	return slots
}

// SearchLength returns the number of slots that a search for a new key visits on
// average, in the kind of table where it is greatest.
func (s *Store) SearchLength() float64 {
	var sum, slots [2]int
	for i := range s.shards {
		sh := &s.shards[i]
		for j, kind := range [2][2]int{search(&sh.buckets), search(&sh.entries)} {
			sum[j] += kind[0]
			slots[j] += kind[1]
		}
	}
	longest := 0.0
	for j := range sum {
		longest = max(longest, float64(sum[j])/float64(max(1, slots[j])))
	}
	return longest
}

// search returns the sum over all slots of the number of slots visited when a search
// begins there, and the number of slots.
func search[V any](t *table[V]) (counts [2]int) {
	n := 1
	for i := 2*len(t.slots) - 1; i >= 0; i-- { // backwards and twice, because a search wraps around
		if n++; t.slots[i%len(t.slots)].hash == 0 {
			n = 1
		}
		if i < len(t.slots) {
			counts[0] += n
		}
	}
	return [2]int{counts[0], len(t.slots)}
}
