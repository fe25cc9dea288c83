package redisstore

import (
	"embed"
	"strings"
)

//go:embed lua/*.lua
var files embed.FS

// A source is an algorithm's Lua file, taken apart at its "--- name" lines. What
// follows the name on such a line is a one-line section.
type source map[string]string

var prelude = luaFile("take.lua")

func luaFile(name string) string {
	text, err := files.ReadFile("lua/" + name)
	if err != nil {
		panic("redisstore: " + err.Error()) // embedded: it is there or the build is broken
	}
	return string(text)
}

func parseSource(name string) source {
	s := make(source)
	section := "header"
	for line := range strings.Lines(luaFile(name)) {
		if title, ok := strings.CutPrefix(line, "--- "); ok {
			var rest string
			section, rest, _ = strings.Cut(strings.TrimSpace(title), " ")
			line = rest
		}
		s[section] += line
	}
	return s
}
