package gate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// TestAdmit_NotLimited checks that a limiter whose key function returns keyfunc.ErrNotLimited is ignored.
func TestAdmit_NotLimited(t *testing.T) {
	key := constant("k")
	free := noKey(fmt.Errorf("an administrator: %w", keyfunc.ErrNotLimited))
	both := noKey(fmt.Errorf("%w: %w", keyfunc.ErrNoToken, keyfunc.ErrNotLimited))
	if got := record(t, start(setup{Key: both, Opts: []gate.Option{quiet}}), request("GET", "/")).Status; got != 401 {
		t.Errorf("an invalid token whose error is also an ErrNotLimited: got status %d, want 401", got)
	}
	for _, c := range []struct {
		name     string
		key, and keyfunc.Func
		opts     []gate.Option
		want     []string // the keys that are charged; without them, there are no header fields
	}{
		{"alone", free, nil, nil, nil},
		{"alone, with refunds", free, nil, []gate.Option{refundAll}, nil},
		{"all", free, free, nil, nil},
		{"first", free, key, nil, []string{"k"}},
		{"last", key, free, nil, []string{"k"}},
		{"last, with refunds", key, free, []gate.Option{succeeded}, []string{"k"}},
		{"first of", keyfunc.FirstOf(noKey(keyfunc.ErrNoKey), free, key), nil, nil, nil},
		{"join", keyfunc.Join(constant("a"), free), key, nil, []string{"k"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			a := start(setup{Store: memory().Set(recording(&asked)), Key: c.key, And: c.and, Opts: c.opts})
			w := record(t, a, request("GET", "/"))
			var keys []string
			for _, charge := range asked {
				if charge.Op == driver.Spend {
					keys = append(keys, charge.Key)
				}
			}
			fields := w.Header.Get("RateLimit") != ""
			if w.Status != 200 || !slices.Equal(keys, c.want) || fields != (c.want != nil) {
				t.Errorf("got status %d, charged keys %v, header %v; want 200, keys %v", w.Status, keys, w.Header, c.want)
			}
		})
	}
}
