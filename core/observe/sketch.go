package observe

import "slices"

// A sketch counts the most frequent of any number of keys in bounded memory: the algorithm Space-Saving
// of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements
// in Data Streams", 2005. A key that finds no room takes the place of the one with the lowest count,
// and inherits that count, which is its error. The key whose true count is above the sum of all counts
// divided by room is always there.
type sketch struct {
	room    int
	entries []entry // a heap: the lowest count is the first
	at      map[uint64]int
}

type entry struct {
	hash  uint64
	count uint64
	error uint64
	rule  string
	key   []byte // the first maxKey bytes
}

// add adds n to the count of the key with the hash.
func (s *sketch) add(hash uint64, key, rule string, n uint64) {
	if i, ok := s.at[hash]; ok {
		s.entries[i].count += n
		s.down(i)
		return
	}
	if s.at == nil {
		s.at = make(map[uint64]int, s.room)
		s.entries = slices.Grow(s.entries, s.room)
	}
	key = key[:min(len(key), maxKey)]
	if i := len(s.entries); i < s.room {
		s.entries = s.entries[:i+1]
		e := &s.entries[i] // may have the room of a key from before clear
		e.hash, e.count, e.error, e.rule, e.key = hash, n, 0, rule, append(e.key[:0], key...)
		s.at[hash] = i
		s.up(i)
		return
	}
	e := &s.entries[0]
	delete(s.at, e.hash)
	e.hash, e.error, e.rule, e.key = hash, e.count, rule, append(e.key[:0], key...)
	e.count += n
	s.at[hash] = 0
	s.down(0)
}

// clear removes all keys, and keeps their room.
func (s *sketch) clear() {
	s.entries = s.entries[:0]
	clear(s.at)
}

func (s *sketch) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.entries[parent].count <= s.entries[i].count {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *sketch) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.entries); child++ {
			if s.entries[child].count < s.entries[least].count {
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
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
	s.at[s.entries[i].hash], s.at[s.entries[j].hash] = i, j
}
