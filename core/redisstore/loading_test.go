package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A server that is restarted reads its data for a while, and answers LOADING
// meanwhile. Decisions fail until then, and none of them is charged; afterwards the
// limits go on where they were.
func TestLoading(t *testing.T) {
	t.Parallel()
	const limit, before, filler = 100_000, 600, 2000
	server := redistest.NewServer(t,
		"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024") // a second for the filler
	rdb := server.Client()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(server.Client(), append([]redisstore.Option{prefix()}, mode.opts...)...)
			l := testkit.Limiter(t, s, core.TokenBucket("bucket", core.Per(limit, century)), core.SlidingLog("log", core.PerDay(limit)))
			testkit.Admit(t, l, "k", before)
			pipe := rdb.Pipeline()
			for i := range filler {
				pipe.Set(t.Context(), fmt.Sprint("filler ", i), strings.Repeat("x", 1000), 0)
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			testkit.Must(t, rdb.Save(t.Context()).Err())
			testkit.Must(t, server.Stop())

			var admitted, loading, failed atomic.Int64
			stop := underLoad(t, 4, func() {
				d, err := l.Allow(t.Context(), "k")
				switch {
				case err == nil && d.Allowed:
					admitted.Add(1)
				case !errors.Is(err, core.ErrUnavailable):
					t.Errorf("%+v, %v", d, err)
				case strings.Contains(err.Error(), "LOADING"):
					loading.Add(1)
				default:
					failed.Add(1)
				}
			})
			testkit.Must(t, server.Start())
			eventually(t, func() error {
				if admitted.Load() < 100 {
					return errors.New("hardly anything is decided again")
				}
				return nil
			})
			stop()
			n, unknown := int(admitted.Load())+before, int(failed.Load())
			t.Logf("%d were admitted, %d failed because the server was loading, %d otherwise", n, loading.Load(), unknown)
			if loading.Load() == 0 {
				t.Error("the server was never seen loading: the test checks nothing")
			}
			for i, got := range testkit.Used(t, l, "k") {
				if got < n || got > n+unknown {
					t.Errorf("rule %d has used %d, admitted were %d", i, got, n)
				}
			}
		})
	}
}
