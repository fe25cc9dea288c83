package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errPortTaken is the one failure to start that another port may cure.
var errPortTaken = errors.New("port is taken")

// An instance is one redis-server with its port and folder, running or not. It
// knows nothing of tests, because a shared one belongs to none.
type instance struct {
	path     string
	args     []string
	port     int
	dir      string
	password string
	started  func() // run after every later start, if set

	mu   sync.Mutex // guards proc; held while starting and stopping
	proc *process   // nil while stopped
}

// launch starts an instance in dir on a free port. The arguments of
// redis-server may depend on the port; they are asked for again if another
// program was quicker to bind it.
func launch(path, dir string, args func(port int) ([]string, error)) (*instance, error) {
	const tries = 10
	var err error
	for range tries {
		i := &instance{path: path, dir: dir}
		if i.port, err = reservePort(); err != nil {
			return nil, err
		}
		if i.args, err = args(i.port); err == nil {
			i.password = argument(i.args, "--requirepass")
			err = i.start()
		}
		if err == nil {
			return i, nil
		}
		releasePort(i.port)
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// serverArgs are the arguments of a server without persistence, and then those
// of the caller: of two values for one setting Redis takes the last.
func serverArgs(dir string, more []string) func(int) ([]string, error) {
	return func(port int) ([]string, error) {
		return append([]string{
			"--port", fmt.Sprint(port),
			"--bind", "127.0.0.1",
			"--save", "",
			"--appendonly", "no",
			"--daemonize", "no",
			"--repl-diskless-sync-delay", "0", // seconds for which a master waits for more replicas
			"--dir", dir,
			"--logfile", filepath.Join(dir, logName),
		}, more...), nil
	}
}

const logName = "redis.log"

func argument(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func (i *instance) addr() string { return loopback(i.port) }

// start runs the server and returns once it answers PING.
func (i *instance) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proc != nil {
		return errors.New("it is running already")
	}
	logged := len(i.log())
	proc, err := spawn(i.path, i.args...)
	if err != nil {
		return err
	}
	if err := poll(startTimeout, func() error { return i.answers(proc) }); err != nil {
		proc.kill()
		log := i.log()[logged:]
		if strings.Contains(log, "Address already in use") || strings.Contains(log, "Failed listening on port") {
			err = errPortTaken
		}
		return fmt.Errorf("redis-server on %s: %w\n%s", i.addr(), err, lastLines(log, 15))
	}
	i.proc = proc
	if i.started != nil {
		i.started()
	}
	return nil
}

// answers is nil if the server on the port is proc and executes commands.
func (i *instance) answers(proc *process) error {
	if proc.ended() {
		return stop{errors.New("it ended while starting")}
	}
	// A plain dial first: go-redis would log every refusal.
	conn, err := net.DialTimeout("tcp", i.addr(), time.Second)
	if err != nil {
		return err
	}
	_ = conn.Close()
	rdb := i.client()
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	// Two test processes may have picked the same port at the same time. Then
	// only one server has it, and the other process must not take it for its own.
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if infoField(info, "process_id") != fmt.Sprint(proc.pid()) {
		return stop{errPortTaken}
	}
	return nil
}

// client is for the questions that this package asks itself: one connection,
// no retries, no patience beyond the context.
func (i *instance) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  i.addr(),
		Password:              i.password,
		Protocol:              2,
		PoolSize:              1,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
	})
}

// ask runs f on a connection of its own with a deadline.
func (i *instance) ask(f func(ctx context.Context, rdb *redis.Client) error) error {
	rdb := i.client()
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f(ctx, rdb)
}

// stop kills the server and waits for its end. A stopped one stays stopped.
func (i *instance) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proc != nil {
		i.proc.kill()
		i.proc = nil
	}
}

// release stops the server for good and gives its port back.
func (i *instance) release() {
	i.stop()
	releasePort(i.port)
}

// running returns the process, or nil while stopped.
func (i *instance) running() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.proc
}

func (i *instance) log() string {
	b, err := os.ReadFile(filepath.Join(i.dir, logName))
	if err != nil {
		return "" // nothing logged yet
	}
	return string(b)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// infoField reads one line of the answer to INFO or CLUSTER INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
