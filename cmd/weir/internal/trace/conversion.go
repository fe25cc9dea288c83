package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The advice if a line tells nothing about the file, and if it has only a time.
const (
	describe = `describe its lines with -format in the syntax of nginx, such as '$remote_addr - $remote_user [$time_local] "$request" $status'`
	nameKey  = "name the field of its key with -key"
)

// conversion returns advice to read a file with a broken line, and without events: a command that converts the file, or
// the flags that name its fields. array reports whether the line is in an array, and forced whether the format was chosen.
func conversion(file string, line []byte, rec *record, array, forced bool) string {
	text := string(bytes.TrimSpace(line))
	inside := strings.TrimSpace(strings.TrimPrefix(text, "["))
	switch {
	case forced:
		return "leave -format out, or " + describe
	case array && text == "{", strings.HasPrefix(inside, "{") && inside != text:
		return "convert the array of JSON: " + jq(".[]", file)
	case text == "{":
		return "convert the JSON to one object in a line: " + jq(".", file)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(objectOf(line), &members); err != nil || members == nil {
		if isTime(rec[fieldTime]) {
			return nameKey
		}
		return describe
	}
	texts := map[string][]byte{}
	flatten("", members, texts, maxDepth)
	names := slices.Sorted(maps.Keys(texts))
	flags, none := "", true
	add := func(flag string, found bool, is func(text string) bool) {
		i := slices.IndexFunc(names, func(name string) bool { return is(string(texts[name])) })
		if none = none && i < 0; !found && i >= 0 {
			flags += " " + flag + " " + shell(names[i])
		}
	}
	add("-time", isTime(rec[fieldTime]), func(text string) bool { return isTime([]byte(text)) })
	add("-key", present(rec[fieldKey]), func(text string) bool { return isAddress(text) || key(text) != text })
	if none && text[0] == '{' {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(members[name], []byte("[")), " "), []byte("{")) && members[name][0] == '[' {
				return "convert the array of JSON: " + jq("."+quoteMember(name)+"[]", file)
			}
		}
	}
	if flags != "" {
		return "name its fields:" + flags
	}
	more := ""
	if n := len(names) - maxNames; n > 0 {
		names, more = names[:maxNames], fmt.Sprintf(" and %d others", n)
	}
	return "name its fields with -time and -key; it has " + cmp.Or(strings.Join(names, ", "), "none") + more
}

const (
	maxDepth = 8  // of the objects whose members are fields in the advice
	maxNames = 20 // that the advice lists
)

// flatten adds the texts of an object and of the objects in it, up to a depth, by their names with prefix and dots.
func flatten(prefix string, members map[string]json.RawMessage, texts map[string][]byte, depth int) {
	for name, value := range members {
		name = prefix + name
		switch value[0] {
		case '{':
			var inner map[string]json.RawMessage
			if depth > 1 {
				_ = json.Unmarshal(value, &inner) // it is valid
			}
			flatten(name+".", inner, texts, depth-1)
		case '[': // no field
		case '"':
			texts[name] = unquoteJSON(value)
		default:
			texts[name] = value
		}
	}
}

// jq returns the command that applies a filter to a file, and prints an object in each line.
func jq(filter, file string) string {
	filter = shell(filter)
	switch {
	case file == "-":
		return "jq -c " + filter
	case strings.HasSuffix(file, ".gz"):
		return "gzip -dc " + shell(file) + " | jq -c " + filter
	}
	return "jq -c " + filter + " " + shell(file)
}

// quoteMember returns the name of a member as in a filter of jq.
func quoteMember(name string) string {
	text, _ := json.Marshal(name)
	return string(text)
}

// shell returns text as a word of a shell.
func shell(text string) string {
	plain := func(r rune) bool { return isVariable(r) || strings.ContainsRune("./-@:+,", r) }
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
