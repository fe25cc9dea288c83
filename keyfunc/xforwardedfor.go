package keyfunc

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/address"
)

// maxHops is the number of entries of a header that are examined, from the right. Real chains have
// fewer than ten entries; the client has made up the rest of a longer list.
const maxHops = 32

// XForwardedFor returns a Func that derives the key from the address of the client. It takes the
// address from X-Forwarded-For, the list to which each proxy appends the address of its peer.
//
// A peer outside p is the client, and its headers are ignored. For a peer in p, the list is read
// from its right end, over all lines of the header, and the first address outside p is the client.
// The client may have made up the entries to the left of this address. If every address is in p,
// the left-most address is the client. An entry that is not an IP address, such as an empty entry,
// ends the search, and so does the 32nd entry: the client is then the last address that was read,
// or else the peer. No other header is used. A client gains nothing from a malformed header: its
// own address, which the trusted proxy has appended, is read before the entries that it made up.
//
// Entries may contain a port, square brackets and a zone, which are ignored. An address becomes a
// key as in [RemoteIP], with the same options, errors and warning.
func XForwardedFor(p ProxySet, opts ...IPOption) Func {
	return clientIP("XForwardedFor", "X-Forwarded-For", p, opts, func(h http.Header, peer netip.Addr) (netip.Addr, error) {
		return lastUntrusted(h.Values("X-Forwarded-For"), p, peer), nil
	})
}

// lastUntrusted returns the client of the list in lines, which a trusted peer has sent. peer is the
// zero Addr if it has no IP address.
func lastUntrusted(lines []string, p ProxySet, peer netip.Addr) netip.Addr {
	last := peer
	hops := 0
	for _, line := range slices.Backward(lines) {
		for more := true; more; hops++ {
			var entry string
			line, entry, more = cutLast(line)
			addr, _, ok := address.Parse(entry)
			if !ok || hops == maxHops {
				return last
			}
			if !p.trustsEntry(addr, hops) {
				return addr
			}
			last = addr
		}
	}
	return last
}

// cutLast cuts the last entry off a list. It searches only the last address.MaxText+1 bytes, so that
// the time does not depend on the size of the header. It returns only the end of a longer entry,
// which is still too long to be an address.
func cutLast(list string) (rest, entry string, more bool) {
	from := max(0, len(list)-address.MaxText-1)
	i := strings.LastIndexByte(list[from:], ',')
	if i < 0 {
		return "", list[from:], false
	}
	return list[:from+i], list[from+i+1:], true
}
