package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	masters = 3
	slots   = 16384
)

// startRedis runs one server, or a Cluster of three masters whose nodes tell clients
// the addresses of their proxies. On an error nothing is left.
func startRedis(cluster bool) (servers []*server, err error) {
	defer func() {
		if err != nil {
			closeAll(servers)
			servers = nil
		}
	}()
	n := 1
	if cluster {
		n = masters
	}
	for range n {
		s, err := newServer()
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
		if cluster {
			s.args = []string{
				"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
				"--cluster-require-full-coverage", "no",
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(s.proxy.port),
				"--cluster-announce-bus-port", strconv.Itoa(s.port + busOffset),
			}
		}
	}
	if err := each(servers, (*server).start); err != nil {
		return servers, err
	}
	if cluster {
		err = join(servers)
	}
	return servers, err
}

func closeAll(servers []*server) {
	for _, s := range servers {
		s.close()
	}
}

// each runs f for all servers at once.
func each(servers []*server, f func(*server) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = f(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// join gives the nodes their slots, introduces them to one another and waits until
// each of them serves the whole.
func join(nodes []*server) error {
	for i, s := range nodes {
		first, end := i*slots/len(nodes), (i+1)*slots/len(nodes)
		ctx := context.Background()
		if err := s.rdb.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
			return err
		}
		// Distinct epochs now save the nodes from settling the collision later.
		if err := s.do("cluster", "set-config-epoch", i+1); err != nil {
			return err
		}
		for _, other := range nodes[:i] {
			if err := s.do("cluster", "meet", "127.0.0.1", other.port, other.port+busOffset); err != nil {
				return err
			}
		}
	}
	return each(nodes, complete)
}

// complete waits until s knows all nodes and serves all slots.
func complete(s *server) error {
	return until(func() error {
		info, err := s.ask(func(ctx context.Context) (string, error) { return s.rdb.ClusterInfo(ctx).Result() })
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", fmt.Sprint("cluster_slots_ok:", slots), fmt.Sprint("cluster_known_nodes:", masters)} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("port %d does not say %s", s.port, want)
			}
		}
		return nil
	})
}
