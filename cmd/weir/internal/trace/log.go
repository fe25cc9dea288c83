package trace

import (
	"bytes"
	"fmt"
	"strings"
)

// A logParser parses the common and the combined log format of Apache and nginx.
type logParser struct {
	user    bool              // the key is the user
	kinds   map[string]string // kinds of words, because clients are repeated
	request []byte            // the latest request that had escapes
}

const (
	remoteAddr = "remote_addr"
	remoteUser = "remote_user"
	notALog    = "not a line of the common or combined log format"
)

// newLogParser returns a parser, and an error if f has names that a log does not have.
func newLogParser(f Fields) (*logParser, error) {
	p := &logParser{user: f.Key == remoteUser, kinds: map[string]string{}}
	for field, name := range f.chosen() {
		if name != "" && (field != fieldKey || name != remoteAddr && name != remoteUser) {
			return p, fmt.Errorf("a log has no field %q; its keys are %s or %s", name, remoteAddr, remoteUser)
		}
	}
	return p, nil
}

// parse reads
//
//	[PREFIX] HOST IDENT USER [TIME] "REQUEST" STATUS ...
func (p *logParser) parse(line []byte, rec *record) (reason string) {
	client, rest, ok := bytes.Cut(line, []byte(" ["))
	if !ok {
		return notALog
	}
	host, user, ok := p.client(client)
	if !ok {
		return notALog
	}
	if rec[fieldKey] = host; p.user {
		rec[fieldKey] = user
	}

	if rec[fieldTime], rest, ok = bytes.Cut(rest, []byte(`] "`)); !ok {
		return notALog
	}
	request, rest, ok := p.unquote(rest)
	if !ok {
		return "the request has no end"
	}
	// Bytes that are not HTTP are logged in place of a request, too.
	if _, _, ok := splitRequest(request); ok {
		rec[fieldRequest] = request
	}
	status, _, _ := bytes.Cut(bytes.TrimPrefix(rest, []byte(" ")), []byte(" "))
	if string(status) != "-" && (len(status) != 3 || !isDigit(status[0]) || !isDigit(status[1]) || !isDigit(status[2])) {
		return "no status after the request"
	}
	rec[fieldStatus] = status
	return ""
}

// The kinds of a word in place of a HOST.
const (
	anAddress   = "address"
	withAddress = "with an address" // and other text, such as a list of addresses
	aName       = "name"
)

// client returns the HOST and the USER of the text before the time of a line. The HOST is the word before the first
// "-", which is the IDENT of nearly all lines. A PREFIX is a virtual host, or the words that a collector of logs puts
// before a line: after it, the HOST has to be an address. ok is false if another word can be the HOST.
func (p *logParser) client(text []byte) (host, user []byte, ok bool) {
	if before, user, ok := bytes.Cut(text, []byte(" - ")); ok {
		begin := bytes.LastIndexByte(before, ' ') + 1
		if comma := bytes.Index(before, []byte(", ")); comma >= 0 {
			begin = bytes.LastIndexByte(before[:comma], ' ') + 1
		}
		host, first := before[begin:], begin == 0
		ambiguous := bytes.Contains(user, []byte(" - "))
		switch kind := p.kind(host); {
		case kind == withAddress, // which has no key
			kind == anAddress && (first || !ambiguous),
			kind == aName && first && !ambiguous && !hasAddress(string(user)):
			return host, user, true
		}
	}
	words := bytes.SplitN(text, []byte(" "), 5)
	if len(words) != 3 && len(words) != 4 {
		return nil, nil, false
	}
	switch second := p.kind(words[1]) == anAddress; {
	case second && len(words) == 4 && !bytes.HasSuffix(words[0], []byte(",")): // PREFIX HOST IDENT USER
		return words[1], words[3], true
	case !second && p.kind(words[0]) == anAddress:
		// With 4 words, either the IDENT is not the second word, or the USER has a space.
		return words[0], bytes.TrimPrefix(text[len(words[0])+len(words[1])+2:], []byte("- ")), true
	}
	return nil, nil, false
}

func (p *logParser) kind(word []byte) string { return intern(p.kinds, word, kindOf) }

func kindOf(word string) string {
	switch {
	case isAddress(word):
		return anAddress
	case hasAddress(word):
		return withAddress
	case isName(word):
		return aName
	}
	return ""
}

// isName reports whether word is the name of a host, "-" for no client, or "unix:", the name that nginx has for the
// client of a Unix socket. An address that is cut off or follows other characters is no name.
func isName(word string) bool {
	const digits, others = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	last := word[strings.LastIndexByte(word, '.')+1:]
	number := last != word && last != "" && strings.Trim(last, digits) == ""
	return word == "unix:" || word != "" && !number && strings.Trim(word, digits+others+".") == ""
}

// unquote returns the text before the quotation mark that ends it, without escapes, and the text
// after it. ok is false if there is no such mark.
func (p *logParser) unquote(text []byte) (content, rest []byte, ok bool) {
	end := bytes.IndexAny(text, `"\`)
	if end < 0 {
		return nil, nil, false
	}
	if text[end] == '"' {
		return text[:end], text[end+1:], true
	}
	p.request = append(p.request[:0], text[:end]...)
	for i := end; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return p.request, text[i+1:], true
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
		p.request = append(p.request, c)
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
