package keyfunc

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxAddressText bounds the text of one address, with port, zone and the white
	// space around it. The longest valid one has less than 80 bytes.
	maxAddressText = 128

	// ows is optional white space (RFC 9110 section 5.6.3).
	ows = " \t"
)

// parseAddr reads an address as servers and proxies write it: bare, in square
// brackets, with a port, with a zone, between spaces and tabs. The address
// comes back unmapped and without zone, so that == means the same host.
//
// text is the part of s that spells the address. It is canonical for IPv4,
// because netip accepts no other spelling.
func parseAddr(s string) (addr netip.Addr, text string, ok bool) {
	// Before trimming: the start of a longer text may have been cut off.
	if len(s) > maxAddressText {
		return netip.Addr{}, "", false
	}
	s = strings.Trim(s, ows)
	bracketed := strings.HasPrefix(s, "[")
	switch {
	case bracketed:
		host, rest, closed := strings.Cut(s[1:], "]")
		if !closed || rest != "" && (rest[0] != ':' || !isPort(rest[1:])) {
			return netip.Addr{}, "", false
		}
		s = host
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
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil && len(s) <= len("65535")
}

// isZone accepts any interface name (Windows has some with spaces), but no comma,
// which would let a list pass for one address.
func isZone(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ',' })
}
