package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is one redis-server process, running or stopped. It is safe for concurrent use.
type Server struct {
	// Addr is the host:port of the server. Stop and Start do not change it.
	Addr string

	inst    *instance
	shared  bool
	clients clients
}

// clients holds the clients of a server or of a group of servers, and closes them with the servers.
// It is safe for concurrent use.
type clients struct {
	mu   sync.Mutex
	open []io.Closer
}

func (c *clients) add(rdb io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, rdb)
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rdb := range c.open {
		_ = rdb.Close()
	}
	c.open = nil
}

// StartServer starts a redis-server without persistence, otherwise with Redis's default settings,
// and returns when the server responds. args are settings as on the command line ("--maxmemory",
// "5mb") and take precedence. The caller must close the server. Tests should use [NewServer].
func StartServer(args ...string) (*Server, error) {
	return start(func(string, int) ([]string, error) { return args, nil })
}

func start(args func(dir string, port int) ([]string, error)) (*Server, error) {
	inst, err := launch(args)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return &Server{Addr: inst.addr(), inst: inst}, nil
}

// Close ends the server, removes its files and closes the clients that Client has returned. If the
// server is shared, Close only closes the clients.
func (s *Server) Close() {
	s.clients.close()
	if !s.shared {
		s.inst.release()
	}
}

// Client returns a new client with go-redis's default options, the password set by "--requirepass"
// and a ReadTimeout of a minute, because a server on a busy machine may answer after the default
// of 3 seconds. Each edit may change the options. Close closes the client.
func (s *Server) Client(edit ...func(*redis.Options)) *redis.Client {
	opts := &redis.Options{Addr: s.Addr, Password: s.inst.password, ReadTimeout: startTimeout}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClient(opts)
	s.clients.add(rdb)
	return rdb
}

// Stop ends the server with SIGKILL and returns when it has ended. Its keys are lost. Stop does
// nothing if the server is stopped, and returns an error if the server is shared.
func (s *Server) Stop() error {
	if err := s.owned("Stop"); err != nil {
		return err
	}
	s.inst.stop()
	return nil
}

// Start runs a stopped server again, with the same settings on the same port, and returns when the
// server responds. It returns an error if the server runs, is closed or is shared.
func (s *Server) Start() error {
	if err := s.owned("Start"); err != nil {
		return err
	}
	if err := s.inst.start(); err != nil {
		return fmt.Errorf("redistest: Start: %w", err)
	}
	return nil
}

// Pause suspends the server with SIGSTOP. The kernel still accepts connections, but the server does
// not respond to requests until Resume. Pause returns an error if the server is stopped or shared.
func (s *Server) Pause() error {
	return s.signal("Pause", func(proc *process) error {
		if err := proc.freeze(); err != nil {
			return err
		}
		// The signal takes effect a moment later.
		return poll(s.inst.silent)
	})
}

// Resume continues a paused server with SIGCONT and returns once the server responds again.
// Requests that arrived during the pause are executed. Resume returns an error if the server is
// stopped or shared.
func (s *Server) Resume() error {
	return s.signal("Resume", func(proc *process) error {
		if err := proc.resume(); err != nil {
			return err
		}
		return poll(func() error { return s.inst.replies(proc) })
	})
}

func (s *Server) signal(verb string, f func(*process) error) error {
	if err := s.owned(verb); err != nil {
		return err
	}
	proc := s.inst.running()
	if proc == nil {
		return fmt.Errorf("redistest: %s: the server is stopped", verb)
	}
	if err := f(proc); err != nil {
		return fmt.Errorf("redistest: %s: %w", verb, err)
	}
	return nil
}

// WaitReplica waits until replica, which replicates s, has acknowledged every write that s executed
// before the call, and receives later writes as they happen. It returns an error after a minute.
func (s *Server) WaitReplica(replica *Server) error {
	if err := s.inst.awaitReplica(replica.inst); err != nil {
		return fmt.Errorf("redistest: WaitReplica: %w", err)
	}
	return nil
}

// PID returns the process ID of the server, or 0 while it is stopped.
func (s *Server) PID() int {
	if proc := s.inst.running(); proc != nil {
		return proc.pid
	}
	return 0
}

// owned returns an error if the server is shared with other tests.
func (s *Server) owned(verb string) error {
	if s.shared {
		return fmt.Errorf("redistest: %s: the server is shared with other tests; use NewServer or NewCluster", verb)
	}
	return nil
}

// An instance is the process, port and folder of a server. All Servers that Shared returns use the
// same instance.
type instance struct {
	path     string
	args     []string
	port     int
	dir      string
	password string

	mu       sync.Mutex // guards the fields below; held while starting and stopping
	proc     *process   // nil before the first start; it may have ended
	released bool
}

// errPortTaken is returned if another process has the port of the server.
var errPortTaken = errors.New("another process has the port")

