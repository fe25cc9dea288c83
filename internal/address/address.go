// Package address reads IP addresses and prefixes as servers, proxies and operators write them, and makes keys of them.
package address

import (
	"math"
	"net/netip"
	"strings"
)

const (
	// MaxText is the maximum length of the text of one address in bytes, with port, zone and the
	// white space around it. The longest valid text has less than 80 bytes.
	MaxText = 128

	// V4 and V6 are the leading bits of an address that make its key, unless an option sets others.
	V4, V6 = 32, 64
)

// Key returns the canonical text of the first v4 or v6 bits of addr, which must be unmapped and
// without a zone. The text is a new string, because a substring would keep the whole header in memory.
func Key(addr netip.Addr, v4, v6 int) string {
	bits := v6
	if addr.Is4() {
		bits = v4
	}
	if bits == addr.BitLen() {
		return addr.String()
	}
	// Prefix.String would allocate twice.
	var b [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return string(netip.PrefixFrom(addr, bits).Masked().AppendTo(b[:0]))
}

// Parse reads an address as servers and proxies write it: alone, in square brackets, with a
// port, with a zone, between spaces and tabs. It returns the address unmapped and without a zone,
// so that == compares hosts.
//
// text is the part of s that contains the address itself. The text of an IPv4 address is canonical,
// because netip accepts no other spelling.
func Parse(s string) (addr netip.Addr, text string, ok bool) {
	// The length is checked before trimming, because a caller may have shortened the text.
	if len(s) > MaxText {
		return netip.Addr{}, "", false
	}
	s = strings.Trim(s, " \t")
	bracketed := strings.HasPrefix(s, "[")
	switch {
	case bracketed:
		host, rest, closed := strings.Cut(s[1:], "]")
		if !closed || rest != "" && (rest[0] != ':' || !IsPort(rest[1:])) {
			return netip.Addr{}, "", false
		}
		s = host
	case strings.Count(s, ":") == 1:
		host, port, _ := strings.Cut(s, ":")
		if !IsPort(port) {
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

// ParseIPv4 is Parse for an IPv4 address with a port and nothing else, the form in which servers write
// most peers. It reads the text once, and reports false for every other text.
func ParseIPv4(s string) (addr netip.Addr, text string, ok bool) {
	var ip [4]byte
	at, begin, value := 0, 0, 0 // the number that is read: its index, its first byte and its value
	for i := range len(s) {
		if d := s[i] - '0'; d <= 9 {
			if value = value*10 + int(d); value > math.MaxUint16 || i-begin == len("65535") {
				return netip.Addr{}, "", false
			}
			continue
		}
		end := byte('.')
		if at == 3 {
			end = ':'
		}
		if at > 3 || s[i] != end || i == begin || value > math.MaxUint8 || s[begin] == '0' && i > begin+1 {
			return netip.Addr{}, "", false
		}
		ip[at] = byte(value)
		at, begin, value = at+1, i+1, 0
	}
	if at < 4 || begin == len(s) {
		return netip.Addr{}, "", false
	}
	return netip.AddrFrom4(ip), s[:begin-1], true
}

// IsPort reports whether s is a number of a port.
func IsPort(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i == len("65535") {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return s != "" && n <= math.MaxUint16
}

// isZone reports whether s is an interface name (on Windows, names may contain spaces). A zone must
// not contain a comma, because otherwise a list would be read as one address.
func isZone(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ',' })
}

// ForwardingField returns the name of a header field in h that proxies add by default, or "".
func ForwardingField(h map[string][]string) string {
	for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		if len(h[name]) > 0 {
			return name
		}
	}
	return ""
}

// IsPrivate reports whether addr is in a private network, which includes the loopback and link-local
// addresses and the shared address space of RFC 6598. A key function calls it for every request until it
// has logged a warning: for IPv4, it is faster than the methods of netip.Addr.
func IsPrivate(addr netip.Addr) bool {
	if !addr.Is4() {
		return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast()
	}
	switch b := addr.As4(); b[0] {
	case 10, 127:
		return true
	case 100:
		return b[1]>>6 == 1
	case 169:
		return b[1] == 254
	case 172:
		return b[1]>>4 == 1
	case 192:
		return b[1] == 168
	}
	return false
}
