package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
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

// libraries are the algorithms in Lua, by their names in the arguments of scripts, with the
// files of each.
var libraries = [...]struct {
	name   any // a string, boxed once
	files  []string
	adjust string // the file that only adjust needs
}{
	bucket:        {"bucket", []string{"bucket", "bucket_charge"}, "bucket_adjust"},
	fixedWindow:   {"fixed_window", []string{"fixed_window"}, "fixed_window_adjust"},
	slidingWindow: {"sliding_window", []string{"sliding_window"}, "sliding_window_adjust"},
	slidingLog:    {"sliding_log", []string{"sliding_log"}, "sliding_log_adjust"},
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

func scriptFiles(v verb, set librarySet) []string {
	files := []string{"clock", "algorithms"}
	for i, l := range libraries {
		if set&(1<<i) == 0 {
			continue
		}
		files = append(files, l.files...)
		if v == adjust {
			files = append(files, l.adjust)
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
