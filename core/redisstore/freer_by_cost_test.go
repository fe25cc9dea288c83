package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// The places of a lost reply are freed, also if it is not known how many were taken.
func TestFreer_ByCost(t *testing.T) {
	for name, ask := range map[string]func(*core.Limiter) error{
		"Reserve":               func(l *core.Limiter) error { _, err := l.Reserve(t.Context(), "k", 7); return err },
		"ReserveAtMost, all":    func(l *core.Limiter) error { _, err := l.ReserveAtMost(t.Context(), "k", 7); return err },
		"ReserveAtMost, a part": func(l *core.Limiter) error { _, err := l.ReserveAtMost(t.Context(), "k", 70); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			own, rule := prefix(), core.InFlight("tokens", 10).ByCost().Hold(time.Hour)
			proxy := redistest.NewProxy(t, server.Addr)
			proxy.DropReplies(0, "evalsha", "eval")
			rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout })
			lossy, healthy := testkit.Limiter(t, redisstore.New(rdb, own), rule), testkit.Limiter(t, newStore(server.Client(), own), rule)
			for _, r := range []*core.Reservation{testkit.Reserve(t, healthy, "k", 1), atMost(t, healthy)} { // loads the scripts
				testkit.Must(t, r.Release(t.Context()))
			}
			eventually(t, func() error {
				if err := ask(lossy); !errors.Is(err, core.ErrUnavailable) {
					t.Fatalf("got %v", err)
				}
				if testkit.Left(t, healthy, "k") == 10 {
					return errors.New("nothing was taken")
				}
				return nil
			})
			proxy.Pass()
			eventually(t, func() error {
				if n := testkit.Left(t, healthy, "k"); n != 10 {
					return fmt.Errorf("%d places are left, want 10", n)
				}
				return nil
			})
		})
	}
}

func atMost(t *testing.T, l *core.Limiter) *core.Reservation {
	r, err := l.ReserveAtMost(t.Context(), "k", 1)
	testkit.Must(t, err)
	return r
}
