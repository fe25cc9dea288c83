package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/internal/testkit"
)

// Callers whose round trip has no reply before their deadlines have the error of one round trip.
func TestError_RoundTrip_noReply(t *testing.T) {
	t.Parallel()
	const alone, together = 4, 8
	release, end := make(chan struct{}), make(chan struct{})
	rdb := redis.NewClient(&redis.Options{Dialer: servertest.Dialer(func(args []string) string {
		if args[2] == "1" {
			<-release
			return array(integer(1_700_000_000_000_000), integer(0), integer(1), integer(0))
		}
		<-end
		return integer(0)
	})})
	t.Cleanup(func() { close(end); _ = rdb.Close() })
	s := newStore(rdb, redisstore.Timeout(2*time.Second))
	l := testkit.Limiter(t, s, core.TokenBucket("r", core.PerSecond(100)))
	var wg sync.WaitGroup
	for range alone {
		wg.Go(func() {
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, func() error {
		if n := s.Stats().Running; n < alone {
			return fmt.Errorf("%d round trips are under way, want %d", n, alone)
		}
		return nil
	})
	errs := make([]error, together)
	for i := range errs {
		wg.Go(func() { _, errs[i] = l.Allow(t.Context(), "k") })
	}
	eventually(t, func() error {
		if n := s.Stats().Waiting; n < together {
			return fmt.Errorf("%d requests wait, want %d", n, together)
		}
		return nil
	})
	close(release)
	wg.Wait()
	var first uint64
	for i, err := range errs {
		var shared interface{ RoundTrip() uint64 }
		if !errors.As(err, &shared) || shared.RoundTrip() == 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the error is %v, want that of a round trip", err)
		}
		if i == 0 {
			first = shared.RoundTrip()
		}
		if shared.RoundTrip() != first {
			t.Errorf("the error is that of round trip %d, want %d", shared.RoundTrip(), first)
		}
	}
}
