package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
)

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.Per(2, 3*time.Second))))
		ctx := context.Background()
		d, _ := l.AllowN(ctx, "k", 2)
		if s, ok := gate.RetryAfter(d); d.Allowed && ok {
			t.Errorf("an admitted decision has a Retry-After of %d", s)
		}
		d, _ = l.Allow(ctx, "k")
		if s, ok := gate.RetryAfter(d); s != 2 || !ok {
			t.Errorf("1.5 s are %d, %v", s, ok)
		}
		d, _ = l.AllowN(ctx, "k", 3)
		if s, ok := gate.RetryAfter(d); ok {
			t.Errorf("never is %d", s)
		}
	})
}
