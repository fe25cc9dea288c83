package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

var (
	errNoPeer    = fmt.Errorf("%w: the remote address of the request is not an IP address", ErrNoKey)
	errNoAddress = fmt.Errorf("%w: not an IP address", ErrNoKey)
)

// IPOption changes how an address becomes a key. The only options are [IPv4Prefix]
// and [IPv6Prefix]; of two of one kind the later counts.
type IPOption interface{ applyIP(*ipConfig) }

type ipOption func(*ipConfig)

func (o ipOption) applyIP(c *ipConfig) { o(c) }

// IPv6Prefix sets how many leading bits of an IPv6 address make the key. The
// default is 64, the size of one subnet (RFC 4291 section 2.5.4): a host may
// use any of the 2^64 addresses in it, so a finer key is no limit at all.
// Providers hand out up to a /48 a site. Behind a stateless translator that
// carries IPv4 in the last 32 bits (64:ff9b::/96, RFC 6052), use 128.
//
// IPv6Prefix panics if bits is outside 32 to 128.
func IPv6Prefix(bits int) IPOption {
	if bits < 32 || bits > 128 {
		panic(fmt.Sprintf("keyfunc: IPv6Prefix: %d bits is outside 32 to 128", bits))
	}
	return ipOption(func(c *ipConfig) { c.v6 = bits })
}

// IPv4Prefix sets how many leading bits of an IPv4 address make the key. The
// default is 32, the whole address; below that the key is a prefix like
// "203.0.113.0/24". IPv4-mapped IPv6 addresses are IPv4 here.
//
// IPv4Prefix panics if bits is outside 8 to 32.
func IPv4Prefix(bits int) IPOption {
	if bits < 8 || bits > 32 {
		panic(fmt.Sprintf("keyfunc: IPv4Prefix: %d bits is outside 8 to 32", bits))
	}
	return ipOption(func(c *ipConfig) { c.v4 = bits })
}

// ipConfig holds how many bits of an address of either family count.
type ipConfig struct{ v4, v6 int }

func newIPConfig(caller string, opts []IPOption) ipConfig {
	c := ipConfig{v4: 32, v6: 64}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("keyfunc: %s: option %d is nil", caller, i))
		}
		o.applyIP(&c)
	}
	return c
}

// key is the canonical text of addr, which is unmapped and has no zone. It is
// a string of its own: a piece of a header would keep the whole header alive.
func (c ipConfig) key(addr netip.Addr) string {
	bits := c.v6
	if addr.Is4() {
		bits = c.v4
	}
	if bits == addr.BitLen() {
		return addr.String()
	}
	// Prefix.String would allocate twice.
	var b [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return string(netip.PrefixFrom(addr, bits).Masked().AppendTo(b[:0]))
}

// RemoteIP keys by the address of the peer, r.RemoteAddr. No header is
// believed, so it is right where clients connect directly, or where the
// listener speaks the PROXY protocol. Behind any other proxy all clients are
// one address: use [XForwardedFor], [Forwarded] or [HeaderIP] there.
//
// Ports and zones are dropped, IPv4-mapped addresses (RFC 4291 section
// 2.5.5.2) are IPv4, and IPv6 is masked to /64 unless [IPv6Prefix] says
// otherwise. A RemoteAddr without an IP address, such as that of a Unix
// socket, is [ErrNoKey].
func RemoteIP(opts ...IPOption) Func {
	return clientIP("RemoteIP", ProxySet{}, opts, nil)
}

// clientIP returns a Func that keys by the peer. If the peer is in p, the Func keys
// by the address that find returns for the header of the request and the peer.
func clientIP(caller string, p ProxySet, opts []IPOption, find func(h http.Header, peer netip.Addr) (netip.Addr, error)) Func {
	c := newIPConfig(caller, opts)
	return func(_ context.Context, r *http.Request) (string, error) {
		peer, text, ok := parseAddr(r.RemoteAddr)
		if !ok {
			return "", errNoPeer
		}
		client := peer
		if p.Contains(peer) {
			var err error
			if client, err = find(r.Header, peer); err != nil {
				return "", err
			}
		}
		if client == peer && c.v4 == 32 && peer.Is4() && !strings.Contains(text, ":") {
			return text, nil // costs no allocation, and is as short as the key
		}
		return c.key(client), nil
	}
}

// CanonicalIP is the key of an address that a framework or a key function of
// your own has found. It reads the same texts as [RemoteIP], brackets, ports
// and zones included, and makes the same keys. Any other text is [ErrNoKey].
//
// The address is believed: the caller has to know that it is the client's.
func CanonicalIP(address string, opts ...IPOption) (string, error) {
	c := newIPConfig("CanonicalIP", opts)
	addr, _, ok := parseAddr(address)
	if !ok {
		return "", errNoAddress
	}
	return c.key(addr), nil
}
