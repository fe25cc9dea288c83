package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestHang(t *testing.T) {
	opts := &redis.Options{Addr: Hang(t)}
	impatient(50 * time.Millisecond)(opts)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	expectTimeout(t, rdb.Ping(t.Context()).Err())
}

func expectTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

// through returns a proxy to s and a client of it that tries each command once.
func through(t *testing.T, s *Server, timeout time.Duration) (*Proxy, *redis.Client) {
	t.Helper()
	p := DropReplies(t, s.Addr)
	opts := &redis.Options{Addr: p.Addr}
	impatient(timeout)(opts)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return p, rdb
}

// count is what INCR has made of key, asked for without the proxy.
func count(t *testing.T, s *Server, key string) int {
	t.Helper()
	n, err := s.Client().Get(t.Context(), key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func TestProxyPass(t *testing.T) {
	s := Shared(t)
	p, rdb := through(t, s, 5*time.Second)
	large := strings.Repeat("x", 1<<20)
	key := Prefix(t)
	if err := rdb.Set(t.Context(), key, large, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got := rdb.Get(t.Context(), key).Val(); got != large {
		t.Errorf("of %d bytes %d came back the same", len(large), len(got))
	}
	if n := p.Conns(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// What the server said before it closed the connection still arrives.
func TestProxyDeliversLastWords(t *testing.T) {
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		p := DropReplies(t, Shared(t).Addr)
		p.Delay(delay)
		conn := dial(t, p)
		if _, err := io.WriteString(conn, "PING\r\nQUIT\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "+PONG\r\n+OK\r\n" {
			t.Errorf("delay %v: got %q, %v", delay, got, err)
		}
	}
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestProxySwallow(t *testing.T) {
	s := Shared(t)
	p, rdb := through(t, s, 50*time.Millisecond)
	key := Prefix(t)
	ping(t, rdb)
	p.Swallow(0)
	expectTimeout(t, rdb.Incr(t.Context(), key).Err())
	eventually(t, startTimeout, func() error {
		if n := count(t, s, key); n != 1 {
			return fmt.Errorf("the request ran %d times, want once", n)
		}
		return nil
	})
	expectTimeout(t, rdb.Ping(t.Context()).Err()) // a new connection gets no greeting
	p.Pass()
	ping(t, rdb)
}

// Only the named command is silenced: a client that tries it again on a new
// connection gets through to the server, and runs it twice.
func TestProxySwallowCommand(t *testing.T) {
	s := Shared(t)
	p, rdb := through(t, s, 50*time.Millisecond)
	key := Prefix(t)
	p.Swallow(0, "INCR")
	for want := 1; want <= 2; want++ {
		if err := rdb.Set(t.Context(), key+"other", want, time.Minute).Err(); err != nil {
			t.Errorf("a command that was not named: %v", err)
		}
		expectTimeout(t, rdb.Incr(t.Context(), key).Err())
		eventually(t, startTimeout, func() error {
			if n := count(t, s, key); n != want {
				return fmt.Errorf("it ran %d times, want %d", n, want)
			}
			return nil
		})
	}
	if n := p.Conns(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestProxySwallowThenClose(t *testing.T) {
	p := DropReplies(t, Shared(t).Addr)
	p.Swallow(20 * time.Millisecond)
	conn := dial(t, p)
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v; want the connection closed without an answer", got, err)
	}
}

// A connection that lost a reply must not deliver the next one in its place.
func TestProxyNeverMisaligns(t *testing.T) {
	p := DropReplies(t, Shared(t).Addr)
	conn := dial(t, p)
	p.Swallow(0, "echo")
	if _, err := io.WriteString(conn, "*2\r\n$4\r\necho\r\n$1\r\na\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, startTimeout, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for k := range p.links {
			if k.lost {
				return nil
			}
		}
		return errors.New("the reply is not lost yet")
	})
	p.Pass()
	if got, err := io.ReadAll(conn); len(got) != 0 {
		t.Errorf("got %q, %v; want nothing but the end", got, err)
	}
}

func TestProxyRefuseAndCut(t *testing.T) {
	p, rdb := through(t, Shared(t), time.Second)
	ping(t, rdb)
	open := dial(t, p)
	p.Refuse()
	if got, err := io.ReadAll(open); len(got) != 0 {
		t.Errorf("an open connection: %q, %v; want its end", got, err)
	}
	before := p.Conns()
	if got, err := io.ReadAll(dial(t, p)); len(got) != 0 {
		t.Errorf("a new connection: %q, %v; want its end", got, err)
	}
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("PING went through a proxy that refuses")
	}
	if n := p.Conns(); n <= before {
		t.Errorf("%d connections, %d before: refused ones are not counted", n, before)
	}
	p.Pass()
	ping(t, rdb)
	open = dial(t, p)
	if _, err := io.WriteString(open, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(open, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if got, err := io.ReadAll(open); len(got) != 0 {
		t.Errorf("a cut connection: %q, %v; want its end", got, err)
	}
	if _, err := io.WriteString(dial(t, p), "PING\r\n"); err != nil {
		t.Errorf("a connection after the cut: %v", err)
	}
}

func TestProxyDelay(t *testing.T) {
	const delay = 50 * time.Millisecond
	p, rdb := through(t, Shared(t), 5*time.Second)
	ping(t, rdb)
	p.Delay(delay)
	begin := time.Now()
	ping(t, rdb)
	if took := time.Since(begin); took < delay {
		t.Errorf("PING took %v with a delay of %v", took, delay)
	}
}

// Each reply is delivered when it is due: the delays of replies that are under
// way together do not add up.
func TestDelaysOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, gap, n = 100 * time.Millisecond, 10 * time.Millisecond, 8
		client, far := net.Pipe()
		server, _ := net.Pipe()
		k := &link{client: client, server: server, replies: make(chan reply, n), ended: make(chan struct{})}
		begin := time.Now()
		for i := range n {
			k.replies <- reply{[]byte{byte(i)}, begin.Add(delay + time.Duration(i)*gap)}
		}
		go k.deliver()
		for i := range n {
			got := make([]byte, 1)
			if _, err := far.Read(got); err != nil || got[0] != byte(i) {
				t.Fatalf("reply %d: got %v, %v", i, got, err)
			}
			if took, want := time.Since(begin), delay+time.Duration(i)*gap; took != want {
				t.Errorf("reply %d came after %v, want %v", i, took, want)
			}
		}
		k.close()
	})
}

func TestCommandMark(t *testing.T) {
	for _, c := range []struct {
		seen string
		n    int // bytes that are new
		want bool
	}{
		{"*2\r\n$7\r\nEVALSHA\r\n$1\r\na\r\n", 24, true},
		{"*1\r\n$7\r\nevalsha\r\n", 1, true},                       // the last byte completes it
		{"*1\r\n$7\r\nevalsha\r\n*1\r\n$4\r\nping\r\n", 14, false}, // it was complete before
		{"*1\r\n$4\r\neval\r\n", 14, false},                        // another command
		{"*1\r\n$7\r\nevalsha", 15, false},                         // not yet complete
		{"*1\r\n$8\r\nevalshas\r\n", 18, false},                    // a longer word
		{"*2\r\n$4\r\nping\r\n$10\r\nmy-evalsha\r\n", 31, false},   // the end of a word
		{"*1\r\n$4\r\nping\r\n*2\r\n$7\r\nEvalSha\r\n", 13, true},  // in the second of two reads
		{"", 0, false},
	} {
		if got := commandMark("EVALSHA").in([]byte(c.seen), c.n); got != c.want {
			t.Errorf("the last %d bytes of %q: %v, want %v", c.n, c.seen, got, c.want)
		}
	}
}

func TestProxyLeavesNothing(t *testing.T) {
	outer := t // its connections are still open when the proxies end
	t.Run("proxy", func(t *testing.T) {
		p := DropReplies(t, Shared(t).Addr)
		for _, mode := range []func(){
			p.Pass, func() { p.Delay(time.Hour) }, func() { p.Swallow(time.Hour) }, func() { p.Swallow(0) }, p.Refuse,
		} {
			mode()
			if _, err := io.WriteString(dial(outer, p), "PING\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		dial(outer, DropReplies(t, Hang(t)))
		dial(outer, DropReplies(t, "127.0.0.1:1")) // nobody there
	})
	eventually(t, startTimeout, func() error {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, name := range []string{"redistest.(*link)", "redistest.(*Proxy)", "redistest.(*listener)", "redistest.listen"} {
			if strings.Contains(string(stacks), name) {
				return fmt.Errorf("a goroutine is left in %s:\n%s", name, stacks)
			}
		}
		return nil
	})
}
