package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A pipelining client has an automatic pipeline.
type pipelining interface {
	redis.UniversalClient
	AsyncAutoPipelineWithOptions(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
}

func pipelineOf(t *testing.T, rdb pipelining, options *redis.AutoPipelineOptions) *redis.AutoPipeliner {
	t.Helper()
	auto, err := rdb.AsyncAutoPipelineWithOptions(options)
	testkit.Must(t, err)
	return auto
}

// pipeliningClients returns the kinds of clients on which a Store can be Pipelined.
func pipeliningClients(t *testing.T) map[string]func() pipelining {
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	return map[string]func() pipelining{
		"single":  func() pipelining { return server.Client() },
		"cluster": func() pipelining { return cluster.Client() },
	}
}

func TestPipelined_OnPipelineOfTheApplication(t *testing.T) {
	t.Parallel()
	const want = "redisstore: Pipelined: the application uses the automatic pipeline of the client (AsyncAutoPipeline), " +
		"with other options than a limiter needs: give the limiter a client of its own"
	for name, client := range pipeliningClients(t) {
		options := func() redis.AutoPipelineOptions { // of a Store
			rdb := client()
			redisstore.New(rdb, redisstore.Pipelined())
			return pipelineOf(t, rdb, nil).Config()
		}()
		for _, c := range []struct {
			field  string
			change func(*redis.AutoPipelineOptions)
		}{
			{"all", func(o *redis.AutoPipelineOptions) { *o = *redis.DefaultAutoPipelineOptions() }},
			{"MaxBatchSize", func(o *redis.AutoPipelineOptions) { o.MaxBatchSize = 7 }},
			{"MaxBatchBytes", func(o *redis.AutoPipelineOptions) { o.MaxBatchBytes = 1 << 10 }},
			{"MaxConcurrentBatches", func(o *redis.AutoPipelineOptions) { o.MaxConcurrentBatches = 1 }},
			{"Unordered", func(o *redis.AutoPipelineOptions) { o.Unordered, o.MaxConcurrentBatches, o.NumShards = false, 1, 1 }},
			{"FullDuplex", func(o *redis.AutoPipelineOptions) {
				o.FullDuplex, o.Unordered, o.MaxConcurrentBatches, o.NumShards = true, false, 1, 1
			}},
			{"NumShards", func(o *redis.AutoPipelineOptions) { o.NumShards = 3 }},
			{"MaxFlushDelay", func(o *redis.AutoPipelineOptions) { o.MaxFlushDelay = 150 * time.Millisecond }},
			{"AdaptiveDelay", func(o *redis.AutoPipelineOptions) { o.AdaptiveDelay, o.MaxFlushDelay = true, time.Millisecond }},
			{"MaxQueuedCommands", func(o *redis.AutoPipelineOptions) { o.MaxQueuedCommands = 0 }},
		} {
			t.Run(name+"/"+c.field, func(t *testing.T) {
				rdb, options := client(), options
				c.change(&options)
				pipelineOf(t, rdb, &options)
				testkit.Panics(t, want, func() { redisstore.New(rdb, redisstore.Pipelined()) })
			})
		}
	}
}

// Two Stores on one client share its pipeline, also with an application that opens it later.
func TestPipelined_TwoStoresOnOneClient(t *testing.T) {
	t.Parallel()
	for name, client := range pipeliningClients(t) {
		t.Run(name, func(t *testing.T) {
			rdb := client()
			for range 2 {
				s := newStore(rdb, redisstore.Pipelined())
				testkit.Admit(t, testkit.Limiter(t, s, dailyRules()...), "k", 1)
			}
			auto := pipelineOf(t, rdb, redis.DefaultAutoPipelineOptions())
			if got := auto.Config(); !got.Unordered || got.MaxQueuedCommands == 0 {
				t.Errorf("the pipeline of the application has the options %+v, want those of the Stores", got)
			}
		})
	}
}

// No decision fails when the application closes the pipeline of the client.
func TestPipelined_ApplicationClosesThePipeline(t *testing.T) {
	t.Parallel()
	for name, client := range pipeliningClients(t) {
		t.Run(name, func(t *testing.T) {
			rdb := client()
			l := testkit.Limiter(t, newStore(rdb, redisstore.Pipelined()), largeRules()...)
			load := startLoad(t, 8, l, "k")
			for range 20 {
				load.admit(t, 100)
				testkit.Must(t, pipelineOf(t, rdb, nil).Close())
			}
			if failed := load.check(t, 0); failed != 0 {
				t.Errorf("%d decisions failed, want 0", failed)
			}
		})
	}
}

// Only clients that have an automatic pipeline can be Pipelined.
func TestPipelined_ring(t *testing.T) {
	t.Parallel()
	testkit.Panics(t, "redisstore: Pipelined: the client is neither a *redis.Client nor a *redis.ClusterClient", func() {
		redisstore.New(clientKinds(t, "127.0.0.1:1")["ring"], redisstore.Pipelined())
	})
}

// If the application closes the pipeline and opens another one, decisions fail with an error that
// says so, until the application closes that pipeline, too.
func TestPipelined_ApplicationReplacesThePipeline(t *testing.T) {
	t.Parallel()
	for name, client := range pipeliningClients(t) {
		t.Run(name, func(t *testing.T) {
			rdb := client()
			s := newStore(rdb, redisstore.Pipelined())
			l := testkit.Limiter(t, s, dailyRules()...)
			testkit.Admit(t, l, "k", 1)
			testkit.Must(t, pipelineOf(t, rdb, nil).Close())
			theirs := pipelineOf(t, rdb, redis.DefaultAutoPipelineOptions())
			d, err := l.Allow(t.Context(), "k")
			unavailable(t, d, err)
			if want := "give the limiter a client of its own"; !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %q, want a text with %q", err, want)
			}
			testkit.Must(t, theirs.Close())
			testkit.Admit(t, l, "k", 1)
			testkit.Must(t, rdb.Close())
			d, err = l.Allow(t.Context(), "k")
			unavailable(t, d, err)
			if !errors.Is(err, redis.ErrClosed) {
				t.Errorf("the error of a closed client is %v, want redis.ErrClosed", err)
			}
		})
	}
}
