package keyfunc

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxHops is how many entries of a header are examined, from the right. Real
// chains have fewer than ten; the rest of a longer one is the client's own.
const maxHops = 32

// XForwardedFor keys by the address of the client as the proxies in p report
// it in X-Forwarded-For, the list to which each proxy appends the address of
// its own peer.
//
// A peer outside p is the client, whatever it sends. Otherwise the list is
// read from its right end, over all lines of the header, and the first address
// outside p is the client: what stands to the left of it is only the client's
// claim. If every address is in p, the client is the left-most. An entry that
// is no IP address (empty ones included) ends the walk, and so does the 32nd:
// the key is then the last address seen, the peer if there was none. No other
// header is looked at. A client cannot spoil the header to be counted as a proxy:
// the entry that its proxy appended is read before anything that the client sent.
//
// Entries may have a port, square brackets and a zone, which are dropped. An
// address becomes a key as in [RemoteIP], with the same options and errors.
func XForwardedFor(p ProxySet, opts ...IPOption) Func {
	return clientIP("XForwardedFor", p, opts, func(h http.Header, peer netip.Addr) (netip.Addr, error) {
		return lastUntrusted(h.Values("X-Forwarded-For"), p, peer), nil
	})
}

// lastUntrusted walks the list to the left, starting from a trusted peer.
func lastUntrusted(lines []string, p ProxySet, peer netip.Addr) netip.Addr {
	last := peer
	hops := 0
	for _, line := range slices.Backward(lines) {
		for more := true; more; hops++ {
			var entry string
			line, entry, more = cutLast(line)
			addr, _, ok := parseAddr(entry)
			if !ok || hops == maxHops {
				return last
			}
			if !p.Contains(addr) {
				return addr
			}
			last = addr
		}
	}
	return last
}

// cutLast cuts the last entry off a list. It looks no further than an address
// can reach, so that a header of any size costs the same: an entry that is
// longer comes back as a piece that is too long to be one.
func cutLast(list string) (rest, entry string, more bool) {
	from := max(0, len(list)-maxAddressText-1)
	i := strings.LastIndexByte(list[from:], ',')
	if i < 0 {
		return "", list[from:], false
	}
	return list[:from+i], list[from+i+1:], true
}
