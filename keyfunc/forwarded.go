package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
)

var errForwarded = fmt.Errorf("%w: the Forwarded header is malformed", ErrNoKey)

// Forwarded keys by the address of the client as the proxies in p report it in
// the for parameters of Forwarded (RFC 7239).
//
// A peer outside p is the client, whatever it sends. A peer in p without the
// header is the client as well: its own health checks have none. Otherwise the
// elements are read from the right, over all lines of the header, and the first
// address outside p is the client. If every address is in p, the client is the
// left-most. An element that names no address (no for, "unknown", "_hidden") and
// the 32nd element end the walk at the last address seen.
//
// A malformed header from a peer in p is [ErrNoKey], which a gate answers with
// 400. If the key were the address of the peer instead, a client could choose to
// be counted as the proxy. Malformed are:
//
//   - any violation of the grammar of RFC 7239 section 4, in any line: a reader
//     that guesses can be made to guess wrong, because
//     for=192.0.2.1;x=", for=198.51.100.7 is an open quote and not two elements
//   - white space other than around commas; an IPv6 address that is not quoted
//     and in square brackets; a quoted string that does not end in its line
//   - a parameter that occurs twice in an element, more than 16 parameters in an
//     element, and more than 64 KiB in all
//   - a node on the walk that is no node identifier (RFC 7239 section 6); nodes to
//     the left of the client are not read
//
// A proxy that writes malformed headers therefore makes every request a 400.
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
			return "", errForwarded
		}
		client, ok := elements.lastUntrusted(p, peer)
		if !ok {
			return "", errForwarded
		}
		return c.key(client), nil
	}
}

// lastUntrusted walks the elements to the left, starting from a trusted peer. It
// returns false for a malformed node.
func (e *forwardedElements) lastUntrusted(p ProxySet, peer netip.Addr) (client netip.Addr, ok bool) {
	last := peer
	for i := e.n - 1; i >= max(0, e.n-maxHops); i-- {
		addr, ok := e.ring[i%maxHops].node()
		switch {
		case !ok:
			return netip.Addr{}, false
		case !addr.IsValid():
			return last, true
		case !p.Contains(addr):
			return addr, true
		}
		last = addr
	}
	return last, true
}
