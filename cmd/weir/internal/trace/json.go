package trace

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A jsonParser parses JSON lines. A line without a key can have a member with a line of another format, as in the files
// of docker.
type jsonParser struct {
	names [fields][]string
	// The objects of the latest line, without a dot at the end of their names: the line itself is "".
	objects map[string]map[string]json.RawMessage
	deep    bool // there can be other objects in the line
	nested  bool // the line is in another one

	recognizer recognizer // of the lines in lines
	inner      lineParser // nil until a line was recognized
	settled    bool       // the next lines in lines have the same format
}

// maxMembers is the number of members up to which the map of a line is used for the next one.
const maxMembers = 256

// wrappers are the members of an object that has a line of a program: of docker, of most collectors, and of journald.
var wrappers = []string{"log", "message", "MESSAGE"}

func newJSONParser(o Options) *jsonParser {
	return &jsonParser{names: o.Fields.names(), objects: make(map[string]map[string]json.RawMessage), recognizer: recognizer{options: Options{Fields: o.Fields}}}
}

func (p *jsonParser) parse(line []byte, rec *record) (reason string) {
	members := p.objects[""]
	clear(p.objects)
	if len(members) > maxMembers {
		members = nil
	}
	clear(members)
	line = objectOf(line)
	p.deep = bytes.LastIndexByte(line, '{') > 0
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return "not a JSON object"
	}
	p.objects[""] = members
	for field, names := range p.names {
		for _, name := range names {
			if rec.offer(field, p.text(name)) {
				break
			}
		}
	}
	if rec[fieldKey] == nil && !p.nested {
		return p.unwrap(rec)
	}
	return ""
}

// objectOf returns the text of the object in a line: the whole line without the comma of an element of an array, or the
// text after the words that a collector of logs has put before it.
func objectOf(line []byte) []byte {
	line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(","))
	begin := bytes.IndexByte(line[:min(len(line), maxPrefix)], '{')
	if begin > 0 && (line[begin-1] == ' ' || line[begin-1] == '\t') && bytes.HasSuffix(line, []byte("}")) {
		return line[begin:]
	}
	return line
}

// isJSON reports whether line is an object, which may be broken, or words and a valid object.
func isJSON(line []byte) bool {
	object := objectOf(line)
	return bytes.HasPrefix(object, []byte("{")) && (len(object) == len(bytes.TrimSpace(line)) || json.Valid(object))
}

// unwrap reads the line in the latest line, if there is one. Its time counts before that of the latest line.
func (p *jsonParser) unwrap(rec *record) (reason string) {
	for _, name := range wrappers {
		line := bytes.TrimSpace(p.text(name))
		if len(line) == 0 {
			continue
		}
		if !p.settled {
			if inner, _ := p.recognizer.recognizeLine(line); inner != nil {
				p.inner = inner
			}
			if json, ok := p.inner.(*jsonParser); ok {
				json.nested = true
			}
		}
		if p.inner == nil {
			continue
		}
		var inner record
		if reason := p.inner.parse(line, &inner); reason != "" {
			return reason
		}
		p.settled = p.settled || present(inner[fieldKey])
		if !present(inner[fieldTime]) {
			inner[fieldTime] = rec[fieldTime]
		}
		*rec = inner
		return ""
	}
	return ""
}

// text returns the text of a member of the line, or of a member of an object in it if the name has dots. It is
// nil if there is no such member, or if its value is no string, number or truth value.
func (p *jsonParser) text(name string) []byte {
	value, ok := p.objects[""][name]
	for at := len(name); !ok && p.deep; {
		if at = strings.LastIndexByte(name[:at], '.'); at < 0 {
			return nil
		}
		value, ok = p.object(name[:at])[name[at+1:]]
	}
	switch {
	case len(value) == 0 || value[0] == '{' || value[0] == '[' || string(value) == "null":
		return nil
	case value[0] == '"':
		return unquoteJSON(value)
	}
	return value
}

// object returns the members of an object in the line, or nil if there is none with the name.
func (p *jsonParser) object(name string) map[string]json.RawMessage {
	if o, known := p.objects[name]; known {
		return o
	}
	value, ok := p.objects[""][name]
	if at := strings.LastIndexByte(name, '.'); !ok && at >= 0 {
		value = p.object(name[:at])[name[at+1:]]
	}
	var o map[string]json.RawMessage
	if bytes.HasPrefix(value, []byte("{")) {
		_ = json.Unmarshal(value, &o) // it is valid
	}
	p.objects[name] = o
	return o
}

// unquoteJSON returns the content of a valid JSON string.
func unquoteJSON(text []byte) []byte {
	content := text[1 : len(text)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	var s string
	_ = json.Unmarshal(text, &s) // text is valid
	return []byte(s)
}
