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
	nested  bool // the line is in another one

	recognizer recognizer // of the lines in lines
	inner      lineParser // nil until a line was recognized
}

// wrappers are the members of an object that has a line of a program: of docker, of most collectors, and of journald.
var wrappers = []string{"log", "message", "MESSAGE"}

func newJSONParser(o Options) *jsonParser {
	return &jsonParser{names: o.Fields.names(), objects: make(map[string]map[string]json.RawMessage), recognizer: recognizer{options: Options{Fields: o.Fields}}}
}

func (p *jsonParser) parse(line []byte, rec *record) (reason string) {
	var members map[string]json.RawMessage
	line = bytes.TrimSuffix(line, []byte(",")) // of an element of an array
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return "not a JSON object"
	}
	clear(p.objects)
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

// unwrap reads the line in the latest line, if there is one. Its time counts before that of the latest line.
func (p *jsonParser) unwrap(rec *record) (reason string) {
	for _, name := range wrappers {
		line := bytes.TrimSpace(p.text(name))
		if len(line) == 0 {
			continue
		}
		if p.inner == nil {
			p.inner, _ = p.recognizer.recognizeLine(line)
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
	for at := len(name); !ok; {
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
