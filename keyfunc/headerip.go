package keyfunc

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

var errHeaderIP = fmt.Errorf("%w: the header does not hold exactly one address", ErrNoKey)

// HeaderIP keys by the one address in the header called name, which the
// proxies in p set and overwrite: CF-Connecting-IP, True-Client-IP,
// Fly-Client-IP, X-Real-IP and the like. Make sure that they do overwrite it;
// a header that is merely passed on is the client's claim.
//
// A peer outside p is the client, whatever it sends. A peer in p without the
// header is the client as well: its own health checks have none. No other header
// is looked at. A header from a peer in p that does not hold exactly one address
// (several lines, a list, other text, nothing) is [ErrNoKey], which a gate answers
// with 400. If the key were the address of the peer instead, then behind a proxy
// that adds a line and leaves the client's own in place, a client could choose to
// be counted as the proxy.
//
// An address becomes a key as in [RemoteIP], with the same options and errors.
//
// HeaderIP panics if name is not a header name, and for X-Forwarded-For and
// Forwarded, which are lists and have functions of their own.
func HeaderIP(name string, p ProxySet, opts ...IPOption) Func {
	name = checkHeaderName(name)
	return clientIP("HeaderIP", p, opts, func(h http.Header, peer netip.Addr) (netip.Addr, error) {
		lines := h.Values(name)
		if len(lines) == 0 {
			return peer, nil
		}
		addr, _, ok := parseAddr(lines[0])
		if !ok || len(lines) > 1 {
			return netip.Addr{}, errHeaderIP
		}
		return addr, nil
	})
}

// checkHeaderName returns the form that the names in an http.Header have.
func checkHeaderName(name string) string {
	if name == "" || strings.Trim(name, tokenChars) != "" {
		panic(fmt.Sprintf("keyfunc: HeaderIP: %q is not the name of a header", name))
	}
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "X-Forwarded-For":
		panic("keyfunc: HeaderIP: X-Forwarded-For is a list: use XForwardedFor")
	case "Forwarded":
		panic("keyfunc: HeaderIP: Forwarded has a syntax of its own: use Forwarded")
	}
	return name
}
