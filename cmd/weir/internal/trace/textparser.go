package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A textParser parses the lines of a textFormat.
type textParser struct {
	begin    string
	segments []segment // up to the last one that is needed
	checks   []check   // of each segment
	columns  columns
	client   bool // the format begins with clientFirst

	values    [][]byte
	kinds     map[string]string // kinds of words, because clients are repeated
	unescaped []byte            // the values of the latest line that had escapes
}

// A check is a condition for the value of a segment, by which a format is recognized.
type check uint8

const (
	anyText check = iota
	aStatus
	aTime
	aDate
	aClock // a time of day
	aClient
)

// newTextParser returns the parser of a format, and an error if the format is invalid, has no time or key, or has no
// field of f.
func newTextParser(format textFormat, f Fields) (*textParser, error) {
	p := &textParser{kinds: map[string]string{}}
	var err error
	if p.begin, p.segments, err = segmentsOf(format); err != nil {
		return p, err
	}
	p.client = strings.HasPrefix(format.line, clientFirst)
	names := make([]string, len(p.segments))
	for i, s := range p.segments {
		names[i] = s.name
	}
	var missing string
	if p.columns, missing = columnsOf(f, names); missing != "" {
		return p, fmt.Errorf("a log has no field %q; its fields are %s", missing, list(p.segments))
	}
	if len(p.columns[fieldTime]) == 0 {
		return p, fmt.Errorf("%q has no time, such as $time_local, $time_iso8601 or $msec: name another field with -time", format.line)
	}
	if len(p.columns[fieldKey]) == 0 {
		return p, fmt.Errorf("%q has no key, such as $remote_addr: name another field with -key", format.line)
	}
	p.checks = make([]check, len(names))
	needed := 0
	for field, positions := range p.columns {
		if len(positions) == 0 {
			continue
		}
		p.columns[field] = positions[:1] // the others may be behind the end of a line
		needed = max(needed, positions[0])
		switch field {
		case fieldKey:
			if slices.Contains(defaultNames[fieldKey], names[positions[0]]) {
				p.checks[positions[0]] = aClient
			}
		case fieldStatus:
			p.checks[positions[0]] = aStatus
		case fieldDate:
			p.checks[positions[0]] = aDate
		case fieldTime:
			p.checks[positions[0]] = aTime
			if len(p.columns[fieldDate]) > 0 {
				p.checks[positions[0]] = aClock
			}
		}
	}
	p.segments = p.segments[:needed+1]
	return p, nil
}

// maxPrefix is the length in bytes of the words that a collector of logs may put before a line.
const maxPrefix = 256

// parse reads a line. Its format may begin after any word. If it begins with clientFirst, [textParser.clientOf] finds the
// first field.
func (p *textParser) parse(line []byte, rec *record) (reason string) {
	most := -1
	for at := 0; at <= maxPrefix; {
		n, why := p.match(line[at:], at == 0)
		if why == "" {
			break
		}
		if n > most {
			most, reason = n, why
		}
		space := bytes.IndexByte(line[at:], ' ')
		if space < 0 || p.client {
			return reason
		}
		if at += space + 1; at > maxPrefix {
			return reason
		}
	}
	p.columns.fill(p.values, rec)
	// Bytes that are not HTTP are logged in place of a request, too.
	if _, _, ok := splitRequest(rec[fieldRequest]); !ok {
		rec[fieldRequest] = nil
	}
	return ""
}

// match sets p.values to the values of a line. It returns the number of them and the reason if the line has another
// format.
func (p *textParser) match(line []byte, first bool) (n int, reason string) {
	p.values, p.unescaped = p.values[:0], p.unescaped[:0]
	rest, ok := bytes.CutPrefix(line, []byte(p.begin))
	if !ok {
		return 0, p.segments[0].reason
	}
	if p.client {
		before, after, ok := bytes.Cut(rest, []byte(" ["))
		if !ok {
			return 0, p.segments[0].reason
		}
		host, user, ok := p.clientOf(before)
		if !ok {
			return 0, p.segments[0].reason
		}
		p.values, rest = append(p.values, host, user), after
	}
	for i := len(p.values); i < len(p.segments); i++ {
		s := &p.segments[i]
		var value []byte
		last := i == len(p.segments)-1
		if s.quoted {
			if value, rest, ok = p.unquote(rest); ok && !last {
				if rest, ok = bytes.CutPrefix(rest, []byte(s.end[1:])); !ok {
					return i, p.segments[i+1].reason
				}
			}
		} else {
			end := s.end
			if end == "" { // not the empty text before rest
				end = "\n"
			}
			value, rest, ok = bytes.Cut(rest, []byte(end))
			value, ok = bytes.TrimSpace(value), ok || last
		}
		if !ok || !p.passes(p.checks[i], value, first && i == 0 || s.quoted) {
			return i, s.reason
		}
		p.values = append(p.values, value)
	}
	return len(p.values), ""
}

// passes reports whether a value can be that of a segment. delimited reports whether the value is in quotation marks, or
// begins the line: only then can it be a name or "-", because no prefix can be a part of it.
func (p *textParser) passes(c check, value []byte, delimited bool) bool {
	switch c {
	case aStatus:
		return string(value) == "-" || len(value) == 3 && isDigit(value[0]) && isDigit(value[1]) && isDigit(value[2])
	case aTime:
		return isTime(value)
	case aDate:
		return len(value) == len("2006-01-02") && isTime(value)
	case aClock:
		return len(value) >= len("15:04:05") && value[2] == ':' && bytes.IndexByte(value, ' ') < 0
	case aClient:
		if len(value) > maxInternedText { // parse may come here after each word
			return clientOfList(string(value)) != ""
		}
		kind := p.kind(value)
		return kind == anAddress || kind == withAddress && clientOfList(string(value)) != "" || delimited && kind == aName
	}
	return true
}

// unquote returns the text before the quotation mark that ends it, without escapes, and the text
// after it. ok is false if there is no such mark.
func (p *textParser) unquote(text []byte) (content, rest []byte, ok bool) {
	end := bytes.IndexAny(text, `"\`)
	if end < 0 {
		return nil, nil, false
	}
	if text[end] == '"' {
		return text[:end], text[end+1:], true
	}
	begin := len(p.unescaped)
	p.unescaped = append(p.unescaped, text[:end]...)
	for i := end; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return p.unescaped[begin:], text[i+1:], true
		case c != '\\':
		case i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2]) && isHex(text[i+3]):
			c = hexValue(text[i+2])<<4 | hexValue(text[i+3])
			i += 3
		case i+1 < len(text):
			i++
			if c = text[i]; c == 'n' || c == 'r' || c == 't' || c == 'v' || c == 'b' {
				c = ' ' // Apache writes control characters so; none of them is valid in a request
			}
		}
		p.unescaped = append(p.unescaped, c)
	}
	return nil, nil, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
