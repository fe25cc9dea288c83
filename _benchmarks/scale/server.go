package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a Redis that is measured.
type server struct {
	addr  string
	admin *redis.Client // for what is not measured
	own   []*exec.Cmd   // none if it is somebody else's
}

// connect finds the server at addr, or starts one if addr is empty.
func connect(ctx context.Context, addr string) (*server, error) {
	s := &server{addr: addr}
	if addr == "" {
		var err error
		if s.addr, err = s.start(); err != nil {
			return nil, err
		}
	}
	s.admin = s.client(4)
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	if n, err := s.admin.DBSize(ctx).Result(); err != nil || n > 0 {
		s.addr = "" // it is not ours to empty
		s.stop()
		return nil, errors.Join(fmt.Errorf("the Redis at %s holds %d keys: an empty one is needed", addr, n), err)
	}
	return s, nil
}

// start starts a server without persistence on a free port of this machine. It is
// ended with s.
func (s *server) start(args ...string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err = errors.Join(err, l.Close()); err != nil {
		return "", err
	}
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir()}, args...)
	cmd := exec.Command("redis-server", args...)
	if err = cmd.Start(); err == nil {
		s.own = append(s.own, cmd)
	}
	return addr, err
}

// replicate gives a server of its own a replica, and waits until that has all.
func (s *server) replicate(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if _, err = s.start("--replicaof", host, port, "--repl-diskless-load", "on-empty-db"); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		replica, err := s.info(ctx, "replication", "slave0")
		if err == nil && strings.Contains(replica, "state=online") {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(errors.New("the replica does not come"), err)
		}
	}
}

func (s *server) ready(ctx context.Context) error {
	for deadline := time.Now().Add(15 * time.Second); ; {
		err := s.admin.Ping(ctx).Err()
		if err == nil || ctx.Err() != nil || len(s.own) == 0 || time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends a server that was started here, and empties one that was not.
func (s *server) stop() {
	for _, cmd := range s.own {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, and says so
	}
	if len(s.own) == 0 && s.addr != "" {
		_ = s.admin.FlushAll(context.Background()).Err()
	}
	_ = s.admin.Close()
}

// client is a client as an application process has it.
func (s *server) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: connections, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// info is a number of INFO.
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
	return "", fmt.Errorf("INFO %s says nothing of %s", section, name)
}

func (s *server) number(ctx context.Context, section, name string) (float64, error) {
	text, err := s.info(ctx, section, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// cpu is what the server has used so far, in seconds.
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
		return "of an unknown version"
	}
	return v
}

func (s *server) empty(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }
