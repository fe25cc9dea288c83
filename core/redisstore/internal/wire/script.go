package wire

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/weir/core/internal/waiters"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A Script is the Lua source of one EVALSHA: whole files of directory lua, one after the other, each with
// those that it includes. The source depends only on the verb, on the libraries of the charges, and on whether each
// decision has one charge, so clients cannot cause many scripts.
type Script struct {
	Source   string
	SHA      any  // a string, boxed once
	numbered bool // it takes places, whose number is an argument
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
	script *Script
}

var scripts = map[verb]*scriptCache{take: {}, atMost: {}, adjust: {}}

// scriptFor returns the script for a verb and a set of libraries.
func scriptFor(v verb, set librarySet) *Script {
	cached := &scripts[v][set]
	cached.once.Do(func() { cached.script = newScript(v, set) })
	return cached.script
}

// Scripts returns all scripts, with the verb and the libraries of each, such as "take bucket quota", and "take one
// bucket".
func Scripts() iter.Seq2[string, *Script] {
	return func(yield func(string, *Script) bool) {
		if !yield("take one bucket", bucketAlone()) {
			return
		}
		for v, cache := range scripts {
			for set := 1; set < len(cache); set++ {
				name := string(v)
				for i, library := range libraries {
					if set&(1<<i) != 0 {
						name += " " + library.(string)
					}
				}
				if !yield(name, scriptFor(v, librarySet(set))) {
					return
				}
			}
		}
	}
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
	"QUEUE_LEASE", strconv.FormatInt(QueueHold.Microseconds(), 10),
	"FAR_FUTURE", strconv.FormatInt(maxInteger/1000, 10),
	"LAST_QUEUE", "'-4294967296'", // the score of no queue; that of the total of in_flight.lua is higher
	"PER_PROCESS", strconv.Itoa(waiters.PerProcess),
)

// newScript concatenates the clock, the table of the algorithms, the libraries, a decision, and the
// loop over the decisions.
func newScript(v verb, set librarySet) *Script {
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
	numbered := v != adjust && set&(1<<inFlight) != 0
	first := "2" // the index of the first argument of a decision
	if numbered {
		first = "3"
	}
	s := compose(first, append(files, string(v), "decisions")...)
	s.numbered = numbered
	return s
}

// bucketKnown is the number of arguments of a request that bucketAlone knows: the first ones, up to the library.
const bucketKnown = 3

// bucketAlone is the script for takes that have one charge each, of a bucket.
var bucketAlone = sync.OnceValue(func() *Script { return compose("2", "clock", "bucket_alone") })

// compose returns the script of Lua files, whose decisions begin at the argument with the index first. It leaves out
// comments and empty lines, and puts a file in place of a line with INCLUDE and its name.
func compose(first string, files ...string) *Script {
	var b strings.Builder
	var add func(name string)
	add = func(name string) {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("weir: " + err.Error()) // a file of luaFiles is missing
		}
		for line := range strings.Lines(string(text)) {
			code := strings.TrimSpace(line)
			included, includes := strings.CutPrefix(code, "INCLUDE ")
			switch {
			case includes:
				add(included)
			case code != "" && !strings.HasPrefix(code, "--"):
				_, _ = constants.WriteString(&b, strings.Replace(line, "FIRST", first, 1))
			}
		}
	}
	for _, name := range files {
		add(name)
	}
	source := b.String()
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// exists reports whether luaFiles has a file.
func exists(name string) bool {
	_, err := fs.Stat(luaFiles, "lua/"+name+".lua")
	return err == nil
}
