package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A server is a redis-server process, and the proxy through which the application
// connects to it.
type server struct {
	*redistest.Server
	proxy *redistest.Proxy
	rdb   *redis.Client // a direct connection, without the proxy
}

// startRedis starts one server, or a Cluster of three masters, and a proxy for each
// server.
func (f *fleet) startRedis() error {
	var all []*redistest.Server
	if f.config.Cluster {
		cluster, err := redistest.StartCluster()
		if err != nil {
			return err
		}
		f.cluster, all = cluster, cluster.Nodes
	} else {
		s, err := redistest.StartServer()
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	f.config.Proxies = make(map[string]string)
	for _, s := range all {
		rdb := s.Client(func(o *redis.Options) { o.PoolSize, o.DialerRetries, o.MaxRetries = 2, 1, -1 })
		node := &server{Server: s, rdb: rdb}
		f.servers = append(f.servers, node)
		var err error
		if node.proxy, err = redistest.StartProxy(s.Addr); err != nil {
			return err
		}
		f.config.Redis = append(f.config.Redis, s.Addr)
		f.config.Proxies[s.Addr] = node.proxy.Addr
	}
	return nil
}

func (f *fleet) closeRedis() {
	for _, s := range f.servers {
		if s.proxy != nil {
			s.proxy.Close()
		}
		s.Close()
	}
	if f.cluster != nil {
		f.cluster.Close()
	}
}

// each calls f for all servers concurrently.
func each(servers []*server, f func(*server) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = f(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// do sends a command directly, without the proxy.
func (s *server) do(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.rdb.Do(ctx, args...).Err()
}
