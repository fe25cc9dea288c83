package trace

import (
	"bytes"
	"strconv"
)

// A logfmtParser parses lines of pairs such as key=value or key="a value", as package slog writes them. Words without
// a "=" are ignored.
type logfmtParser struct {
	names [fields][]string
	known map[string]bool   // the names
	pairs map[string][]byte // of the latest line
}

func newLogfmtParser(f Fields) *logfmtParser {
	p := &logfmtParser{names: f.names(), known: map[string]bool{}, pairs: map[string][]byte{}}
	for _, names := range p.names {
		for _, name := range names {
			p.known[name] = true
		}
	}
	return p
}

func (p *logfmtParser) parse(line []byte, rec *record) (reason string) {
	clear(p.pairs)
	for rest := bytes.TrimSpace(line); len(rest) > 0; rest = bytes.TrimLeft(rest, " \t") {
		end := bytes.IndexAny(rest, " \t=")
		if end < 0 || rest[end] != '=' {
			rest = rest[max(end, 0)+1:]
			if end < 0 {
				break
			}
			continue
		}
		name, value := rest[:end], rest[end+1:]
		quoted := bytes.HasPrefix(value, []byte(`"`))
		if quoted {
			if end = quotedEnd(value); end < 0 {
				return "a quotation mark is missing"
			}
		} else if end = bytes.IndexAny(value, " \t"); end < 0 {
			end = len(value)
		}
		value, rest = value[:end], value[end:]
		if !p.known[string(name)] {
			continue
		}
		if quoted {
			text, err := strconv.Unquote(string(value))
			if err != nil {
				return "a quoted value is invalid"
			}
			value = []byte(text)
		}
		p.pairs[string(name)] = value
	}
	for field, names := range p.names {
		for _, name := range names {
			if rec.offer(field, p.pairs[name]) {
				break
			}
		}
	}
	return ""
}

// quotedEnd returns the length of the value in quotation marks at the beginning of text, or -1 if it has no end.
func quotedEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