// launch starts an instance on a free port and in a folder of its own. It calls args again with
// another port if another process takes the port first.
func launch(args func(dir string, port int) ([]string, error)) (*instance, error) {
	path, err := lookServer()
	if err != nil {
		return nil, err
	}
	const tries = 10
	for range tries {
		var i *instance
		if i, err = newInstance(path, args); err != nil {
			break
		}
		if err = i.start(); err == nil {
			return i, nil
		}
		i.release()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

func newInstance(path string, args func(dir string, port int) ([]string, error)) (i *instance, err error) {
	i = &instance{path: path}
	if i.port, err = reservePort(); err != nil {
		return nil, err
	}
	if i.dir, err = os.MkdirTemp("", "redistest"); err == nil {
		i.args, err = args(i.dir, i.port)
	}
	if err != nil {
		i.release()
		return nil, err
	}
	i.password = argument(i.args, "--requirepass")
	if len(i.args) == 0 || strings.HasPrefix(i.args[0], "--") { // no configuration file
		i.args = slices.Concat([]string{
			"--port", strconv.Itoa(i.port),
			"--bind", "127.0.0.1",
			"--save", "",
			"--repl-diskless-sync-delay", "0", // seconds for which a master waits for more replicas
		}, i.args)
	}
	return i, nil
}

func argument(args []string, name string) string {
	if n := slices.Index(args, name); n >= 0 && n+1 < len(args) {
		return args[n+1]
	}
	return ""
}

func (i *instance) addr() string { return loopback(i.port) }

// start runs the server and returns when it responds.
func (i *instance) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.released:
		return errors.New("the server is closed")
	case i.proc != nil && !i.proc.ended():
		return errors.New("the server runs")
	}
	logged := len(i.log())
	proc, err := spawn(i.path, i.dir, i.args)
	if err != nil {
		return err
	}
	if err := poll(func() error { return i.replies(proc) }); err != nil {
		proc.kill()
		log := i.log()[logged:]
		if strings.Contains(log, "Address already in use") || strings.Contains(log, "Failed listening on port") {
			err = errPortTaken
		}
		return fmt.Errorf("%s on %s: %w\n%s", filepath.Base(i.path), i.addr(), err, lastLines(log, 15))
	}
	i.proc = proc
	return nil
}

// replies returns nil if the server on the port is proc and executes commands.
func (i *instance) replies(proc *process) error {
	if proc.ended() {
		return permanent{errors.New("the server ended while it was starting")}
	}
	// Without this check, go-redis would log every connection that is refused.
	conn, err := net.DialTimeout("tcp", i.addr(), time.Second)
	if err != nil {
		return err
	}
	_ = conn.Close()
	return i.ask(func(ctx context.Context, rdb *redis.Client) error {
		// A process that has taken the port may never reply.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return err
		}
		// Two processes may have chosen the same port at the same time.
		info, err := rdb.Info(ctx, "server").Result()
		if err == nil && infoField(info, "process_id") != strconv.Itoa(proc.pid) {
			err = permanent{errPortTaken}
		}
		return err
	})
}

// silent returns nil if a request on a new connection gets no reply.
func (i *instance) silent() error {
	conn, err := net.DialTimeout("tcp", i.addr(), time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err = conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return errors.New("the server answers")
}

// ask calls f with a client that has one connection, no retries and no timeout other than ctx,
// which ends after some seconds.
func (i *instance) ask(f func(ctx context.Context, rdb *redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  i.addr(),
		Password:              i.password,
		Protocol:              2,
		PoolSize:              1,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
	})
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f(ctx, rdb)
}

// text executes a command whose reply is text.
func (i *instance) text(args ...any) (text string, err error) {
	err = i.ask(func(ctx context.Context, rdb *redis.Client) error {
		text, err = rdb.Do(ctx, args...).Text()
		return err
	})
	return text, err
}

// replication returns nil if a line of INFO replication has the wanted value.
func (i *instance) replication(name, want string) error {
	info, err := i.text("info", "replication")
	if got := infoField(info, name); err == nil && got != want {
		err = fmt.Errorf("%s on %s is %q, want %s", name, i.addr(), got, want)
	}
	return err
}

// awaitReplica waits until replica receives the writes of i as they happen, and has acknowledged
// those from before the call. A replica whose link is up may still wait for its master to begin.
func (i *instance) awaitReplica(replica *instance) error {
	info, err := i.text("info", "replication")
	if err != nil {
		return err
	}
	want, err := strconv.ParseInt(infoField(info, "master_repl_offset"), 10, 64)
	if err != nil {
		return err
	}
	return poll(func() error {
		info, err := i.text("info", "replication")
		if err != nil {
			return err
		}
		state, offset := replicaState(info, replica.port)
		if state != "online" || offset < want {
			return fmt.Errorf("the replica %s is %q on %s with the offset %d, want online with %d", replica.addr(), state, i.addr(), offset, want)
		}
		return nil
	})
}

// replicaState returns the state of the replica on port and the offset that it has acknowledged,
// from a reply to INFO replication.
func replicaState(info string, port int) (state string, offset int64) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !strings.HasPrefix(name, "slave") {
			continue
		}
		fields := make(map[string]string)
		for field := range strings.SplitSeq(value, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		if fields["port"] == strconv.Itoa(port) {
			offset, _ = strconv.ParseInt(fields["offset"], 10, 64)
			return fields["state"], offset
		}
	}
	return "", 0
}

// infoField returns one line of the reply to INFO or CLUSTER INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (i *instance) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kill()
}

// kill ends the process. The caller must hold mu.
func (i *instance) kill() {
	if i.proc != nil {
		i.proc.kill()
	}
}

// release ends the server, removes its folder and releases its port. The instance cannot start
// again.
func (i *instance) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.released {
		return
	}
	i.released = true
	i.kill()
	if i.dir != "" {
		_ = os.RemoveAll(i.dir)
	}
	releasePort(i.port)
}

// running returns the process, or nil while the server is stopped.
func (i *instance) running() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proc == nil || i.proc.ended() {
		return nil
	}
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
