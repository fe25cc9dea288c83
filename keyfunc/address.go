package keyfunc

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// maxAddressText bounds the text of one address, with port, zone and the white
// space around it. The longest that means anything has less than 80 bytes.
const maxAddressText = 128

var errNoPeer = fmt.Errorf("%w: the remote address of the request is not an IP address", ErrNoKey)

// peerAddr is the address of whoever opened the connection, and the text of it
// in r.RemoteAddr.
func peerAddr(r *http.Request) (netip.Addr, string, error) {
	addr, text, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return netip.Addr{}, "", errNoPeer
	}
	return addr, text, nil
}

// parseAddr reads an address as servers and proxies write it: bare, in square
// brackets, with a port, with a zone, between spaces and tabs. The address
// comes back unmapped and without zone, so that == means the same host.
//
// text is the part of s that spells the address. It is canonical for IPv4,
// because netip accepts no other spelling.
func parseAddr(s string) (addr netip.Addr, text string, ok bool) {
	// Before trimming: the start of what is longer may have been cut off.
	if len(s) > maxAddressText {
		return netip.Addr{}, "", false
	}
	if s = trimOWS(s); s == "" {
		return netip.Addr{}, "", false
	}
	bracketed := s[0] == '['
	switch {
	case bracketed:
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return netip.Addr{}, "", false
		}
		rest := s[end+1:]
		if rest != "" && (rest[0] != ':' || !isPort(rest[1:])) {
			return netip.Addr{}, "", false
		}
		s = s[1:end]
	case strings.Count(s, ":") == 1:
		host, port, _ := strings.Cut(s, ":")
		if !isPort(port) {
			return netip.Addr{}, "", false
		}
		s = host
	}
	// netip would keep the zone in a table of its own; it is not needed.
	s, zone, zoned := strings.Cut(s, "%")
	if zoned && !isZone(zone) {
		return netip.Addr{}, "", false
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Is4() && (bracketed || zoned) {
		return netip.Addr{}, "", false
	}
	return addr.Unmap(), s, true
}

func isPort(s string) bool {
	if s == "" || len(s) > 5 {
		return false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n <= 65535
}

// isZone takes any interface name (Windows has some with spaces), but no comma,
// which would let a list pass for one address.
func isZone(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f || s[i] == ',' {
			return false
		}
	}
	return s != ""
}

// trimOWS removes optional whitespace (RFC 9110 section 5.6.3), which is less
// than what Unicode and the strings package call space.
func trimOWS(s string) string {
	for s != "" && isOWS(s[0]) {
		s = s[1:]
	}
	for s != "" && isOWS(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isOWS(c byte) bool { return c == ' ' || c == '\t' }
