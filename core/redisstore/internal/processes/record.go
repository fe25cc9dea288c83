package processes

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Lifetime is the time after its last heartbeat until a process is not counted any more.
	Lifetime = 30 * time.Second
	// maxGroups is the number of groups beyond which processes are in the group all.
	maxGroups = 64
	// maxRules is the number of rules of a process, and maxText their length, beyond which it is in the group all.
	maxRules, maxText = 1000, 64 << 10
	// maxName is the length of the name of a group.
	maxName = 16
	// all is the group whose processes count for every rule.
	all = "all"
)

//go:embed heartbeat.lua
var file string

// Source is the script of a heartbeat, and Heartbeat sends it.
var Source = strings.NewReplacer(
	"LIFETIME", strconv.FormatInt(Lifetime.Milliseconds(), 10),
	"MAX_GROUPS", strconv.Itoa(maxGroups),
	"MAX_NAME", strconv.Itoa(maxName),
	"GROUP_OF_ALL", "'"+all+"'",
).Replace(file)

var Heartbeat = redis.NewScript(Source)

// A record is the heartbeats of an application in Redis. Its keys are in one hash slot.
type record struct {
	rdb  redis.UniversalClient
	keys string // their beginning
}

func newRecord(rdb redis.UniversalClient, prefix, slot string) record {
	return record{rdb, prefix + "{" + slot + "}processes"}
}

// A group is a set of rules that processes have.
type group struct {
	name string
	text string // the names of the rules, as JSON
}

// groupOf returns the group of processes that have the rules of these names, which are sorted.
func groupOf(rules []string) group {
	text, _ := json.Marshal(rules) // of texts
	if len(rules) == 0 || len(rules) > maxRules || len(text) > maxText {
		return group{all, "[]"}
	}
	sum := sha256.Sum256(text)
	return group{base64.RawURLEncoding.EncodeToString(sum[:9]), string(text)}
}

// ErrRecord is the error of a record that is not well formed.
var ErrRecord = errors.New("the record of the processes is not well formed")

// A reading is the reply to a heartbeat.
type reading struct {
	group  string         // of the process that has sent it
	counts map[string]int // the number of processes of each group
}

// beat writes a heartbeat of a process, or removes it if the text of the group is empty. It returns a reading and an
// ErrRecord if a part of the record was not well formed.
func (r record) beat(ctx context.Context, process string, g group, left []string) (reading, error) {
	keys, args := r.arguments(process, g, left)
	reply, err := Heartbeat.Run(ctx, r.rdb, keys, args...).Slice()
	if err != nil {
		return reading{}, err
	}
	return parse(reply)
}

// arguments returns the keys and arguments of a heartbeat.
func (r record) arguments(process string, g group, left []string) (keys []string, args []any) {
	keys = []string{r.keys, r.keys + ":rules", r.set(g.name), r.set(all)}
	args = []any{process, g.text, g.name}
	for _, name := range left {
		keys, args = append(keys, r.set(name)), append(args, name)
	}
	return keys, args
}

// Command returns the command of a heartbeat of the process "check", which has the rule "check", or of its end. The end of a
// process that has not begun changes nothing.
func Command(prefix, slot string, end bool) []any {
	g := groupOf([]string{"check"})
	if end {
		g.text = ""
	}
	keys, args := newRecord(nil, prefix, slot).arguments("check", g, nil)
	command := []any{"eval", Source, len(keys)}
	for _, key := range keys {
		command = append(command, key)
	}
	return append(command, args...)
}

// Count returns the number of processes in the reply to a heartbeat.
func Count(reply any) (n int, err error) {
	elements, _ := reply.([]any)
	read, err := parse(elements)
	for _, count := range read.counts {
		n = min(n+count, maxCount)
	}
	return n, err
}

// set returns the key of the processes of a group.
func (r record) set(group string) string { return r.keys + ":" + group }

func parse(reply []any) (read reading, err error) {
	if len(reply) < 2 || len(reply)%2 != 0 || len(reply) > 4*maxGroups {
		return reading{}, fmt.Errorf("%w: the reply has %d elements", ErrRecord, len(reply))
	}
	if damaged, ok := reply[0].(int64); !ok || damaged != 0 {
		err = fmt.Errorf("%w: %v fields were removed", ErrRecord, damaged)
	}
	read.counts = make(map[string]int, len(reply)/2)
	read.group, _ = reply[1].(string)
	for pair := range slices.Chunk(reply[2:], 2) {
		name, _ := pair[0].(string)
		n, ok := pair[1].(int64)
		if name == "" || !ok || n < 1 {
			err = fmt.Errorf("%w: a group of %v processes", ErrRecord, n)
			continue
		}
		read.counts[name] = int(min(n, maxCount))
	}
	return read, err
}

// maxCount bounds a sum of numbers.
const maxCount = 1 << 30

// rules returns the rules of groups, without those of groups that have gone. A list that is not well formed is nil, and
// the error then an ErrRecord.
func (r record) rules(ctx context.Context, groups []string) (lists map[string][]string, err error) {
	texts, failed := r.rdb.HMGet(ctx, r.keys+":rules", groups...).Result()
	if failed != nil {
		return nil, failed
	}
	lists = make(map[string][]string, len(groups))
	for i, name := range groups {
		if text, ok := texts[i].(string); ok {
			if lists[name], ok = parseRules(text); !ok {
				err = fmt.Errorf("%w: the rules of a group", ErrRecord)
			}
		}
	}
	return lists, err
}

// parseRules returns the names of rules in the text of a group, which are in order, and each once.
func parseRules(text string) (names []string, ok bool) {
	if len(text) > maxText || json.Unmarshal([]byte(text), &names) != nil || len(names) == 0 || len(names) > maxRules {
		return nil, false
	}
	for i := range names[1:] {
		if names[i] >= names[i+1] {
			return nil, false
		}
	}
	return names, true
}
