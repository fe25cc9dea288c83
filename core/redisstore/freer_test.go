package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A place whose caller does not learn it, because the reply is lost, is freed long before it lapses.
func TestFreer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		own := prefix()
		rules := []*driver.Compiled{inFlight(t, "lost", 3, time.Hour, 0), inFlight(t, "also", 5, 2*time.Hour, 0)}
		f := newFlight(t, server.Client(), rules[0])
		healthy := newStore(f.rdb, append(opts, own)...)
		proxy := redistest.NewProxy(t, server.Addr)
		proxy.DropReplies(closeAfter, "evalsha", "eval")
		lossy := newStore(server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout }), append(opts, own)...)
		f.Store, f.key = healthy, healthy.StateKey("k", rules[0])
		held := f.take()
		spend := func(s *redisstore.Store) error {
			var charges []driver.Charge
			for _, rule := range rules {
				charges = append(charges, driver.Charge{Key: "k", Rule: rule, Op: driver.Spend, Cost: 1})
			}
			return s.Take(t.Context(), charges)
		}
		for range 2 {
			eventually(t, func() error { // on a busy machine, a call may end before it was sent
				if err := spend(lossy); !errors.Is(err, core.ErrUnavailable) {
					t.Fatalf("got error %v, expected core.ErrUnavailable", err)
				}
				if len(f.places()) < 2 {
					return errors.New("no place was taken")
				}
				return nil
			})
		}
		proxy.Pass()
		eventually(t, func() error {
			if n := len(f.places()); n != 1 {
				return fmt.Errorf("%d places are taken, want 1", n)
			}
			return nil
		})
		f.rule, f.key = rules[1], healthy.StateKey("k", rules[1])
		eventually(t, func() error {
			if n := len(f.places()); n != 0 {
				return fmt.Errorf("%d places of the second rule are taken, want 0", n)
			}
			return nil
		})
		f.rule = rules[0]
		if v := f.do(driver.Renew, held).Verdict; !v.Found {
			t.Errorf("the renewal of the place of another caller: got %+v, expected found", v)
		}
	})
}

// An undo that Redis executes before the Take is repeated.
func TestFreer_UndoBeforeTake(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			admin, rdb := server.Client(), server.Client(func(o *redis.Options) { o.ReadTimeout = replyTimeout })
			f := newFlight(t, admin, inFlight(t, "late", 50, time.Hour, 0))
			s := newStore(rdb, append(mode.opts, redisstore.Timeout(short))...)
			f.Store, f.key = s, s.StateKey("k", f.rule)
			for range 20 { // loads the scripts
				if c, err := f.try(driver.Spend, driver.Receipt{}); err == nil {
					_, _ = f.try(driver.Undo, c.Receipt)
				}
			}
			opened := rdb.PoolStats().Misses
			testkit.Must(t, server.Pause())
			for range 10 {
				if c, err := f.try(driver.Spend, driver.Receipt{}); err == nil {
					t.Errorf("a paused server: got %+v, expected an error", c.Verdict)
				}
			}
			eventually(t, func() error {
				if n := rdb.PoolStats().Misses - opened; n < 5 {
					return fmt.Errorf("%d connections were opened in place of those that had no reply, want 5", n)
				}
				return nil
			})
			testkit.Must(t, server.Resume())
			eventually(t, func() error {
				if n := len(f.places()); n != 0 {
					return fmt.Errorf("%d places are taken, want 0", n)
				}
				return nil
			})
		})
	}
}
