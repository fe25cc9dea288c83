package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A SentinelSet is a master with one replica, watched by a Sentinel.
type SentinelSet struct {
	// MasterName is the name under which the Sentinel knows the master.
	MasterName string
	// Master and Replica are named by their roles at the start; a failover
	// exchanges the roles and not the fields.
	Master, Replica *Server
	// Sentinel is the process that watches.
	Sentinel *Server

	t testing.TB
}

// Sentinel starts a master, a replica and one Sentinel with a quorum of one for
// this test alone, and returns when the replica is in sync and the Sentinel
// knows both. It calls a silent master dead after half a second and promotes the
// replica within another (before Redis 7.0: 1.5 s and some seconds). One Sentinel,
// because three may split their votes and then wait for seconds before they vote
// again. args are settings for both servers. All end with the test.
func Sentinel(t testing.TB, args ...string) *SentinelSet {
	t.Helper()
	path := binary(t)
	s := &SentinelSet{MasterName: "weir", t: t}
	if pw := argument(args, "--requirepass"); pw != "" {
		args = append([]string{"--masterauth", pw}, args...)
	}
	s.Master = Single(t, args...)
	s.Replica = Single(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Master.inst.port)}, args...)...)
	if err := poll(startTimeout, func() error { return linkUp(s.Replica.inst) }); err != nil {
		t.Fatalf("redistest: Sentinel: %v", err)
	}
	dir := t.TempDir()
	s.Sentinel = adopt(t, "redis-sentinel", path, dir, s.sentinelArgs(dir))
	s.hurry()
	s.Sentinel.inst.started = s.hurry
	if err := poll(startTimeout, s.known); err != nil {
		t.Fatalf("redistest: Sentinel: %v", err)
	}
	return s
}

// hurry makes the Sentinel quick. It pings a new master for the first time after
// a second, or after the time to call it dead if that is shorter: with less than
// a second it calls every new master dead at once, and undoes its own failover.
// So the pings have to become frequent first, which Redis 7.0 allows. Older ones
// keep the patience that the file gives them.
func (s *SentinelSet) hurry() {
	_ = s.Sentinel.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
		err := rdb.Do(ctx, "sentinel", "debug", "ping-period", 100, "info-period", 200, "publish-period", 200).Err()
		if err != nil {
			return err
		}
		return rdb.Do(ctx, "sentinel", "set", s.MasterName, "down-after-milliseconds", 500).Err()
	})
}

// sentinelArgs writes the file that a Sentinel insists on, and later rewrites.
func (s *SentinelSet) sentinelArgs(dir string) func(int) ([]string, error) {
	return func(port int) ([]string, error) {
		conf := filepath.Join(dir, "sentinel.conf")
		lines := []string{
			fmt.Sprintf("port %d", port),
			"bind 127.0.0.1",
			"daemonize no",
			fmt.Sprintf("dir %q", dir),
			fmt.Sprintf("logfile %q", filepath.Join(dir, logName)),
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", s.MasterName, s.Master.inst.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s 1500", s.MasterName),
			fmt.Sprintf("sentinel failover-timeout %s 5000", s.MasterName),
		}
		if pw := s.Master.inst.password; pw != "" {
			lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", s.MasterName, pw))
		}
		return []string{conf, "--sentinel"}, os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}
}

// known is nil once the Sentinel has found the replica and calls nobody down.
func (s *SentinelSet) known() error {
	rdb, done := s.sentinel()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	master, err := rdb.Master(ctx, s.MasterName).Result()
	if err != nil {
		return err
	}
	if master["flags"] != "master" {
		return fmt.Errorf("the sentinel says of the master: %s", master["flags"])
	}
	replicas, err := rdb.Replicas(ctx, s.MasterName).Result()
	if err != nil {
		return err
	}
	for _, r := range replicas {
		if r["port"] == strconv.Itoa(s.Replica.inst.port) && r["flags"] == "slave" && r["master-link-status"] == "ok" {
			return nil
		}
	}
	return fmt.Errorf("the sentinel does not know the replica yet: %v", replicas)
}

func (s *SentinelSet) sentinel() (_ *redis.SentinelClient, done func()) {
	rdb := redis.NewSentinelClient(&redis.Options{
		Addr: s.Sentinel.Addr, Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	return rdb, func() { _ = rdb.Close() }
}

// Client returns a new client that asks the Sentinel who is master and follows
// a failover, with go-redis's default options, which each edit may change. It is
// closed when the test ends.
func (s *SentinelSet) Client(edit ...func(*redis.FailoverOptions)) *redis.Client {
	opts := &redis.FailoverOptions{
		MasterName:    s.MasterName,
		SentinelAddrs: []string{s.Sentinel.Addr},
		Password:      s.Master.inst.password,
	}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewFailoverClient(opts)
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Current is the server that the Sentinel calls master now, nil if it does not
// answer.
func (s *SentinelSet) Current() *Server {
	rdb, done := s.sentinel()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	addr, err := rdb.GetMasterAddrByName(ctx, s.MasterName).Result()
	if err != nil {
		return nil
	}
	for _, server := range []*Server{s.Master, s.Replica} {
		if len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) == server.Addr {
			return server
		}
	}
	return nil
}

// Failover kills the present master and returns the server that took over, once
// the Sentinel names it and it takes writes. The dead one stays dead; started
// again it becomes the replica.
func (s *SentinelSet) Failover() *Server {
	s.t.Helper()
	old := s.Current()
	if old == nil {
		s.t.Fatal("redistest: Failover: the sentinel names no master")
	}
	old.Stop()
	var now *Server
	err := poll(startTimeout, func() error {
		if now = s.Current(); now == nil || now == old {
			return fmt.Errorf("the sentinel has promoted nobody")
		}
		return now.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
			info, err := rdb.Info(ctx, "replication").Result()
			if err == nil && infoField(info, "role") != "master" {
				err = fmt.Errorf("%s is not master yet", now.Addr)
			}
			return err
		})
	})
	if err != nil {
		s.t.Fatalf("redistest: Failover: %v", err)
	}
	return now
}
