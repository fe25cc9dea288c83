package keyfunc

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/address"
)

const (
	// maxForwardedBytes bounds the time for a header, of which every byte is read.
	maxForwardedBytes = 64 << 10
	// maxForwardedParams bounds the search for repeated names. RFC 7239 defines four names.
	maxForwardedParams = 16

	alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// tokenChars is tchar of RFC 9110 section 5.6.2.
	tokenChars = "!#$%&'*+-.^_`|~" + alphanumeric
)

var errForwarded = unusable("the Forwarded header is malformed")

// Forwarded returns a Func that derives the key from the address of the client. It takes the
// address from the "for" parameters of the Forwarded header (RFC 7239), as the proxies in p set it.
//
// A peer outside p is the client, and its headers are ignored. If a peer in p sends no Forwarded
// header, the peer is the client as well, as with the health checks of a proxy. Otherwise the
// elements are read from the right, over all lines of the header, and the first address outside p
// is the client. If every address is in p, the left-most address is the client. An element without
// an address (no "for", "unknown", "_hidden") and the 32nd element end the search: the client is
// then the last address that was read, or else the peer.
//
// If a peer in p sends a malformed header, the error is a [NoKeyError], and a gate responds with 400.
// If the key were the address of the peer, a client could get it by sending such a header. If a
// proxy writes malformed headers, all its requests get 400. A header is malformed if it contains:
//
//   - any violation of the grammar of RFC 7239 section 4, in any line; for example, the quote in
//     for=192.0.2.1;x=", for=198.51.100.7 is not closed, but a lenient parser would see two
//     elements
//   - white space other than around commas; an IPv6 address without quotes or without square
//     brackets; a quoted string that does not end in its line
//   - a parameter that occurs twice in an element, more than 16 parameters in an element, or more
//     than 64 KiB in all
//   - a value of "for" that is not a node identifier (RFC 7239 section 6), except to the left of
//     the client
//
// An address becomes a key as in [RemoteIP], with the same options, errors and warning.
func Forwarded(p ProxySet, opts ...IPOption) Func {
	return clientIP("Forwarded", "Forwarded", p, opts, func(h http.Header, peer netip.Addr) (netip.Addr, error) {
		var elements forwardedElements
		if !elements.parse(h.Values("Forwarded")) {
			return netip.Addr{}, errForwarded
		}
		return elements.lastUntrusted(p, peer)
	})
}

// forwardedElements holds the "for" parameters of the last elements of a Forwarded header. The
// parameter of element i, counted from the left, is ring[i%maxHops], or "" if there is none.
type forwardedElements struct {
	ring [maxHops]string
	n    int // elements read, including elements that the ring no longer holds
}

// parse reads all lines and reports whether each follows the grammar of elements. RFC 9110 section
// 5.2 joins the lines with commas. Here each line is read by itself, so that an open quote cannot
// hide the line of the next proxy; otherwise the result is the same.
func (e *forwardedElements) parse(lines []string) bool {
	size := 0
	for _, line := range lines {
		// Each line counts at least one byte, for its comma, so that empty lines are bounded, too.
		if size += len(line) + 1; size > maxForwardedBytes {
			return false
		}
		p := forwardedParser{rest: line}
		for more := true; more; e.n++ {
			var ok bool
			if e.ring[e.n%maxHops], more, ok = p.element(); !ok {
				return false
			}
		}
	}
	return true
}

// lastUntrusted returns the client of the elements, which a trusted peer has sent. peer is the zero
// Addr if it has no IP address.
func (e *forwardedElements) lastUntrusted(p ProxySet, peer netip.Addr) (netip.Addr, error) {
	last := peer
	for i := e.n - 1; i >= max(0, e.n-maxHops); i-- {
		addr, ok := parseNode(e.ring[i%maxHops])
		switch {
		case !ok:
			return netip.Addr{}, errForwarded
		case !addr.IsValid():
			return last, nil
		case !p.trustsEntry(addr, e.n-1-i):
			return addr, nil
		}
		last = addr
	}
	return last, nil
}

