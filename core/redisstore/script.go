package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/internal/waiters"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A script is the Lua source of one EVALSHA: whole files of directory lua, one after the other. The
// source depends only on the verb and on the libraries of the charges, so clients cannot cause many
// scripts.
type script struct {
	source string
	sha    any // a string, boxed once
}

// A verb is the name of the Lua file that decides.
type verb string

const (
	take   verb = "take"
	atMost verb = "at_most" // a take with AtMost
	adjust verb = "adjust"
)

// A librarySet is a set of libraries: bit i represents libraries[i].
type librarySet uint8

// A scriptCache contains the scripts of a verb.
type scriptCache [1 << len(libraries)]struct {
	once   sync.Once
	script *script
}

var scripts = map[verb]*scriptCache{take: {}, atMost: {}, adjust: {}}

// scriptFor returns the script for a verb and a set of libraries.
func scriptFor(v verb, set librarySet) *script {
	cached := &scripts[v][set]
	cached.once.Do(func() { cached.script = newScript(v, set) })
	return cached.script
}

// constants replaces the names of constants of Go in Lua. Variables would cost time in each function
// that captures them.
var constants = strings.NewReplacer(
	"MAX_INTEGER", strconv.FormatInt(maxInteger, 10),
	"MAX_COUNT", strconv.FormatInt(maxCount, 10),
	"MAX_PLACES", strconv.FormatInt(maxPlaces, 10),
	"HORIZON", strconv.FormatInt(horizon, 10),
	"COST_RANGE", strconv.Itoa(1<<costBits),
	"MAX_PAUSE", strconv.FormatInt(maxPause, 10),
	"MAX_QUEUES", strconv.Itoa(maxQueues),
	"QUEUE_LEASE", strconv.FormatInt(queueHold.Microseconds(), 10),
	"LAST_QUEUE", "'-4294967296'", // the score of no queue; that of the total of in_flight.lua is higher
	"PER_PROCESS", strconv.Itoa(waiters.PerProcess),
)

// numbered reports whether the scripts for a verb and a set of libraries take places, whose number is an argument.
func numbered(v verb, set librarySet) bool {
	return v != adjust && set&(1<<inFlight) != 0
}

// newScript concatenates the clock, the table of the algorithms, the libraries, a decision, and the
// loop over the decisions. It leaves out comments and empty lines.
func newScript(v verb, set librarySet) *script {
	files := []string{"clock", "algorithms"}
	if set&(1<<inFlight) != 0 {
		files = append(files, "queues")
	}
	for i, name := range libraries {
		if set&(1<<i) != 0 {
			files = append(files, name.(string))
			own := fmt.Sprintf("%s_%s", name, v)
			if v == atMost && !exists(own) {
				own = fmt.Sprintf("%s_%s", name, take)
			}
			if v == adjust || exists(own) {
				files = append(files, own)
			}
		}
	}
	first := "2" // the index of the first argument of a decision
	if numbered(v, set) {
		first = "3"
	}
	var b strings.Builder
	for _, name := range append(files, string(v), "decisions") {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("redisstore: " + err.Error()) // a file of luaFiles is missing
		}
		for line := range strings.Lines(string(text)) {
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
				_, _ = constants.WriteString(&b, strings.Replace(line, "FIRST", first, 1))
			}
		}
	}
	return newSource(b.String())
}

// exists reports whether luaFiles has a file.
func exists(name string) bool {
	_, err := fs.Stat(luaFiles, "lua/"+name+".lua")
	return err == nil
}

// newSource returns the script with a source, whose hash identifies it in EVALSHA.
func newSource(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}
