package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name of the master in the configuration of the Sentinel process.
const MasterName = "redistest"

// A Sentinel holds a master, one replica, and a Sentinel process that monitors both. It is safe for
// concurrent use.
type Sentinel struct {
	// Master and Replica have these roles at the start. A failover does not change the fields.
	Master, Replica *Server

	monitor *Server // the Sentinel process
	clients clients
}

// StartSentinel starts a master, a replica and one Sentinel process with a quorum of one. It
// returns when the replica is in sync and the Sentinel process knows both servers. About a second
// after the master stops responding (before Redis 7.0, some seconds), the replica is promoted. args
// are further settings of master and replica as on the command line. The caller must close the
// Sentinel. Tests should use [NewSentinel].
func StartSentinel(args ...string) (*Sentinel, error) {
	s := new(Sentinel)
	if err := s.start(args); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sentinel) start(args []string) (err error) {
	if pw := argument(args, "--requirepass"); pw != "" {
		args = append([]string{"--masterauth", pw}, args...)
	}
	if s.Master, err = StartServer(args...); err != nil {
		return err
	}
	replicaOf := []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Master.inst.port)}
	if s.Replica, err = StartServer(append(replicaOf, args...)...); err != nil {
		return err
	}
	if err = s.Master.inst.awaitReplica(s.Replica.inst); err != nil {
		return fmt.Errorf("redistest: StartSentinel: %w", err)
	}
	if s.monitor, err = start(s.configure); err != nil {
		return err
	}
	s.shorten()
	if err = poll(s.known); err != nil {
		return fmt.Errorf("redistest: StartSentinel: %w", err)
	}
	return nil
}

// Close ends the three processes and closes the clients that Client has returned.
func (s *Sentinel) Close() {
	s.clients.close()
	for _, server := range []*Server{s.monitor, s.Replica, s.Master} {
		if server != nil {
			server.Close()
		}
	}
}

// configure writes the file that a Sentinel requires and later rewrites. There is one Sentinel,
// because three can split their votes and then wait for seconds.
func (s *Sentinel) configure(dir string, port int) ([]string, error) {
	file := filepath.Join(dir, "sentinel.conf")
	lines := []string{
		"port " + strconv.Itoa(port),
		"bind 127.0.0.1",
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", MasterName, s.Master.inst.port),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1500", MasterName),
		fmt.Sprintf("sentinel failover-timeout %s 5000", MasterName),
	}
	if pw := s.Master.inst.password; pw != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", MasterName, pw))
	}
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// shorten makes the Sentinel notice failures sooner, which needs Redis 7.0; with older versions the
// values of the file remain. A Sentinel pings a new master for the first time after a second, or
// after down-after-milliseconds if that is shorter. With down-after-milliseconds of a second or
// less, the Sentinel therefore declares every new master down at once and undoes its own failover,
// so shorten first makes the pings more frequent. While the master is down, a Sentinel reads INFO
// of the replica once a second, and promotes the replica only if the last reply is younger than
// five ping-periods. With a ping-period of 200 ms or less, a first attempt that fails on a busy
// machine is followed by others, ten seconds apart, that can all fail. A Sentinel that a busy
// machine did not schedule for two seconds stays idle for the tilt-period, which is 30 seconds by
// default.
func (s *Sentinel) shorten() {
	if _, err := s.monitor.inst.text("sentinel", "debug", "ping-period", 300, "info-period", 200, "publish-period", 200,
		"tilt-period", 1000); err == nil {
		_, _ = s.monitor.inst.text("sentinel", "set", MasterName, "down-after-milliseconds", 1000)
	}
}

// known returns nil if the Sentinel knows the replica and has declared neither server down.
func (s *Sentinel) known() error {
	return s.ask(func(ctx context.Context, rdb *redis.SentinelClient) error {
		master, err := rdb.Master(ctx, MasterName).Result()
		if err != nil {
			return err
		}
		if master["flags"] != "master" {
			return fmt.Errorf("the flags of the master are %q", master["flags"])
		}
		replicas, err := rdb.Replicas(ctx, MasterName).Result()
		if err != nil {
			return err
		}
		for _, r := range replicas {
			if r["port"] == strconv.Itoa(s.Replica.inst.port) && r["flags"] == "slave" && r["master-link-status"] == "ok" {
				return nil
			}
		}
		return fmt.Errorf("the Sentinel does not know the replica yet: %v", replicas)
	})
}

func (s *Sentinel) ask(f func(context.Context, *redis.SentinelClient) error) error {
	rdb := redis.NewSentinelClient(&redis.Options{
		Addr: s.monitor.Addr, Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return f(ctx, rdb)
}

// Client returns a new client that asks the Sentinel for the master and follows a failover, with
// go-redis's default options. Each edit may change the options. Close closes the client.
func (s *Sentinel) Client(edit ...func(*redis.FailoverOptions)) *redis.Client {
	opts := &redis.FailoverOptions{
		MasterName:    MasterName,
		SentinelAddrs: []string{s.monitor.Addr},
		Password:      s.Master.inst.password,
	}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewFailoverClient(opts)
	s.clients.add(rdb)
	return rdb
}

// Current returns the server that the Sentinel names as the master: Master or Replica.
func (s *Sentinel) Current() (current *Server, err error) {
	err = s.ask(func(ctx context.Context, rdb *redis.SentinelClient) error {
		addr, err := rdb.GetMasterAddrByName(ctx, MasterName).Result()
		if err != nil {
			return err
		}
		for _, server := range []*Server{s.Master, s.Replica} {
			if len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) == server.Addr {
				current = server
				return nil
			}
		}
		return fmt.Errorf("the Sentinel names %v", addr)
	})
	return current, err
}

// Failover stops the current master and returns when the Sentinel names the other server as the
// master, and that server accepts writes. The stopped server becomes the replica when it is started
// again.
func (s *Sentinel) Failover() error {
	old, err := s.Current()
	if err == nil {
		err = old.Stop()
	}
	if err == nil {
		err = poll(func() error {
			now, err := s.Current()
			if err != nil {
				return err
			}
			return now.inst.replication("role", "master")
		})
	}
	if err != nil {
		return fmt.Errorf("redistest: Failover: %w", err)
	}
	return nil
}
