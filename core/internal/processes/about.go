package processes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An About describes a process in its heartbeats.
type About struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Started int64  `json:"started"` // Unix milliseconds, by its clock
	Version string `json:"version"` // of the application
	// Switches is the number of the last change of switches that is in force and 1, or 0 if the process does not follow them.
	Switches int64 `json:"switches,omitempty"`

	Sets []Set `json:"sets,omitempty"`
}

// A Set describes a rules.Set of a process.
type Set struct {
	Source   string   `json:"source"` // the name of its configuration, and its version
	Config   string   `json:"config"`
	Policies []string `json:"policies"`
	Disabled []string `json:"disabled,omitempty"`
	More     bool     `json:"more,omitempty"`    // policies are left out
	Follows  bool     `json:"follows,omitempty"` // it watches the overrides of this application
	Changes  string   `json:"changes,omitempty"` // the ID of the last change of them that is in force
	Secret   string   `json:"secret,omitempty"`  // tells whether two key secrets are equal
	Lost     int64    `json:"lost,omitempty"`    // when it found that Redis had lost the overrides, in Unix milliseconds; 0 if not, or after a change
}

const (
	// maxAbout is the length of the JSON of an About.
	maxAbout = 8 << 10
	// maxSets is the number of Sets of a process, and maxPolicies that of the names of policies in an About.
	maxSets, maxPolicies = 8, 64
)

// self is the About of this process, without that of a Set.
var self = About{PID: os.Getpid(), Started: time.Now().UnixMilli(), Version: version()}

func init() { self.Host, _ = os.Hostname() }

// version returns the version of the main module, or the revision of its repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
}

// text returns the JSON of a, whose texts and lists it makes shorter if they are too long.
func (a About) text() string {
	const long = 128
	shorten := func(texts ...*string) {
		for _, text := range texts {
			if *text = strings.ToValidUTF8(*text, "?"); len(*text) > long {
				*text = strings.ToValidUTF8((*text)[:long], "")
			}
		}
	}
	shorten(&a.Host, &a.Version)
	a.Sets = slices.Clone(a.Sets[:min(len(a.Sets), maxSets)])
	left := maxPolicies
	for i := range a.Sets {
		s := &a.Sets[i]
		shorten(&s.Source, &s.Config, &s.Changes, &s.Secret)
		if len(s.Policies) > left || len(s.Disabled) > left || slices.ContainsFunc(s.Policies, func(name string) bool { return len(name) > 64 }) {
			s.Policies, s.Disabled, s.More = nil, nil, true
		}
		left -= len(s.Policies)
	}
	text, _ := json.Marshal(a)
	if len(text) > maxAbout {
		a.Host, a.Sets = "", nil
		text, _ = json.Marshal(a)
	}
	return string(text)
}

// A Process is a process with a heartbeat.
type Process struct {
	ID string
	About
	Group string
	Seen  time.Time // its last heartbeat, by the clock of Redis
}

// Processes returns the processes of the application, with the latest start first, and the rules of their groups, which are
// nil if they are not known. An About that is not well formed is empty, and the error then an ErrRecord.
func (r Record) Processes(ctx context.Context) (all []Process, rules map[string][]string, err error) {
	reply, err := r.Do(ctx, r.Trial(true)...)
	if err != nil {
		return nil, nil, err
	}
	elements, _ := reply.([]any)
	read, damaged := parse(elements)
	if read.Counts == nil {
		return nil, nil, damaged
	}
	var groups []string
	for name := range read.Counts {
		if name != All && name != None {
			groups = append(groups, name)
		}
	}
	rules = map[string][]string{}
	if groups != nil {
		if rules, err = r.RulesOf(ctx, groups); rules == nil {
			return nil, nil, err
		}
		damaged = cmp.Or(damaged, err)
	}
	var keys []string
	names := slices.Sorted(maps.Keys(read.Counts))
	if names == nil {
		return nil, rules, damaged
	}
	for _, name := range names {
		keys = append(keys, r.set(name), r.about(name))
	}
	reply, err = r.run(ctx, members, keys, maxAbout, maxListed)
	if err != nil {
		return nil, nil, err
	}
	found, _ := reply.([]any)
	if len(found) != len(names) {
		return nil, nil, fmt.Errorf("%w: %d groups of %d", ErrRecord, len(found), len(names))
	}
	for i, group := range found {
		list, _ := group.([]any)
		for m := range slices.Chunk(list, 3) {
			if len(m) < 3 {
				break
			}
			id, _ := m[0].(string)
			at, _ := strconv.ParseFloat(fmt.Sprint(m[1]), 64)
			text, _ := m[2].(string)
			p := Process{ID: id, Group: names[i], Seen: time.UnixMilli(int64(at))}
			if json.Unmarshal([]byte(text), &p.About) != nil {
				p.About, damaged = About{}, cmp.Or(damaged, fmt.Errorf("%w: what a process says", ErrRecord))
			}
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(a.ID, b.ID))
	})
	return all, rules, damaged
}

// maxListed bounds the processes of a group that Processes returns.
const maxListed = 20_000

// members is the script that returns the processes of groups, at most ARGV[2] of each: their names, the times of their
// heartbeats and their descriptions, which are empty if they have more than ARGV[1] bytes. KEYS has the set and the
// descriptions of each group.
var members = newScript(`INCLUDE clock
local found = {}
for k = 1, #KEYS, 2 do
  local from, to = string.format('%d', now - LIFETIME), string.format('%d', now + LIFETIME)
  local living = redis.call('ZRANGEBYSCORE', KEYS[k], from, to, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
  local list = {}
  for i = 1, #living, 2 do
    local text = redis.call('HMGET', KEYS[k + 1], living[i])[1] or ''
    if #text > tonumber(ARGV[1]) then
      text = ''
    end
    list[#list + 1] = living[i]
    list[#list + 1] = living[i + 1]
    list[#list + 1] = text
  end
  found[#found + 1] = list
end
return found`)

// nowScript is the script that returns the time of the server with the record (Unix ms).
var nowScript = newScript("INCLUDE clock\nreturn now")

// now returns the time of Redis.
func (r Record) now(ctx context.Context) (time.Time, error) {
	reply, err := r.run(ctx, nowScript, []string{r.Keys})
	if err != nil {
		return time.Time{}, err
	}
	ms, ok := reply.(int64)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: the reply to the script of the time", ErrRecord)
	}
	return time.UnixMilli(ms), nil
}

// pairs returns a reply of fields and values, or of members and scores, which RESP 3 has as pairs.
func pairs(reply any) map[string]string {
	all := map[string]string{}
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return s
		}
		return fmt.Sprint(v)
	}
	elements, _ := reply.([]any)
	for i := 0; i < len(elements); i++ {
		if pair, ok := elements[i].([]any); ok && len(pair) == 2 {
			all[text(pair[0])] = text(pair[1])
		} else if i+1 < len(elements) {
			all[text(elements[i])] = text(elements[i+1])
			i++
		}
	}
	return all
}
