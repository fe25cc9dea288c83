package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// HeaderIP keys by the one address in the header called name, which the
// proxies in p set and overwrite: CF-Connecting-IP, True-Client-IP,
// Fly-Client-IP, X-Real-IP and the like. Make sure that they do overwrite it;
// one that is merely passed on is the client's claim.
//
// The header counts only from a peer in p and only if it is there once and
// holds one address. A list, several lines, garbage or nothing leave the key to
// the peer; no other header is looked at.
//
// An address becomes a key as in [RemoteIP], with the same options and errors.
//
// HeaderIP panics if name is not a header name, and for X-Forwarded-For and
// Forwarded, which are lists and have functions of their own.
func HeaderIP(name string, p ProxySet, opts ...IPOption) Func {
	name = checkHeaderName(name)
	c := newIPConfig("HeaderIP", opts)
	return func(_ context.Context, r *http.Request) (string, error) {
		peer, text, err := peerAddr(r)
		if err != nil {
			return "", err
		}
		if p.Contains(peer) {
			if lines := r.Header.Values(name); len(lines) == 1 {
				if addr, _, ok := parseAddr(lines[0]); ok {
					return c.key(addr), nil
				}
			}
		}
		return c.peerKey(peer, text), nil
	}
}

// checkHeaderName returns the form that the names in an http.Header have.
func checkHeaderName(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || !isTokenChar(byte(r)) }) {
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
