package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A server is the measured Redis.
type server struct {
	addr  string
	admin *redis.Client       // for commands that are not measured
	own   []*redistest.Server // the servers that this program has started
}

// connect returns the server at addr, or starts a server if addr is empty.
func connect(ctx context.Context, addr string) (*server, error) {
	s := &server{addr: addr}
	if addr == "" {
		if err := s.start(); err != nil {
			return nil, err
		}
		s.addr = s.own[0].Addr
	}
	s.admin = s.client(4)
	if n, err := s.admin.DBSize(ctx).Result(); err != nil || n > 0 {
		s.close()
		return nil, errors.Join(fmt.Errorf("the Redis at %s must be empty and holds %d keys", s.addr, n), err)
	}
	return s, nil
}

func (s *server) start(args ...string) error {
	own, err := redistest.StartServer(args...)
	if err == nil {
		s.own = append(s.own, own)
	}
	return err
}

// replicate starts a replica of s, and waits until it has all data.
func (s *server) replicate(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if err = s.start("--replicaof", host+" "+port, "--repl-diskless-load", "on-empty-db"); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		replica, err := s.info(ctx, "replication", "slave0")
		if err == nil && strings.Contains(replica, "state=online") {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(errors.New("the replica is not online after 30 s"), err)
		}
	}
}

// stop ends a server that connect has started, and empties any other server.
func (s *server) stop() {
	if len(s.own) == 0 {
		_ = s.empty(context.Background())
	}
	s.close()
}

func (s *server) close() {
	_ = s.admin.Close()
	for _, own := range s.own {
		own.Close()
	}
}

// client returns a client like that of an application process.
func (s *server) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: connections, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// info returns the field name of INFO section.
func (s *server) info(ctx context.Context, section, name string) (string, error) {
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s has no field %s", section, name)
}

func (s *server) number(ctx context.Context, section, name string) (float64, error) {
	text, err := s.info(ctx, section, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// cpu returns the CPU time that the server has used, in seconds.
func (s *server) cpu(ctx context.Context) (float64, error) {
	user, err := s.number(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	sys, err := s.number(ctx, "cpu", "used_cpu_sys")
	return user + sys, err
}

func (s *server) version(ctx context.Context) string {
	v, err := s.info(ctx, "server", "redis_version")
	if err != nil {
		return "(unknown version)"
	}
	return v
}

func (s *server) empty(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }
