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
	"time"
)

const (
	// Lifetime is the time after its last heartbeat until a process is not counted any more.
	Lifetime = 30 * time.Second
	// MaxGroups is the number of groups beyond which processes are in the group All.
	MaxGroups = 64
	// maxRules is the number of rules of a process, and maxText their length, beyond which it is in the group All.
	maxRules, maxText = 1000, 64 << 10
	// maxName is the length of the name of a group.
	maxName = 16
	// All is the group whose processes count for every rule, and None that of processes that count for no rule.
	All, None = "all", "none"
)

//go:embed heartbeat.lua
var heartbeatFile string

// The scripts of heartbeats and of the names of rules. Those of package sim are all.
var (
	Heartbeats = newScript(heartbeatFile)
	GroupRules = newScript(rulesFile)
	Scripts    = []*Script{Heartbeats, GroupRules, figures, SwitchScript}
)

// A Record is the heartbeats of an application in Redis. Its keys are in one hash slot.
type Record struct {
	// Do executes a command. A reply that is nil is no error.
	Do   func(ctx context.Context, args ...any) (any, error)
	Keys string // their beginning
}

// NewRecord returns the Record of an application.
func NewRecord(do func(ctx context.Context, args ...any) (any, error), prefix, app string) Record {
	return Record{do, prefix + "{" + app + "}processes"}
}

// The keys of a Record: see heartbeat.lua.
func (r Record) rules() string             { return r.Keys + ":rules" }
func (r Record) about(group string) string { return r.Keys + ":about:" + group }
func (r Record) published() string         { return r.Keys + ":published" }
func (r Record) set(group string) string   { return r.Keys + ":" + group }

// A Group is a set of rules that processes have.
type Group struct {
	Name string
	Text string // the names of the rules, as JSON; empty if a process ends
}

// GroupOf returns the Group of processes that have the rules of these names, which are sorted.
func GroupOf(rules []string) Group {
	text, _ := json.Marshal(rules) // of texts
	switch {
	case len(rules) == 0:
		return Group{None, "[]"}
	case len(rules) > maxRules || len(text) > maxText:
		return Group{All, "[]"}
	}
	sum := sha256.Sum256(text)
	return Group{base64.RawURLEncoding.EncodeToString(sum[:9]), string(text)}
}

// A Heartbeat is a message of a process.
type Heartbeat struct {
	Process string
	Group   Group
	About   string      // JSON of an About
	Rules   [][2]string // published: names and JSON of each
	Since   int64       // the time of the first one of the process, in Unix milliseconds by the clock of Redis; 0 in that
	Removed []string    // names of rules that were published and are not those of the process any more
	Left    []string    // groups in which an earlier heartbeat may have put the process
}

// arguments returns the keys and the arguments of the script of h.
func (r Record) arguments(h Heartbeat) (keys []string, args []any) {
	keys = []string{r.Keys, r.rules(), r.set(h.Group.Name), r.set(All), r.about(h.Group.Name), r.about(All), r.published()}
	for _, name := range h.Left {
		keys = append(keys, r.set(name), r.about(name))
	}
	args = []any{h.Process, h.Group.Text, h.Group.Name, h.About, len(h.Rules), len(h.Removed), h.Since}
	for _, rule := range h.Rules {
		args = append(args, rule[0], rule[1])
	}
	for _, name := range append(slices.Clone(h.Removed), h.Left...) {
		args = append(args, name)
	}
	return keys, args
}

// ErrRecord is the error of a record that is not well formed.
var ErrRecord = errors.New("the record of the processes is not well formed")

// A Reading is the reply to a Heartbeat.
type Reading struct {
	Group  string         // of the process
	Fresh  bool           // the group was not known
	Now    time.Time      // by the clock of Redis
	Differ []string       // rules of the Heartbeat that other processes describe otherwise
	Counts map[string]int // the number of processes of each group; nil if the reply has none
}

// Beat writes h. It returns a Reading and an ErrRecord if a part of the record was not well formed.
func (r Record) Beat(ctx context.Context, h Heartbeat) (Reading, error) {
	keys, args := r.arguments(h)
	reply, err := r.run(ctx, Heartbeats, keys, args...)
	if err != nil {
		return Reading{}, err
	}
	elements, _ := reply.([]any)
	return parse(elements)
}

// Trial returns the command of a heartbeat of the process "check", which has the rule "check", or of its end. The end of
// a process that has not begun changes nothing.
func (r Record) Trial(end bool) []any {
	h := Heartbeat{Process: "check", Group: GroupOf([]string{"check"})}
	if end {
		h.Group.Text = ""
	}
	keys, args := r.arguments(h)
	return Heartbeats.command("eval", Heartbeats.Source, keys, args)
}

// Count returns the number of processes in the reply to a heartbeat.
func Count(reply any) (n int, err error) {
	elements, _ := reply.([]any)
	read, err := parse(elements)
	for _, count := range read.Counts {
		n = min(n+count, maxCount)
	}
	return n, err
}

func parse(reply []any) (read Reading, err error) {
	const head = 5
	if len(reply) < head || len(reply)%2 != head%2 || len(reply) > 4*MaxGroups {
		return Reading{}, fmt.Errorf("%w: the reply has %d elements", ErrRecord, len(reply))
	}
	if damaged, ok := reply[0].(int64); !ok || damaged != 0 {
		err = fmt.Errorf("%w: %v fields were removed", ErrRecord, damaged)
	}
	read.Counts = make(map[string]int, len(reply)/2)
	read.Group, _ = reply[1].(string)
	read.Fresh = reply[2] == any(int64(1))
	if now, ok := reply[3].(int64); ok {
		read.Now = time.UnixMilli(now)
	}
	differ, _ := reply[4].([]any)
	for _, rule := range differ[:min(len(differ), maxPublished)] {
		if name, ok := rule.(string); ok {
			read.Differ = append(read.Differ, name)
		}
	}
	for pair := range slices.Chunk(reply[head:], 2) {
		name, _ := pair[0].(string)
		n, ok := pair[1].(int64)
		if name != All && name != None && len(name) != groupName || !ok || n < 1 {
			err = fmt.Errorf("%w: a group of %v processes", ErrRecord, n)
			continue
		}
		read.Counts[name] = int(min(n, maxCount))
	}
	return read, err
}

// groupName is the length of the names of groups other than All and None. Other keys of a Record end otherwise.
const groupName = 12

// maxCount bounds a sum of numbers.
const maxCount = 1 << 30

// rulesFile is the script that reads the rules of groups, without texts that are too long.
const rulesFile = `local texts = redis.call('HMGET', KEYS[1], unpack(ARGV))
for i = 1, #ARGV do
  if texts[i] and #texts[i] > MAX_TEXT then
    texts[i] = ''
  end
end
return texts`

// hashes is the script that reads the fields of hashes that have at most ARGV[1] bytes, at most ARGV[2] of each.
var hashes = newScript(`local found = {}
for k = 1, #KEYS do
  local all, fields = redis.call('HGETALL', KEYS[k]), {}
  for i = 1, #all, 2 do
    if #all[i] + #all[i + 1] <= tonumber(ARGV[1]) and #fields < 2 * tonumber(ARGV[2]) then
      fields[#fields + 1] = all[i]
      fields[#fields + 1] = all[i + 1]
    end
  end
  found[k] = fields
end
return found`)

// fields returns the fields of hashes that have at most size bytes, at most most of each.
func (r Record) fields(ctx context.Context, keys []string, size, most int) (all []map[string]string, err error) {
	reply, err := r.run(ctx, hashes, keys, size, most)
	if err != nil {
		return nil, err
	}
	found, _ := reply.([]any)
	if len(found) != len(keys) {
		return nil, fmt.Errorf("%w: %d hashes of %d", ErrRecord, len(found), len(keys))
	}
	for _, fields := range found {
		all = append(all, pairs(fields))
	}
	return all, nil
}

// RulesOf returns the rules of groups, without those of groups that have gone, and of those whose list is not well formed;
// the error is then an ErrRecord.
func (r Record) RulesOf(ctx context.Context, groups []string) (lists map[string][]string, err error) {
	var args []any
	for _, name := range groups {
		args = append(args, name)
	}
	reply, failed := r.run(ctx, GroupRules, []string{r.rules()}, args...)
	texts, _ := reply.([]any)
	if failed == nil && len(texts) != len(groups) {
		failed = fmt.Errorf("%w: %d lists of rules for %d groups", ErrRecord, len(texts), len(groups))
	}
	if failed != nil {
		return nil, failed
	}
	lists = make(map[string][]string, len(groups))
	for i, name := range groups {
		if text, ok := texts[i].(string); ok {
			if rules, ok := parseRules(text); ok && GroupOf(rules).Name == name {
				lists[name] = rules
			} else {
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
