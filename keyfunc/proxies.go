package keyfunc

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ProxySet is a set of trusted proxies: peers whose forwarding headers are believed. The zero value
// trusts no peer. A ProxySet is immutable and safe for concurrent use.
type ProxySet struct {
	// The prefixes are masked, disjoint and sorted by address.
	prefixes []netip.Prefix
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
		prefix, err := parseProxy(s)
		if err != nil {
			return ProxySet{}, err
		}
		// The private addresses of IPv6 are one prefix of 7 bits (RFC 4193), those of IPv4 have at least 8.
		if bits := prefix.Bits(); bits < 7 || bits < 8 && prefix.Addr().Is4() {
			slog.Warn("weir: keyfunc."+caller+": the prefix contains addresses of clients, which are trusted then", "prefix", s)
		}
		prefixes = append(prefixes, prefix)
	}
	// Sort by address, and a wider prefix before a narrower prefix with the same address. The
	// prefixes that a prefix contains then follow it directly.
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	disjoint := prefixes[:0]
	for _, prefix := range prefixes {
		if n := len(disjoint); n == 0 || !disjoint[n-1].Contains(prefix.Addr()) {
			disjoint = append(disjoint, prefix)
		}
	}
	return ProxySet{prefixes: disjoint, unix: unix}, nil
}

func parseProxy(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("%q is neither an IP address nor a CIDR prefix", s)
		}
		if addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone, which is not compared: leave it out", s)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR prefix such as 10.0.0.0/8", s)
	}
	if masked := prefix.Masked(); prefix != masked {
		return netip.Prefix{}, fmt.Errorf("%q has bits set beyond its prefix: write %q for the network or %q for the one address",
			s, masked, prefix.Addr())
	}
	if addr := prefix.Addr(); addr.Is4In6() {
		// A mapped prefix without host bits has at least 96 bits.
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix, nil
}

// Contains reports whether addr is in one of the prefixes of the set. IPv4-mapped addresses count as IPv4, zones are
// ignored, and the zero Addr is in no set.
func (p ProxySet) Contains(addr netip.Addr) bool {
	_, ok := p.find(addr.Unmap().WithZone(""))
	return ok
}

// ContainsKey reports whether one entry of the set contains all addresses of key, the key of an
// address: "10.1.2.3" is in "10.0.0.0/8", and "2001:db8::/64" is in "2001:db8::/32", but not in
// "2001:db8::/96". Any other text is in no set.
func (p ProxySet) ContainsKey(key string) bool {
	prefix, err := parseProxy(key)
	if err != nil {
		return false
	}
	entry, ok := p.find(prefix.Addr())
	return ok && entry.Bits() <= prefix.Bits()
}

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

// isUnixPeer reports whether r has arrived through a Unix socket. A server of net/http puts the
// address of its listener into the context. For other servers the RemoteAddr decides: "", "@",
// "@name" or a path.
func isUnixPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}

// find returns the prefix that contains addr, which must be unmapped and without a zone.
func (p ProxySet) find(addr netip.Addr) (prefix netip.Prefix, ok bool) {
	// Only the last prefix that starts at or before addr can contain it.
	i, found := slices.BinarySearchFunc(p.prefixes, addr, func(prefix netip.Prefix, addr netip.Addr) int {
		return prefix.Addr().Compare(addr)
	})
	if !found {
		i--
	}
	if i < 0 || !p.prefixes[i].Contains(addr) {
		return netip.Prefix{}, false
	}
	return p.prefixes[i], true
}
