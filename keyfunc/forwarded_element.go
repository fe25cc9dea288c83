package keyfunc

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	// maxForwardedBytes bounds what a header can cost: every byte is read.
	maxForwardedBytes = 64 << 10
	// maxForwardedParams bounds the search for repeated names. RFC 7239 has four.
	maxForwardedParams = 16
)

// forwardedElements are the for parameters of the last elements of a Forwarded
// header: of element i, counted from the left, at i modulo the size.
type forwardedElements struct {
	ring [maxHops]forwardedValue
	n    int // elements read, including those that have left the ring
}

// parse reads all lines and reports whether each follows the grammar of elements. The
// lines are read one by one rather than joined by commas as RFC 9110 section
// 5.2 would have it: the result is the same, except that an open quote cannot
// swallow the line that the next proxy added.
func (e *forwardedElements) parse(lines []string) bool {
	size := 0
	for _, line := range lines {
		// The one byte is the comma that joins the lines, so that empty ones count.
		if size += len(line) + 1; size > maxForwardedBytes {
			return false
		}
		p := forwardedParser{rest: line}
		for more := true; more; e.n++ {
			var v forwardedValue
			var ok bool
			if v, more, ok = p.element(); !ok {
				return false
			}
			e.ring[e.n%maxHops] = v
		}
	}
	return true
}

// forwardedParser consumes one line of the grammar of RFC 7239 section 4.
type forwardedParser struct{ rest string }

// element reads up to and including the next comma. The value is empty for an
// element without for; more says whether there was a comma.
func (p *forwardedParser) element() (v forwardedValue, more, ok bool) {
	p.skipOWS()
	var names [maxForwardedParams]string
	for n := 0; ; {
		// The grammar allows empty pairs: "for=192.0.2.1;;proto=http;".
		if p.rest != "" && isTokenChar(p.rest[0]) {
			name := p.token()
			if n == len(names) || slices.ContainsFunc(names[:n], func(s string) bool { return strings.EqualFold(s, name) }) {
				return v, false, false
			}
			names[n] = name
			n++
			value, valid := p.value()
			if !valid {
				return v, false, false
			}
			if strings.EqualFold(name, "for") {
				v = value
			}
		}
		if !p.next(';') {
			break
		}
	}
	p.skipOWS()
	if p.rest == "" {
		return v, false, true
	}
	more = p.next(',')
	return v, more, more
}

// value reads an equals sign and a token or quoted-string (RFC 9110 section 5.6.4).
func (p *forwardedParser) value() (forwardedValue, bool) {
	if !p.next('=') {
		return forwardedValue{}, false
	}
	if !p.next('"') {
		text := p.token()
		return forwardedValue{text: text, present: true}, text != ""
	}
	escaped := false
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			v := forwardedValue{text: p.rest[:i], escaped: escaped, present: true}
			p.rest = p.rest[i+1:]
			return v, true
		case c == '\\':
			escaped = true
			if i++; i == len(p.rest) || !isQuotable(p.rest[i]) {
				return forwardedValue{}, false
			}
		case !isQuotable(c):
			return forwardedValue{}, false
		}
	}
	return forwardedValue{}, false
}

func (p *forwardedParser) token() string {
	i := 0
	for i < len(p.rest) && isTokenChar(p.rest[i]) {
		i++
	}
	token := p.rest[:i]
	p.rest = p.rest[i:]
	return token
}

func (p *forwardedParser) skipOWS() {
	for p.rest != "" && isOWS(p.rest[0]) {
		p.rest = p.rest[1:]
	}
}

func (p *forwardedParser) next(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// isTokenChar is tchar of RFC 9110 section 5.6.2.
func isTokenChar(c byte) bool { return tokenChars[c] }

var tokenChars = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// isQuotable is what may stand in a quoted-string, after a backslash if need be.
func isQuotable(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

// forwardedValue is the value of a parameter without the quotes around it;
// escaped says that quoted-pairs are still in it. The zero value stands for a
// parameter that is absent.
type forwardedValue struct {
	text             string
	escaped, present bool
}

// node is the address in a node identifier (RFC 7239 section 6). The address is
// the zero Addr if the node names none: it is absent, unknown or obfuscated. ok is
// false for a text that is no node identifier.
func (v forwardedValue) node() (addr netip.Addr, ok bool) {
	if !v.present {
		return netip.Addr{}, true
	}
	s := v.text
	if v.escaped && len(s) <= maxAddressText { // unescape allocates
		s = unescape(s)
	}
	if s == "" || isOWS(s[0]) || isOWS(s[len(s)-1]) {
		return netip.Addr{}, false
	}
	name, port, ported := strings.Cut(s, ":")
	if isObfuscated(name) || strings.EqualFold(name, "unknown") {
		return netip.Addr{}, !ported || isPort(port) || isObfuscated(port)
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && isObfuscated(s[i+1:]) {
		// A hidden port is none, and no second one may stand before it.
		if host = s[:i]; strings.Contains(host, ":") && !strings.HasSuffix(host, "]") {
			return netip.Addr{}, false
		}
	} else if s[0] != '[' && strings.Count(s, ":") > 1 {
		return netip.Addr{}, false
	}
	addr, _, ok = parseAddr(host)
	return addr, ok
}

// unescape resolves quoted-pairs. The text is known to end after one.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// isObfuscated is obfnode and obfport of RFC 7239 section 6.3.
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