// forwardedParser consumes one line of the grammar of RFC 7239 section 4.
type forwardedParser struct{ rest string }

// element reads an element and the comma after it. It returns the value of the "for" parameter, or
// "" if there is none. more reports whether there was a comma.
func (p *forwardedParser) element() (node string, more, ok bool) {
	p.rest = strings.TrimLeft(p.rest, ows)
	names := make([]string, 0, maxForwardedParams)
	for {
		// The grammar allows empty pairs: "for=192.0.2.1;;proto=http;".
		if name := p.token(); name != "" {
			value := p.value()
			repeated := slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, name) })
			if value == "" || repeated || len(names) == maxForwardedParams {
				return "", false, false
			}
			names = append(names, name)
			if strings.EqualFold(name, "for") {
				node = value
			}
		}
		if !p.next(";") {
			break
		}
	}
	p.rest = strings.TrimLeft(p.rest, ows)
	more = p.next(",")
	return node, more, more || p.rest == ""
}

// value reads an equals sign and a token or quoted-string (RFC 9110 section 5.6.4). It returns the
// token or the string with its quotes, or "" for any other text.
func (p *forwardedParser) value() string {
	if !p.next("=") {
		return ""
	}
	if !strings.HasPrefix(p.rest, `"`) {
		return p.token()
	}
	for i := 1; i < len(p.rest); i++ {
		if p.rest[i] == '"' {
			return p.cut(i + 1)
		}
		if p.rest[i] == '\\' {
			i++
		}
		if i == len(p.rest) || !isQuotable(p.rest[i]) {
			break
		}
	}
	return ""
}

func (p *forwardedParser) token() string {
	i := 0
	for i < len(p.rest) && isTokenChar[p.rest[i]] {
		i++
	}
	return p.cut(i)
}

func (p *forwardedParser) next(delimiter string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, delimiter)
	return found
}

// cut removes the next n bytes and returns them.
func (p *forwardedParser) cut(n int) string {
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// isTokenChar is a table of tokenChars, because every byte of a header is looked up.
var isTokenChar = func() (set [256]bool) {
	for _, c := range []byte(tokenChars) {
		set[c] = true
	}
	return set
}()

// isQuotable reports whether a quoted-string may contain c, after a backslash if necessary.
func isQuotable(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

// parseNode returns the address in a node identifier (RFC 7239 section 6), which is the value of a
// "for" parameter. addr is the zero Addr if the node is absent, unknown or obfuscated. ok is false
// if s is not a node identifier.
func parseNode(s string) (addr netip.Addr, ok bool) {
	if s == "" {
		return netip.Addr{}, true
	}
	if s[0] == '"' {
		s = unquote(s)
	}
	if s == "" || s != strings.Trim(s, ows) {
		return netip.Addr{}, false
	}
	name, port, ported := strings.Cut(s, ":")
	if isObfuscated(name) || strings.EqualFold(name, "unknown") {
		return netip.Addr{}, !ported || address.IsPort(port) || isObfuscated(port)
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && isObfuscated(s[i+1:]) {
		// An obfuscated port is ignored. There must be no other port before it.
		if host = s[:i]; strings.Contains(host, ":") && !strings.HasSuffix(host, "]") {
			return netip.Addr{}, false
		}
	} else if s[0] != '[' && strings.Count(s, ":") > 1 {
		return netip.Addr{}, false
	}
	addr, _, ok = address.Parse(host)
	return addr, ok
}

// unquote returns the text of a quoted-string. Resolving quoted-pairs allocates, so it is done only
// if the text is short enough for an address.
func unquote(s string) string {
	s = s[1 : len(s)-1]
	if len(s) > address.MaxText || !strings.Contains(s, `\`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// isObfuscated reports whether s is an obfnode or obfport (RFC 7239 section 6.3).
func isObfuscated(s string) bool {
	return len(s) >= 2 && s[0] == '_' && strings.Trim(s, "._-"+alphanumeric) == ""
}
