package trace

import (
	"bytes"
	"fmt"
	"net/netip"
)

// A logParser parses the common and the combined log format of Apache and nginx.
type logParser struct {
	user    bool   // the key is the user
	request []byte // the latest request that had escapes
}

const (
	remoteAddr = "remote_addr"
	remoteUser = "remote_user"
	notALog    = "not a line of the common or combined log format"
)

func newLogParser(f Fields) (*logParser, error) {
	for field, name := range f.chosen() {
		if name != "" && (field != fieldKey || name != remoteAddr && name != remoteUser) {
			return nil, fmt.Errorf("a log has no field %q; its keys are %s or %s", name, remoteAddr, remoteUser)
		}
	}
	return &logParser{user: f.Key == remoteUser}, nil
}

// parse reads
//
//	[VHOST] HOST IDENT USER [TIME] "REQUEST" STATUS ...
func (p *logParser) parse(line []byte, rec *record) (reason string) {
	client, rest, ok := bytes.Cut(line, []byte(" ["))
	if !ok {
		return notALog
	}
	host, names, _ := bytes.Cut(client, []byte(" "))
	ident, user, ok := bytes.Cut(names, []byte(" "))
	if ok && len(ident) > 1 {
		// The address is the second word if the first one is a virtual host.
		if _, err := netip.ParseAddr(string(ident)); err == nil {
			host = ident
			_, user, ok = bytes.Cut(user, []byte(" "))
		}
	}
	if !ok || len(host) == 0 {
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
