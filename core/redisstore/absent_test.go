package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// users are the ways to reach one address, as a server and as the only node of
// a Cluster that is known.
func users(t *testing.T, addr string) map[string]redis.UniversalClient {
	single := redis.NewClient(&redis.Options{Addr: addr})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": addr}})
	t.Cleanup(func() {
		_, _, _ = single.Close(), cluster.Close(), ring.Close()
	})
	return map[string]redis.UniversalClient{"client": single, "cluster": cluster, "ring": ring}
}

// discreet fails the test if an error shows whose decision it was.
func discreet(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), secret) {
			t.Errorf("the error %q shows %q", err, secret)
		}
	}
}

// A Redis that is not there yet is no reason not to start, and is used as soon
// as it comes.
func TestAbsent(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	server := redistest.NewServer(t)
	testkit.Must(t, server.Stop())
	for _, mode := range modes {
		for name, rdb := range users(t, server.Addr) {
			if name == "ring" && mode.opts != nil {
				continue // New refuses it
			}
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				s := redisstore.New(rdb, append([]redisstore.Option{redisstore.Timeout(timeout)}, mode.opts...)...)
				rules := dailyRules()
				l := testkit.Limiter(t, s, rules...)
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						start := time.Now()
						d, err := l.Allow(t.Context(), "mallory")
						unavailable(t, d, err)
						if took := time.Since(start); took > timeout+margin {
							t.Errorf("it took %v to find nobody", took)
						}
						key := s.Key("mallory", rules[0])
						discreet(t, err, "mallory", key, key[strings.Index(key, "{")+1:strings.Index(key, "}")])
					})
				}
				wg.Wait()
				if n := s.Stats().Unavailable; n != 10 {
					t.Errorf("%d failures were counted, want 10", n)
				}
			})
		}
	}
	s := redisstore.New(users(t, server.Addr)["client"], redisstore.Timeout(timeout))
	l := testkit.Limiter(t, s, dailyRules()...)
	d, err := l.Allow(t.Context(), "k")
	unavailable(t, d, err)
	testkit.Must(t, server.Start())
	eventually(t, func() error {
		_, err := l.Allow(t.Context(), "k")
		return err
	})
}

// A name that does not resolve, a server that asks for a password, a client that
// its owner has closed.
func TestAbsentOtherwise(t *testing.T) {
	t.Parallel()
	locked := redistest.NewServer(t, "--requirepass", "swordfish")
	for name, rdb := range map[string]*redis.Client{
		"no such host": redis.NewClient(&redis.Options{Addr: "weir.invalid:6379"}),
		"no password":  redis.NewClient(&redis.Options{Addr: locked.Addr}),
		"bad password": redis.NewClient(&redis.Options{Addr: locked.Addr, Password: "guess"}),
		"closed":       redis.NewClient(&redis.Options{Addr: locked.Addr, Password: "swordfish"}),
	} {
		t.Cleanup(func() { _ = rdb.Close() })
		stores := make(map[string]*redisstore.Store)
		for _, mode := range modes {
			stores[mode.name] = redisstore.New(rdb, append([]redisstore.Option{redisstore.Timeout(short)}, mode.opts...)...)
		}
		if name == "closed" {
			_ = rdb.Close()
		}
		for mode, s := range stores {
			t.Run(name+"/"+mode, func(t *testing.T) {
				d, err := testkit.Limiter(t, s, dailyRules()...).Allow(t.Context(), "mallory")
				unavailable(t, d, err)
				discreet(t, err, "mallory", "swordfish", "guess")
			})
		}
	}
}

// Only clients that have an automatic pipeline can be Pipelined.
func TestPipelinedRing(t *testing.T) {
	t.Parallel()
	rdb := users(t, "127.0.0.1:1")["ring"]
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "redisstore: Pipelined: ") {
			t.Errorf("it panics with %q", p)
		}
	}()
	redisstore.New(rdb, redisstore.Pipelined())
	t.Error("a Ring was accepted")
}

// A server that is full decides nothing: it neither says yes nor forgets.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	for _, mode := range modes {
		for _, a := range testkit.Algorithms {
			t.Run(mode.name+"/"+a.Name, func(t *testing.T) {
				s := redisstore.New(rdb, append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
				l := testkit.Limiter(t, s, a.Rule("rule", core.PerDay(10)), a.Rule("other", core.PerDay(20)))
				testkit.Admit(t, l, "spent", 10)
				testkit.Admit(t, l, "half", 5)
				limitMemory(t, rdb, "1mb")
				for _, key := range []string{"half", "new"} {
					d, err := l.Allow(t.Context(), key)
					unavailable(t, d, err)
					discreet(t, err, s.Key(key, l.Rules()[0]))
				}
				if d, err := l.Allow(t.Context(), "spent"); err == nil && d.Allowed {
					t.Errorf("a spent key: %+v", d)
				}
				limitMemory(t, rdb, "0")
				for key, want := range map[string]int{"spent": 10, "half": 5, "new": 0} {
					if got := testkit.Used(t, l, key); got[0] != want || got[1] != want {
						t.Errorf("%s has used %v, want %d", key, got, want)
					}
				}
				testkit.Admit(t, l, "half", 5)
			})
		}
	}
}

// limitMemory sets maxmemory, and waits until the server is full or has room.
func limitMemory(t *testing.T, rdb *redis.Client, limit string) {
	t.Helper()
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", limit).Err())
	eventually(t, func() error {
		err := rdb.Set(context.Background(), "filler"+limit, strings.Repeat("x", 1<<20), 0).Err()
		if full := redis.IsOOMError(err); full == (limit == "0") || err != nil && !full {
			return fmt.Errorf("with maxmemory %s: %w", limit, err)
		}
		return nil
	})
}
