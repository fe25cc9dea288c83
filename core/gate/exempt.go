package gate

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir/internal/address"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// Exempt makes the gate skip a request, like [Skip], if one of cidrs contains its address. resolver
// finds the address, for example [keyfunc.RemoteIP], or behind proxies [keyfunc.XForwardedFor] with
// the proxies that you trust. A request for which resolver returns an error, or a key that is no
// address, is not skipped. A gate can have both Skip and Exempt.
//
//	gate.Exempt(keyfunc.RemoteIP(), "10.0.0.0/8", "192.0.2.1", "2001:db8::/32")
//
// If the key is a prefix, one of cidrs must contain the whole prefix. By default, the key of an
// IPv6 address is its /64, which is never in a narrower CIDR or equal to a single address: for
// these, use a resolver with [keyfunc.IPv6Prefix](128).
//
// If cidrs contain a proxy and the address is that of the peer, as with RemoteIP, all clients of the proxy are exempt.
// The first such request that has a forwarding header logs a warning through [log/slog.Default].
//
// Exempt panics if resolver is nil, without cidrs, and if one of them is no CIDR or address.
func Exempt(resolver keyfunc.Func, cidrs ...string) Option {
	argument.NotNil("gate: Exempt", "resolver", resolver)
	if len(cidrs) == 0 {
		panic("gate: Exempt: no CIDR is given")
	}
	if slices.Contains(cidrs, "unix") {
		panic("gate: Exempt: a Unix socket has no address")
	}
	set, err := keyfunc.ParseProxies(cidrs...)
	if err != nil {
		panic("gate: Exempt: " + err.Error())
	}
	warned := new(atomic.Bool)
	return option(func(o *options) {
		o.exempt = func(ctx context.Context, r *http.Request) bool {
			key, err := resolver(ctx, r)
			if err != nil || !set.ContainsKey(key) {
				return false
			}
			if !warned.Load() {
				warnOfProxy(r, key, warned)
			}
			return true
		}
	})
}

// warnOfProxy logs a warning, once, if key is that of the peer of r, which has forwarded r.
func warnOfProxy(r *http.Request, key string, warned *atomic.Bool) {
	field := address.ForwardingField(r.Header)
	if field == "" {
		return
	}
	exempt, err := address.ParsePrefix(key)
	peer, _, ok := address.Parse(r.RemoteAddr)
	if err != nil || !ok || !exempt.Contains(peer) || !warned.CompareAndSwap(false, true) {
		return
	}
	slog.Warn("weir: gate.Exempt exempts all clients of a proxy, whose address is that of the resolver; use a resolver that finds the address of the client",
		"field", field, "peer", peer.String(), "use", "keyfunc.XForwardedFor(keyfunc.Proxies(\""+peer.String()+"\"))")
}
