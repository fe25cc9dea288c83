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

// The advice if a line tells nothing about the file, if it has only a time, and if that has another form.
const (
	describe     = `describe its lines with -format in the syntax of nginx, such as '$remote_addr - $remote_user [$time_local] "$request" $status'`
	nameKey      = "name the field of its key with -key"
	convertTimes = "times are read as Unix time, as in RFC 3339, and in the forms 2006/01/02 15:04:05 and 02/Jan/2006:15:04:05 -0700: convert them, or name another field with -time"
)

// candidates are the fields of the broken lines of a file without events, by their names. The zero value is ready for use.
type candidates struct {
	texts   map[string][]byte // of the first line
	changed map[string]bool   // those with another text in a later line
	flags   bool              // the advice has flags, which more lines can change
}

// conversion returns advice to read the file of s, which has a line that is broken for a reason, and no events: a command
// that converts the file, or the flags that name its fields. forced reports whether the format was chosen.
func (c *candidates) conversion(s *source, line []byte, reason string, forced bool) string {
	file, rec, array := s.name, &s.record, s.array
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
		switch {
		case c.flags: // by the lines before
			return c.names(rec)
		case isTime(rec[fieldTime]) && reason == unknownTime:
			return convertTimes
		case isTime(rec[fieldTime]):
			return nameKey
		}
		return describe
	}
	c.add(members)
	if advice := c.names(rec); c.flags {
		return advice
	}
	if len(c.times()) == 0 && len(c.keys()) == 0 && text[0] == '{' {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(members[name], []byte("[")), " "), []byte("{")) && members[name][0] == '[' {
				return "convert the array of JSON: " + jq("."+quoteMember(name)+"[]", file)
			}
		}
	}
	names, more := slices.Sorted(maps.Keys(c.texts)), ""
	if n := len(names) - maxNames; n > 0 {
		names, more = names[:maxNames], fmt.Sprintf(" and %d others", n)
	}
	return "name its fields with -time and -key; it has " + cmp.Or(strings.Join(names, ", "), "none") + more
}

// add adds the fields of the object of a line.
func (c *candidates) add(members map[string]json.RawMessage) {
	texts := map[string][]byte{}
	flatten("", members, texts, maxDepth)
	if c.texts == nil {
		c.texts, c.changed = texts, make(map[string]bool)
	}
	for name, text := range texts {
		if first, ok := c.texts[name]; ok && !bytes.Equal(first, text) {
			c.changed[name] = true
		}
	}
}

// names returns the flags that name the fields for the missing ones of rec, and the other candidates.
func (c *candidates) names(rec *record) string {
	flags, others := "", ""
	add := func(flag, what string, found bool, names []string) {
		if found || len(names) == 0 {
			return
		}
		flags += " " + flag + " " + shell(names[0])
		if more := names[1:min(len(names), maxNames)]; len(more) > 0 {
			others += "; other " + what + ": " + strings.Join(more, ", ")
		}
	}
	add("-time", "times", isTime(rec[fieldTime]), c.times())
	add("-key", "addresses", present(rec[fieldKey]), c.keys())
	c.flags = flags != ""
	return "name its fields:" + flags + others
}

// times returns the names of fields that can be the time of a request: those that change, unless none has changed. The
// times of a token or of a configuration, which can change, too, are the last ones.
func (c *candidates) times() []string {
	names := c.sorted(func(text string) bool { return isTime([]byte(text)) }, false, "exp", "iat", "nbf", "auth", "creat", "updat", "issue", "token")
	if changed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.changed[name] }); len(changed) > 0 {
		return changed
	}
	return names
}

// keys returns the names of fields that can be the address of a client. Those of clients by their names are the first
// ones, and those of servers are none.
func (c *candidates) keys() []string {
	names := c.sorted(func(text string) bool { return isAddress(text) || key(text) != text }, true, "client", "remote", "forwarded", "source", "src", "peer", "user")
	return slices.DeleteFunc(names, func(name string) bool {
		return hasWord(name, "local", "upstream", "backend", "server", "dst", "dest", "listener", "target")
	})
}

// sorted returns the names of the fields whose text is such. Those with one of the words are the first or the last ones.
func (c *candidates) sorted(is func(text string) bool, first bool, words ...string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.texts)) {
		if is(string(c.texts[name])) {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		if hasWord(name, words...) == first {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// hasWord reports whether a name contains one of the words, in lower or upper case.
func hasWord(name string, words ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
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
