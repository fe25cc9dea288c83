package keyfunc_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestCanonicalIP(t *testing.T) {
	for _, c := range []struct {
		addr, want string
		opts       []keyfunc.IPOption
	}{
		{addr: "203.0.113.9", want: "203.0.113.9"},
		{addr: "203.0.113.9:80", want: "203.0.113.9"},
		{addr: "::ffff:203.0.113.9", want: "203.0.113.9"},
		{addr: "2001:db8:1:2:3:4:5:6", want: "2001:db8:1:2::/64"},
		{addr: "[2001:DB8:1:2::6%eth0]:80", want: "2001:db8:1:2::/64"},
		{addr: "2001:db8:1:2::6", want: "2001:db8:1::/48", opts: []keyfunc.IPOption{keyfunc.IPv6Prefix(48)}},
		{addr: "203.0.113.9", want: "203.0.113.0/24", opts: []keyfunc.IPOption{keyfunc.IPv4Prefix(24)}},
	} {
		got, err := keyfunc.CanonicalIP(c.addr, c.opts...)
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.addr, got, err, c.want)
		}
	}
	for _, addr := range notAddresses {
		if got, err := keyfunc.CanonicalIP(addr); !errors.Is(err, keyfunc.ErrNoKey) {
			t.Errorf("%q: %q, %v; want ErrNoKey", addr, got, err)
		}
	}
}

// TestCanonicalIPIsRemoteIP: an address is one key, whoever found it out.
func TestCanonicalIPIsRemoteIP(t *testing.T) {
	peer := keyfunc.RemoteIP()
	for _, addr := range []string{"203.0.113.9", "::1", "2001:db8::1.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0"} {
		want, err := peer(context.Background(), &http.Request{RemoteAddr: addr})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keyfunc.CanonicalIP(addr); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", addr, got, err, want)
		}
	}
}
