package keyfunc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/internal/address"
	"github.com/weir-go/weir/internal/argument"
)

// ows is optional white space (RFC 9110 section 5.6.3).
const ows = " \t"

var (
	errNoPeer    = fmt.Errorf("%w: the remote address of the request is not an IP address", ErrNoKey)
	errNoAddress = fmt.Errorf("%w: not an IP address", ErrNoKey)
)

// IPOption changes how an address becomes a key. The only options are [IPv4Prefix] and
// [IPv6Prefix]. If an option is given twice, the later one is used.
type IPOption interface{ argument.Option[ipConfig] }

type ipOption = argument.OptionFunc[ipConfig]

// IPv6Prefix sets the number of leading bits of an IPv6 address that make the key. The default is
// 64, the size of one subnet (RFC 4291 section 2.5.4). A host can use all 2^64 addresses of its
// subnet: with a longer prefix it could evade a limit. Providers assign up to a /48 to one site.
// Behind a stateless translator with IPv4 in the last 32 bits (64:ff9b::/96, RFC 6052), use 128.
//
// IPv6Prefix panics if bits is outside 32 to 128.
func IPv6Prefix(bits int) IPOption {
	if bits < 32 || bits > 128 {
		panic(fmt.Sprintf("keyfunc: IPv6Prefix: %d bits is outside 32 to 128", bits))
	}
	return ipOption(func(c *ipConfig) { c.v6 = bits })
}

// IPv4Prefix sets the number of leading bits of an IPv4 address that make the key. The default is
// 32, the whole address; with fewer bits the key is a prefix like "203.0.113.0/24". IPv4-mapped
// IPv6 addresses count as IPv4.
//
// IPv4Prefix panics if bits is outside 8 to 32.
func IPv4Prefix(bits int) IPOption {
	if bits < 8 || bits > 32 {
		panic(fmt.Sprintf("keyfunc: IPv4Prefix: %d bits is outside 8 to 32", bits))
	}
	return ipOption(func(c *ipConfig) { c.v4 = bits })
}

// ipConfig holds the number of bits of an address that make the key, for each family.
type ipConfig struct{ v4, v6 int }

func newIPConfig(caller string, opts []IPOption) ipConfig {
	c := ipConfig{v4: address.V4, v6: address.V6}
	argument.Apply("keyfunc: "+caller, &c, opts)
	return c
}

// RemoteIP returns a Func that derives the key from the address of the peer, r.RemoteAddr. It
// believes no header. Use it if clients connect directly, or if the listener speaks the PROXY
// protocol. Behind other proxies all clients would have one key: use [XForwardedFor], [Forwarded]
// or [HeaderIP].
//
// Ports and zones are ignored, IPv4-mapped addresses (RFC 4291 section 2.5.5.2) count as IPv4, and
// IPv6 is masked to /64 unless [IPv6Prefix] sets another length. The error is [ErrNoKey] if
// RemoteAddr contains no IP address, and for every request over a Unix socket, whose client could
// give its end any name, such as "203.0.113.9:80".
//
// The first request from a private or loopback address, or over a Unix socket, that has a
// forwarding header logs a warning through [log/slog.Default], because the peer is probably a
// proxy. The line contains the address of the peer and the call to use, and not the header's value.
func RemoteIP(opts ...IPOption) Func {
	return clientIP("RemoteIP", "", ProxySet{}, opts, nil)
}

// clientIP returns a Func that derives the key from the address of the peer or, if p trusts the
// peer, from the address that find returns for the header of the request and the peer. header is
// the name of that header, or "" if find is nil.
func clientIP(caller, header string, p ProxySet, opts []IPOption, find func(h http.Header, peer netip.Addr) (netip.Addr, error)) Func {
	c := newIPConfig(caller, opts)
	w := &proxyWarning{caller: caller, header: header}
	return func(_ context.Context, r *http.Request) (string, error) {
		peer, text := peerOf(r)
		client := peer
		if find != nil && p.trustsPeer(r, peer) {
			var err error
			if client, err = find(r.Header, peer); err != nil {
				return "", err
			}
		} else if (!peer.IsValid() || address.IsPrivate(peer)) && !w.logged.Load() {
			w.check(r, peer)
		}
		if !client.IsValid() {
			return "", errNoPeer
		}
		if client == peer && c.v4 == 32 && peer.Is4() && text != "" {
			return text, nil // no copy: text keeps RemoteAddr in memory, which is hardly longer
		}
		return address.Key(client, c.v4, c.v6), nil
	}
}

// peerOf returns the address of the peer of r, or the zero Addr if there is none, and its text, or "" if that may differ
// from the text of its key.
func peerOf(r *http.Request) (peer netip.Addr, text string) {
	peer, text, ok := address.ParseIPv4(r.RemoteAddr)
	if !ok {
		peer, text, _ = address.Parse(r.RemoteAddr) // the zero Addr for any other text
		if strings.Contains(text, ":") {
			text = "" // such as an IPv4 address in IPv6
		}
	}
	if peer.IsValid() && isUnixPeer(r) {
		peer = netip.Addr{} // the name of a socket, which its client has chosen
	}
	return peer, text
}

// isUnixPeer reports whether r has arrived through a Unix socket. A server of net/http puts the
// address of its listener into the context. For other servers the RemoteAddr decides: "", "@",
// "@name" or a path.
func isUnixPeer(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return strings.HasPrefix(local.Network(), "unix")
	}
	return r.RemoteAddr == "" || r.RemoteAddr[0] == '@' || r.RemoteAddr[0] == '/'
}

// CanonicalIP returns the key of an address that a framework or your own key function has found, or
// that an operator looks up or resets. It accepts the same texts as [RemoteIP], including brackets,
// ports and zones, and returns the same keys. For any other text the error is [ErrNoKey]. For the
// key of a user, use [UserKey].
//
// The caller must make sure that the address is the client's. opts must be those of the function
// that returns the keys of requests.
func CanonicalIP(text string, opts ...IPOption) (string, error) {
	c := newIPConfig("CanonicalIP", opts)
	addr, _, ok := address.Parse(text)
	if !ok {
		return "", errNoAddress
	}
	return address.Key(addr, c.v4, c.v6), nil
}
