package keyfunc

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/internal/address"
)

// ProxySet is a set of trusted proxies: peers whose forwarding headers are believed. The zero value
// trusts no peer. A ProxySet is immutable and safe for concurrent use.
type ProxySet struct {
	prefixes address.Prefixes
	unix     bool // peers that have connected through a Unix socket
	hops     int  // of LastHops, or 0
}

// Proxies returns the set of the given CIDR prefixes ("10.0.0.0/8"), single addresses ("192.0.2.1")
// and, for the word "unix", all peers that have connected through a Unix socket. Use Proxies for
// lists that are part of the program: it panics if [ParseProxies] returns an error.
//
// List only proxies that you operate or pay for, because a peer in the set can choose the key of a
// request. With "0.0.0.0/0", every client can: a prefix that contains a large part of all addresses (less than
// 8 bits of IPv4, or 7 of IPv6) logs a warning through [log/slog.Default].
func Proxies(cidrs ...string) ProxySet {
	p, err := parseProxies("Proxies", cidrs)
	if err != nil {
		panic("keyfunc: Proxies: " + err.Error())
	}
	return p
}

// ParseProxies is like [Proxies] for lists from a configuration, and returns an error instead of
// panicking. The error names the invalid entry and the reason, for instance that bits are set to
// the right of the prefix ("10.0.0.1/8"), which is usually a typing error.
//
// IPv4-mapped entries ("::ffff:10.0.0.0/104") count as IPv4. Other IPv6 prefixes contain only IPv6
// addresses. The entry "unix" trusts all local processes that may open the socket. Such a peer has
// no address, so its requests without a usable header are an [ErrNoKey].
func ParseProxies(cidrs ...string) (ProxySet, error) {
	p, err := parseProxies("ParseProxies", cidrs)
	if err != nil {
		return ProxySet{}, fmt.Errorf("keyfunc: ParseProxies: %w", err)
	}
	return p, nil
}

// LastHops trusts every peer: a client that reaches the server directly, not through your platform,
// chooses its address. Use it only if the platform lets no other connection reach the server, and
// publishes no addresses for [Proxies].
//
// LastHops says that the last n entries of X-Forwarded-For were written by the platform. With
// [XForwardedFor] the n-th entry from the right is the client, and with [Forwarded] the n-th
// element: n is 1 behind one load balancer that appends the address of its peer, and 2 behind a CDN
// and a load balancer. If n is too large, clients choose their addresses; if it is too small, all
// clients of a proxy have one key. If the list is shorter, its left-most address is the client.
// [HeaderIP] believes the header of every peer, for any n.
//
// The set contains no addresses. LastHops panics if n is outside 1 to 32.
func LastHops(n int) ProxySet {
	if n < 1 || n > maxHops {
		panic(fmt.Sprintf("keyfunc: LastHops: %d is outside 1 to %d", n, maxHops))
	}
	return ProxySet{hops: n}
}

func parseProxies(caller string, cidrs []string) (ProxySet, error) {
	prefixes := make([]netip.Prefix, 0, len(cidrs))
	unix := false
	for _, s := range cidrs {
		if s == "unix" {
			unix = true
			continue
		}
		prefix, err := address.ParsePrefix(s)
		if err != nil {
			return ProxySet{}, err
		}
		// The private addresses of IPv6 are one prefix of 7 bits (RFC 4193), those of IPv4 have at least 8.
		if bits := prefix.Bits(); bits < 7 || bits < 8 && prefix.Addr().Is4() {
			slog.Warn("weir: keyfunc."+caller+": the prefix contains addresses of clients, which are trusted then", "prefix", s)
		}
		prefixes = append(prefixes, prefix)
	}
	return ProxySet{prefixes: address.NewPrefixes(prefixes), unix: unix}, nil
}

// Contains reports whether addr is in one of the prefixes of the set. IPv4-mapped addresses count as IPv4, zones are
// ignored, and the zero Addr is in no set.
func (p ProxySet) Contains(addr netip.Addr) bool {
	_, ok := p.prefixes.Find(addr.Unmap().WithZone(""))
	return ok
}

// ContainsKey reports whether one entry of the set contains all addresses of key, the key of an
// address: "10.1.2.3" is in "10.0.0.0/8", and "2001:db8::/64" is in "2001:db8::/32", but not in
// "2001:db8::/96". Any other text is in no set.
func (p ProxySet) ContainsKey(key string) bool {
	prefix, err := address.ParsePrefix(key)
	if err != nil {
		return false
	}
	entry, ok := p.prefixes.Find(prefix.Addr())
	return ok && entry.Bits() <= prefix.Bits()
}

// isEmpty reports whether p trusts no peer.
func (p ProxySet) isEmpty() bool { return p.hops == 0 && !p.unix && len(p.prefixes) == 0 }

// trustsPeer reports whether the forwarding headers of r are believed. peer is the address in
// r.RemoteAddr, or the zero Addr if there is none or r has arrived through a Unix socket.
func (p ProxySet) trustsPeer(r *http.Request, peer netip.Addr) bool {
	if p.hops > 0 {
		return true
	}
	if peer.IsValid() {
		return p.Contains(peer)
	}
	return p.unix && isUnixPeer(r)
}

// trustsEntry reports whether addr, the i-th entry of a list from the right, counted from 0, is the
// address of a proxy.
func (p ProxySet) trustsEntry(addr netip.Addr, i int) bool { return i+1 < p.hops || p.Contains(addr) }
