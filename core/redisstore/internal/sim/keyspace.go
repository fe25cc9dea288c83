package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A keyspace has the values of a server that no script reads: those of package rules.
type keyspace struct {
	texts   map[string]string
	ends    map[string]int64 // of texts, in milliseconds
	hashes  map[string]map[string]string
	sets    map[string]map[string]float64
	streams map[string][]entry
}

// An entry of a stream.
type entry struct {
	id     [2]int64
	values []string
}

func newKeyspace() keyspace {
	return keyspace{
		texts: map[string]string{}, ends: map[string]int64{}, hashes: map[string]map[string]string{},
		sets: map[string]map[string]float64{}, streams: map[string][]entry{},
	}
}

// execute executes a command at a time (us).
func (k *keyspace) execute(name string, args []string, now int64) any {
	switch name {
	case "psetex":
		k.texts[args[0]], k.ends[args[0]] = args[2], now/1000+integer(args[1])
		return status("OK")
	case "set":
		k.texts[args[0]] = args[1]
		delete(k.ends, args[0])
		if len(args) == 4 && strings.EqualFold(args[2], "exat") {
			k.ends[args[0]] = 1000 * integer(args[3])
		}
		return status("OK")
	case "mget":
		all := make([]any, len(args))
		for i, key := range args {
			if text, ok := k.texts[key]; ok && (k.ends[key] == 0 || now/1000 < k.ends[key]) {
				all[i] = text
			}
		}
		return all
	case "del":
		n := 0
		for _, key := range args {
			if _, ok := k.texts[key]; ok {
				n++
			}
			delete(k.texts, key)
		}
		return n
	case "hset":
		if k.hashes[args[0]] == nil {
			k.hashes[args[0]] = map[string]string{}
		}
		for pair := range slices.Chunk(args[1:], 2) {
			k.hashes[args[0]][pair[0]] = pair[1]
		}
		return len(args) / 2
	case "hget":
		if v, ok := k.hashes[args[0]][args[1]]; ok {
			return v
		}
		return nil
	case "hgetall":
		var all []string
		for _, field := range slices.Sorted(maps.Keys(k.hashes[args[0]])) {
			all = append(all, field, k.hashes[args[0]][field])
		}
		return all
	case "hmget":
		all := make([]any, len(args)-1)
		for i, field := range args[1:] {
			if v, ok := k.hashes[args[0]][field]; ok {
				all[i] = v
			}
		}
		return all
	case "hdel":
		delete(k.hashes[args[0]], args[1])
		return 1
	case "pexpire": // no key is read that has expired
		return 1
	case "zadd", "zrem", "zcard", "zrange", "zremrangebyrank", "zremrangebyscore", "zcount", "zmscore", "zscan":
		return k.set(name, args)
	case "xadd", "xrange", "xrevrange":
		return k.stream(name, args, now)
	case "get":
		return nil
	}
	return errorReply("ERR unknown command '" + name + "'")
}

func (k *keyspace) set(name string, args []string) any {
	set := k.sets[args[0]]
	if set == nil {
		set = map[string]float64{}
		k.sets[args[0]] = set
	}
	switch name {
	case "zadd":
		greater, args := strings.EqualFold(args[1], "gt"), args[1:]
		if greater {
			args = args[1:]
		}
		added := 0
		for pair := range slices.Chunk(args, 2) {
			old, ok := set[pair[1]]
			if score := number(pair[0]); !ok || !greater || score > old {
				set[pair[1]] = score
			}
			if !ok {
				added++
			}
		}
		return added
	case "zrem":
		before := len(set)
		for _, member := range args[1:] {
			delete(set, member)
		}
		return before - len(set)
	case "zremrangebyscore":
		before := len(set)
		maps.DeleteFunc(set, func(_ string, score float64) bool { return number(args[1]) <= score && score <= number(args[2]) })
		return before - len(set)
	case "zcard":
		return len(set)
	case "zrange", "zremrangebyrank":
		all := ranked(set)
		from, to := integer(args[1]), integer(args[2])
		if from < 0 {
			from, to = from+int64(len(all)), to+int64(len(all))
		}
		if all = all[from : to+1]; name == "zrange" {
			return all
		}
		for _, member := range all {
			delete(set, member)
		}
		return len(all)
	case "zcount":
		n := 0
		for _, score := range set {
			if number(args[1]) <= score && score <= number(args[2]) {
				n++
			}
		}
		return n
	case "zmscore":
		var all []any
		for _, member := range args[1:] {
			if score, ok := set[member]; ok {
				all = append(all, format(score))
			} else {
				all = append(all, nil)
			}
		}
		return all
	default: // zscan, in one page
		all := []string{}
		for _, member := range slices.Sorted(maps.Keys(set)) {
			all = append(all, member, format(set[member]))
		}
		return []any{"0", all}
	}
}

func (k *keyspace) stream(name string, args []string, now int64) any {
	all := k.streams[args[0]]
	if name == "xadd" {
		id := [2]int64{now / 1000, 0}
		if len(all) > 0 && compareIDs(all[len(all)-1].id, id) >= 0 { // the clock has stepped back
			id = all[len(all)-1].id
			id[1]++
		}
		k.streams[args[0]] = append(all, entry{id, args[slices.Index(args, "*")+1:]})
		return fmt.Sprintf("%d-%d", id[0], id[1])
	}
	from, to, most := args[1], args[2], len(all)
	if name == "xrevrange" {
		from, to = to, from
	}
	if len(args) == 5 {
		most = int(integer(args[4]))
	}
	replies := []any{}
	for i := range all {
		e := all[i]
		if name == "xrevrange" {
			e = all[len(all)-1-i]
		}
		if len(replies) < most && compareIDs(idOf(from, 0), e.id) <= 0 && compareIDs(e.id, idOf(to, math.MaxInt64)) <= 0 {
			replies = append(replies, []any{fmt.Sprintf("%d-%d", e.id[0], e.id[1]), e.values})
		}
	}
	return replies
}

func compareIDs(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// idOf returns the ID of an entry. Without a number, it is missing.
func idOf(text string, missing int64) [2]int64 {
	switch text {
	case "-":
		return [2]int64{}
	case "+":
		return [2]int64{math.MaxInt64, math.MaxInt64}
	}
	time, sequence, ok := strings.Cut(text, "-")
	if !ok {
		return [2]int64{integer(time), missing}
	}
	return [2]int64{integer(time), integer(sequence)}
}

func number(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("sim: " + err.Error())
	}
	return f
}

func format(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }
