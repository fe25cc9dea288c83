package gate_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

func TestSkip(t *testing.T) {
	preflight := func() *http.Request { return request("OPTIONS", "/v1/orders") }
	isPreflight := func(_ context.Context, r *http.Request) bool { return r.Method == http.MethodOptions }
	table(t, []row{{
		name: "skipped: needs no key and gets no field",
		opts: []gate.Option{gate.Skip(isPreflight), gate.ExposeHeaders()}, key: noKey(keyfunc.ErrNoKey), req: preflight, noStore: true,
		header: map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name: "not skipped: Skip is called for every request", opts: []gate.Option{gate.Skip(isPreflight)}, status: 429,
	}, {
		name: "exempt: needs no key and gets no field",
		opts: []gate.Option{gate.Exempt(constant("10.1.2.3"), "192.0.2.1", "10.0.0.0/8"), gate.ExposeHeaders()}, key: noKey(keyfunc.ErrNoKey),
		noStore: true, header: map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name: "exempt by the address of the peer", opts: []gate.Option{gate.Exempt(keyfunc.RemoteIP(), "127.0.0.1", "192.0.2.1")}, noStore: true,
	}, {
		name: "exempt, a whole prefix", opts: []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8::/32")}, noStore: true,
	}, {
		name: "not exempt, another address", opts: []gate.Option{gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")}, status: 429,
	}, {
		name: "not exempt, a part of a prefix", opts: []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8:1:2::/65")}, status: 429,
	}, {
		name: "not exempt, no address", opts: []gate.Option{gate.Exempt(constant("user:10.1.2.3"), "0.0.0.0/0", "::/0")}, status: 429,
	}, {
		name: "not exempt, an error", opts: []gate.Option{gate.Exempt(addressAndError, "10.0.0.0/8")}, status: 429,
	}, {
		name: "skipped and not exempt",
		opts: []gate.Option{gate.Skip(isPreflight), gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")}, req: preflight, noStore: true,
	}, {
		name: "exempt and not skipped", opts: []gate.Option{gate.Exempt(constant("10.1.2.3"), "10.0.0.0/8"), gate.Skip(isPreflight)}, noStore: true,
	}})
}

// addressAndError is a key function that returns an address beside an error.
func addressAndError(context.Context, *http.Request) (string, error) {
	return "10.1.2.3", keyfunc.ErrNoKey
}
