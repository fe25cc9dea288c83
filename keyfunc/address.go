package keyfunc

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxAddressText bounds the text of one address in bytes, with port, zone and the white space
	// around it. The longest valid text has less than 80 bytes.
	maxAddressText = 128

	// ows is optional white space (RFC 9110 section 5.6.3).
	ows = " \t"
)

// parseAddr reads an address as servers and proxies write it: alone, in square brackets, with a
// port, with a zone, between spaces and tabs. It returns the address unmapped and without a zone,
// so that == compares hosts.
//
// text is the part of s with the address itself. An IPv4 text is canonical, because netip accepts
// no other spelling.
func parseAddr(s string) (addr netip.Addr, text string, ok bool) {
	// The length is checked before trimming, because cutLast may have cut off the start of a longer
	// text.
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
	// The zone is cut off before ParseAddr, because netip would keep it in a global table.
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

// isZone reports whether s is an interface name (Windows has some with spaces). A zone must have no
// comma, because a list would be read as one address otherwise.
func isZone(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ',' })
}
