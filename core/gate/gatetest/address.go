package gatetest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

// testClientAddress checks the key function of the option ClientAddress.
func (s *suite) testClientAddress(t *testing.T) {
	for name, c := range map[string]struct {
		trust                 bool
		peer, forwarded, want string // want is empty for an ErrNoKey
		opts                  []keyfunc.IPOption
	}{
		"peer":                        {false, "192.0.2.1:80", "", "192.0.2.1", nil},
		"peer that is not trusted":    {false, "192.0.2.1:80", "198.51.100.7", "192.0.2.1", nil},
		"peer of a trusting gate":     {true, "203.0.113.9:80", "198.51.100.7", "203.0.113.9", nil},
		"IPv6 peer":                   {false, "[2001:db8:1:2:3:4:5:6]:80", "", "2001:db8:1:2::/64", nil},
		"IPv6 peer, /48":              {false, "[2001:db8:1:2:3:4:5:6]:80", "", "2001:db8:1::/48", []keyfunc.IPOption{keyfunc.IPv6Prefix(48)}},
		"forwarded":                   {true, "192.0.2.1:80", "198.51.100.7", "198.51.100.7", nil},
		"forwarded IPv6":              {true, "192.0.2.1:80", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", nil},
		"forwarded IPv4 in IPv6":      {true, "192.0.2.1:80", "::ffff:198.51.100.7", "198.51.100.7", nil},
		"Unix socket":                 {false, "@", "", "", nil},
		"Unix socket that forwards":   {false, "@", "garbage", "", nil},
		"peer that is not an address": {false, "nobody", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			var err error
			h := s.buildTrusting(c.trust, func(ctx context.Context, r *http.Request) (string, error) {
				type own struct{}
				got, err = s.clientAddress(c.opts...)(context.WithValue(ctx, own{}, 1), r) // a derived context has the client, too
				return got, err
			}, says("ok\n"))
			r := request("GET", "/")
			r.RemoteAddr = c.peer
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			record(t, h, r)
			if got != c.want || (c.want == "") != errors.Is(err, keyfunc.ErrNoKey) {
				t.Errorf("the key is %q, %v; want %q", got, err, c.want)
			}
		})
	}
	t.Run("request of another framework", func(t *testing.T) {
		if got, err := s.clientAddress()(t.Context(), request("GET", "/")); !errors.Is(err, keyfunc.ErrNoKey) {
			t.Errorf("the key is %q, %v; want ErrNoKey", got, err)
		}
	})
	t.Run("nil option", func(t *testing.T) {
		if caught(func() { s.clientAddress(nil) }) == nil {
			t.Error("a nil option does not panic")
		}
	})
}
