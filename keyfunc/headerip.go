package keyfunc

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/internal/address"
)

// HeaderIP returns a Func that derives the key from the one address in the header called name,
// which the proxies in p must set and overwrite: CF-Connecting-IP, True-Client-IP, Fly-Client-IP,
// X-Real-IP and the like. If the proxies pass the header on, clients choose their keys.
//
// A peer outside p is the client, and its headers are ignored. If a peer in p sends no such header,
// the peer is the client as well, as with the health checks of a proxy. No other header is used. If
// a peer in p sends a header that does not contain exactly one address (several lines, a list,
// other text, nothing), the error is a [NoKeyError], and a gate responds with 400. Some proxies add a
// line to the header of the client instead of overwriting it. If the key were the address of the
// peer then, a client could get that key by sending the header.
//
// An address becomes a key as in [RemoteIP], with the same options, errors and warning.
//
// HeaderIP panics if name is not a header name, and for X-Forwarded-For and Forwarded, which are
// lists: use [XForwardedFor] and [Forwarded].
func HeaderIP(name string, p ProxySet, opts ...IPOption) Func {
	if !isToken(name) {
		panic(fmt.Sprintf("keyfunc: HeaderIP: %q is not the name of a header", name))
	}
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "X-Forwarded-For":
		panic("keyfunc: HeaderIP: X-Forwarded-For is a list: use XForwardedFor")
	case "Forwarded":
		panic("keyfunc: HeaderIP: Forwarded has a syntax of its own: use Forwarded")
	}
	malformed := unusable("the header field " + name + " does not contain exactly one address")
	return clientIP("HeaderIP", name, p, opts, func(h http.Header, peer netip.Addr) (netip.Addr, error) {
		lines := h.Values(name)
		if len(lines) == 0 {
			return peer, nil
		}
		addr, _, ok := address.Parse(lines[0])
		if !ok || len(lines) > 1 {
			return netip.Addr{}, malformed
		}
		return addr, nil
	})
}
