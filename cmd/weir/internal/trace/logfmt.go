package trace

import (
	"bytes"
	"strconv"
	"strings"
)

// A logfmtParser parses lines of pairs such as key=value or key="a value", as package slog writes them. Words without
// a "=" are ignored.
type logfmtParser struct {
	names [fields][]string
	pairs map[string][]byte // of the latest line
}

func newLogfmtParser(f Fields) *logfmtParser {
	return &logfmtParser{names: f.names(), pairs: map[string][]byte{}}
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
		name := string(rest[:end])
		value := rest[end+1:]
		if bytes.HasPrefix(value, []byte(`"`)) {
			quoted, err := strconv.QuotedPrefix(string(value))
			if err != nil {
				return "a quotation mark is missing"
			}
			rest = value[len(quoted):]
			if value = value[1 : len(quoted)-1]; strings.Contains(quoted, `\`) {
				text, _ := strconv.Unquote(quoted) // it is valid
				value = []byte(text)
			}
		} else {
			value, rest, _ = bytes.Cut(value, []byte(" "))
		}
		p.pairs[name] = value
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
