package trace

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A jsonParser parses JSON lines.
type jsonParser struct {
	object object
	ends   [fields]int // end of the texts of each field in object.texts; they begin at the end of the one before
}

func newJSONParser(f Fields) *jsonParser {
	p := new(jsonParser)
	slot := 0
	for field, names := range f.names() {
		for _, name := range names {
			p.object.wanted.add(strings.Split(name, "."), slot)
			slot++
			if strings.Contains(name, ".") { // in the name itself
				p.object.wanted.add([]string{name}, slot)
				slot++
			}
		}
		p.ends[field] = slot
	}
	p.object.texts = make([][]byte, slot)
	return p
}

func (p *jsonParser) parse(line []byte, rec *record) (reason string) {
	if !p.object.read(line) {
		return "not a JSON object"
	}
	begin := 0
	for field, end := range p.ends {
		for _, text := range p.object.texts[begin:end] {
			if len(text) > 0 && text[0] == '"' {
				text = unquoteJSON(text)
			}
			if present(text) {
				rec[field] = text
				break
			}
		}
		begin = end
	}
	return ""
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
