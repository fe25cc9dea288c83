package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// stores is the number of stores that the callers use.
const stores = 2

// directName is the name of the connections that faults do not affect.
const directName = "direct"

// A system is a Redis and the stores that share it.
type system struct {
	server  *redistest.Server
	proxies [stores]*redistest.Proxy
	clients [stores]*redis.Client // through the proxies
	stores  [stores]*redisstore.Store

	direct  *redis.Client     // without a proxy
	healthy *redisstore.Store // on direct
}

// startSystem starts Redis and the proxies. The clients of the stores have the default options, with which go-redis
// sends most commands again after an error. If startSystem returns an error, it has closed all it has started.
func startSystem() (*system, error) {
	server, err := redistest.StartServer()
	if err != nil {
		return nil, err
	}
	s := &system{server: server}
	for i := range s.proxies {
		if s.proxies[i], err = redistest.StartProxy(server.Addr); err != nil {
			s.close()
			return nil, err
		}
		s.clients[i] = redis.NewClient(&redis.Options{Addr: s.proxies[i].Addr})
		s.stores[i] = redisstore.New(s.clients[i], "bench")
	}
	s.direct = server.Client(func(o *redis.Options) { o.ClientName = directName })
	s.healthy = redisstore.New(s.direct, "bench", redisstore.Timeout(quietTimeout))
	return s, nil
}

func (s *system) close() {
	for i := range s.proxies {
		if s.clients[i] != nil {
			_ = s.clients[i].Close()
		}
		if s.proxies[i] != nil {
			s.proxies[i].Close()
		}
	}
	s.server.Close()
}

// quietTimeout bounds the wait for the last script, and every operation of the store without faults.
const quietTimeout = 20 * time.Second

// quiet waits until no script of the stores can run any more, after all callers have returned. A store may still
// wait for replies, and requests may be in the buffers of the proxies or of the kernel. Redis executes the requests
// of a connection that was closed before it notices the end. Therefore quiet closes the connections, and waits until
// Redis has no others than direct ones and the stores have no requests. It looks several times in a row, because a
// request that leaves the queue of a store is not counted for a moment.
func (s *system) quiet(ctx context.Context) error {
	const inARow = 3
	last := errors.New("the stores were not observed")
	for n, deadline := 0, time.Now().Add(quietTimeout); n < inARow; {
		for _, p := range s.proxies {
			p.Pass()
			p.Cut()
		}
		time.Sleep(2 * time.Millisecond)
		err := s.busy(ctx)
		if n++; err != nil {
			n, last = 0, err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("requests are under way %v after the last operation: %w", quietTimeout, last)
		}
	}
	return nil
}

// busy returns an error while a store has requests, or Redis has connections of a store.
func (s *system) busy(ctx context.Context) error {
	for i, store := range s.stores {
		if stats := store.Stats(); stats.Running > 0 || stats.Waiting > 0 {
			return fmt.Errorf("store %d has %d round trips and %d waiting requests", i, stats.Running, stats.Waiting)
		}
	}
	list, err := s.direct.Do(ctx, "client", "list").Text()
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if !strings.Contains(line, " name="+directName+" ") {
			return fmt.Errorf("the connection %q is open", line)
		}
	}
	return nil
}
