package observe

import "slices"

// A sketch counts the most frequent of any number of keys in bounded memory: the algorithm Space-Saving
// of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements
// in Data Streams", 2005. A key that finds no room takes the place of the one with the lowest count,
// and inherits that count, which is its error. The key whose true count is above the sum of all counts
// divided by room is always there.
type sketch struct {
	room int
	keys []counted // a heap: the lowest count is the first
	at   map[uint64]int
}

type counted struct {
	hash  uint64
	count uint64
	error uint64
	rule  string
	key   []byte // the first maxKey bytes
}

// add adds n to the count of the key with the hash.
func (s *sketch) add(hash uint64, key, rule string, n uint64) {
	if i, ok := s.at[hash]; ok {
		s.keys[i].count += n
		s.down(i)
		return
	}
	if s.at == nil {
		s.at = make(map[uint64]int, s.room)
		s.keys = slices.Grow(s.keys, s.room)
	}
	key = key[:min(len(key), maxKey)]
	if i := len(s.keys); i < s.room {
		s.keys = s.keys[:i+1]
		k := &s.keys[i] // may have the room of a key from before clear
		k.hash, k.count, k.error, k.rule, k.key = hash, n, 0, rule, append(k.key[:0], key...)
		s.at[hash] = i
		s.up(i)
		return
	}
	k := &s.keys[0]
	delete(s.at, k.hash)
	k.hash, k.error, k.rule, k.key = hash, k.count, rule, append(k.key[:0], key...)
	k.count += n
	s.at[hash] = 0
	s.down(0)
}

// clear removes all keys, and keeps their room.
func (s *sketch) clear() {
	s.keys = s.keys[:0]
	clear(s.at)
}

func (s *sketch) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.keys[parent].count <= s.keys[i].count {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *sketch) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.keys); child++ {
			if s.keys[child].count < s.keys[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *sketch) swap(i, j int) {
	s.keys[i], s.keys[j] = s.keys[j], s.keys[i]
	s.at[s.keys[i].hash], s.at[s.keys[j].hash] = i, j
}
