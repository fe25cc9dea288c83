package keyfunc

import (
	"context"
	"net/http"
	"net/netip"
)

// Forwarded keys by the address of the client as the proxies in p report it in
// the for parameters of Forwarded (RFC 7239).
//
// The walk is that of [XForwardedFor]: a peer outside p is the client;
// otherwise the elements are read from the right and the first address outside
// p is the client. An element without for, an identifier that is no address
// ("unknown", "_hidden"), and the 32nd element end the walk at the last address
// seen.
//
// The header has to follow the grammar to the letter, because a reader that
// guesses can be made to guess wrong: for=192.0.2.1;x=", for=198.51.100.7 is
// an open quote and not two elements. Any syntax error in any line, a
// parameter that occurs twice in an element, more than 16 parameters in one,
// or more than 64 KiB in all rejects the whole header: the key is the peer's.
// White space is allowed around commas only, and an IPv6 address has to be
// quoted and in square brackets, as the RFC says. A quoted string ends in the
// line it began in.
//
// An address becomes a key as in [RemoteIP], with the same options and errors.
func Forwarded(p ProxySet, opts ...IPOption) Func {
	c := newIPConfig("Forwarded", opts)
	return func(_ context.Context, r *http.Request) (string, error) {
		peer, text, err := peerAddr(r)
		if err != nil {
			return "", err
		}
		if !p.Contains(peer) {
			return c.peerKey(peer, text), nil
		}
		var elements forwardedElements
		if !elements.parse(r.Header.Values("Forwarded")) {
			return c.peerKey(peer, text), nil
		}
		return c.key(elements.lastUntrusted(p, peer)), nil
	}
}

func (e *forwardedElements) lastUntrusted(p ProxySet, peer netip.Addr) netip.Addr {
	last := peer
	for i := e.n - 1; i >= max(0, e.n-maxHops); i-- {
		addr, ok := e.ring[i%maxHops].addr()
		if !ok {
			return last
		}
		if !p.Contains(addr) {
			return addr
		}
		last = addr
	}
	return last
}
