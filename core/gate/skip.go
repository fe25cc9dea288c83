package gate

import (
	"context"
	"net/http"
	"slices"

	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// Skip makes the gate let a request through if f returns true for it. A skipped request needs no
// key, is charged nothing and gets no header fields. Use Skip for health checks and CORS preflight.
// f must not trust header fields that clients can set. ctx is the context that key functions get
// ([keyfunc.Func]): in Gin and Echo, it has the values that earlier middleware has set. Skip panics
// if f is nil.
func Skip(f func(ctx context.Context, r *http.Request) bool) Option {
	argument.NotNil("gate: Skip", "function", f)
	return option(func(o *options) { o.skip = f })
}

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
	return option(func(o *options) {
		o.exempt = func(ctx context.Context, r *http.Request) bool {
			key, err := resolver(ctx, r)
			return err == nil && set.ContainsKey(key)
		}
	})
}
