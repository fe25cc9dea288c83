package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// A script is the Lua of one EVALSHA: whole files of directory lua, one after the other. Its
// verb and the set of libraries that its charges need choose it, so there are few scripts,
// whatever charges a client can cause.
type script struct {
	source string
	sha    any // a string, boxed once
}

// A verb is one of the two loops over charges.
type verb string

const (
	take   verb = "take"
	adjust verb = "adjust"
)

// A librarySet is a set of libraries: bit i stands for libraries[i].
type librarySet uint8

// libraries are the algorithms in Lua, by their names in the arguments of scripts. Library
// "x" is the files x.lua, for take x_take.lua, and for adjust x_adjust.lua.
var libraries = [...]any{ // strings, boxed once
	bucket:        "bucket",
	fixedWindow:   "fixed_window",
	slidingWindow: "sliding_window",
	slidingLog:    "sliding_log",
}

// A library is an index of libraries.
type library uint8

const (
	bucket library = iota
	fixedWindow
	slidingWindow
	slidingLog
)

// takeBucket is the script of a [call] that is short.
var takeBucket = newScript("clock", "bucket", "take_bucket")

type scriptCache [1 << len(libraries)]struct {
	once   sync.Once
	script *script
}

var takeScripts, adjustScripts scriptCache

// scriptFor returns the script of a verb and the libraries that it needs.
func scriptFor(v verb, set librarySet) *script {
	cache := &takeScripts
	if v == adjust {
		cache = &adjustScripts
	}
	cached := &cache[set]
	cached.once.Do(func() { cached.script = newScript(scriptFiles(v, set)...) })
	return cached.script
}

// scriptFiles returns the files of a script in their order: the clock, the registry of
// algorithms, the algorithms, and the loop of the verb.
func scriptFiles(v verb, set librarySet) []string {
	files := []string{"clock", "algorithms"}
	for i, name := range libraries {
		if set&(1<<i) != 0 {
			files = append(files, name.(string), fmt.Sprintf("%s_%s", name, v))
		}
	}
	return append(files, string(v))
}

// newScript concatenates files, without the lines that are comments or empty.
func newScript(files ...string) *script {
	var b strings.Builder
	for _, name := range files {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic("redisstore: " + err.Error()) // embedded: it is there or the build is broken
		}
		for line := range strings.Lines(string(text)) {
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
				b.WriteString(line)
			}
		}
	}
	sum := sha1.Sum([]byte(b.String())) // the name by which EVALSHA knows it
	return &script{source: b.String(), sha: hex.EncodeToString(sum[:])}
}
