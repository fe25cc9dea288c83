package redisstore

import (
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/testkit"
)

// Clock makes scripts take the time from clock, which returns Unix microseconds as decimal text.
func Clock(clock func() string) Option { return option(func(c *config) { c.clock = clock }) }

// Key returns the key for the state of a rule of an identity.
func (s *Store) Key(identity string, r core.Rule) string {
	return s.StateKey(identity, testkit.Compiled(r))
}

// StateKey is Key for a compiled rule.
func (s *Store) StateKey(identity string, r *driver.Compiled) string {
	return s.encoder.Key(s.encoder.Tag(identity), r)
}

// Versions returns the version of the state of each algorithm.
func Versions() map[string]string {
	versions := make(map[string]string)
	for _, a := range testkit.Algorithms {
		key := new(wire.Encoder).Key("", testkit.Compiled(a.Rule("r", core.PerMinute(1))))
		versions[a.Name], _, _ = strings.Cut(strings.TrimPrefix(key, "{}"), ":")
	}
	return versions
}

// Scripts returns the script with all libraries for each verb, by the name of its file, and for the
// hash of each script of that verb the name of that file. Scripts that take places have an argument more.
func Scripts() (sources map[string]string, files map[any]string) {
	sources, files = make(map[string]string), make(map[any]string)
	most := make(map[string]int) // the number of libraries of the script in sources
	for name, script := range wire.Scripts() {
		verb, libraries, _ := strings.Cut(name, " ")
		file := verb + ".lua"
		if verb != "adjust" && !strings.Contains(libraries, "in_flight") {
			file = verb + "_rates.lua"
		}
		files[script.SHA] = file
		if n := len(strings.Fields(libraries)); n > most[file] {
			most[file], sources[file] = n, script.Source
		}
	}
	return sources, files
}
