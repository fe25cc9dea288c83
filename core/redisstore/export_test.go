package redisstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
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
	return s.router.keys.key(s.router.keys.tag(identity), r)
}

// Versions returns the version of the state of each algorithm.
func Versions() map[string]string {
	versions := make(map[string]string)
	for a := range algorithms {
		if algorithms[a].readings > 0 {
			versions[fmt.Sprint(driver.Algorithm(a))] = algorithms[a].version
		}
	}
	return versions
}

// Scripts returns the script with all libraries for each verb, by the name of its file, and for the
// hash of each script of that verb the name of that file. Scripts that take places have an argument more.
func Scripts() (sources map[string]string, files map[any]string) {
	sources, files = make(map[string]string), make(map[any]string)
	for v, cache := range scripts {
		for i := 1; i < len(cache); i++ {
			set := librarySet(i)
			name, all := string(v)+".lua", librarySet(len(cache)-1)
			if v != adjust && !numbered(v, set) {
				name, all = string(v)+"_rates.lua", all&^(1<<inFlight)
			}
			files[scriptFor(v, set).sha], sources[name] = name, scriptFor(v, all).source
		}
	}
	return sources, files
}

// SingleScripts returns the names of the scripts with one library that decisions use, by their hashes.
func SingleScripts() map[string]string {
	names := make(map[string]string)
	for v := range scripts {
		for l := range library(len(libraries)) {
			if v != atMost || l != inFlight { // such an event has no other cost than 1
				names[scriptFor(v, 1<<l).sha.(string)] = fmt.Sprint(v, " ", libraries[l])
			}
		}
	}
	return names
}

// ScriptCommands returns the commands of the check of commands as permissions.
func ScriptCommands() []string {
	var names []string
	for _, c := range scriptCommands {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, "+"+strings.ToLower(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
