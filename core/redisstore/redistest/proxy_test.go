package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/testkit"
)

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ping sends a PING and returns an error unless it is answered within the timeout.
func ping(conn net.Conn, timeout time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	reply := make([]byte, len("+PONG\r\n"))
	_, err := io.ReadFull(conn, reply)
	return err
}

// pings fails the test unless each of the connections has the wanted outcome: "answer", "silence"
// or "end".
func pings(t *testing.T, when, want string, conns ...net.Conn) {
	t.Helper()
	timeout := startTimeout
	if want == "silence" {
		timeout = 50 * time.Millisecond
	}
	for i, conn := range conns {
		got := "end"
		switch err := ping(conn, timeout); {
		case err == nil:
			got = "answer"
		case errors.Is(err, os.ErrDeadlineExceeded):
			got = "silence"
		}
		if got != want {
			t.Errorf("%s, connection %d: %s, want %s", when, i, got, want)
		}
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Shared(t).Addr)
	used, unused := dial(t, p), dial(t, p)
	pings(t, "at the start", "answer", used)

	const delay = 50 * time.Millisecond
	p.Delay(delay)
	begun := time.Now()
	pings(t, "delayed", "answer", used)
	if took := time.Since(begun); took < delay {
		t.Errorf("an answer came after %v with a delay of %v", took, delay)
	}
	_ = used.SetDeadline(time.Now().Add(startTimeout))
	_, err := io.WriteString(used, "PING\r\nQUIT\r\n")
	testkit.Must(t, err)
	if got, err := io.ReadAll(used); err != nil || string(got) != "+PONG\r\n+OK\r\n" {
		t.Errorf("the replies before the server closes: got %q, %v; want both", got, err)
	}

	used = dial(t, p)
	pings(t, "another connection", "answer", used)
	p.Drop()
	pings(t, "dropped", "silence", used)
	p.Pass()
	pings(t, "a connection that has lost bytes", "silence", used)
	pings(t, "connections that have lost nothing", "answer", unused, dial(t, p))

	p.DropReplies(0)
	lost := dial(t, p)
	pings(t, "replies dropped", "silence", lost)
	p.Pass()
	pings(t, "a connection that has lost a reply", "end", lost)
	p.DropReplies(20 * time.Millisecond)
	pings(t, "replies dropped until a close", "end", dial(t, p))

	p.Pass()
	p.Cut()
	pings(t, "cut", "end", unused)
	open := dial(t, p)
	pings(t, "after a cut", "answer", open)
	n := p.Conns()
	p.Refuse()
	pings(t, "refused", "end", open)
	if conn, err := net.Dial("tcp", p.Addr); err == nil {
		_ = conn.Close()
		t.Error("a proxy that refuses connections has accepted one")
	}
	testkit.Must(t, p.Listen())
	testkit.Must(t, p.Listen())
	pings(t, "after Listen", "answer", dial(t, p))
	if got := p.Conns(); got != n+1 {
		t.Errorf("%d connections, want %d", got, n+1)
	}
}

// Only replies to the named command are lost. A client that retries it on a new connection reaches
// the server and runs the command twice.
func TestProxy_DropRepliesOfCommand(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := NewProxy(t, s.Addr)
	rdb := s.Client(func(o *redis.Options) {
		o.Addr, o.ReadTimeout, o.MaxRetries = p.Addr, 500*time.Millisecond, 1
	})
	key := Prefix(t)
	p.DropReplies(0, "INCR")
	testkit.Must(t, rdb.Set(t.Context(), key, 0, time.Minute).Err())
	var timeout net.Error
	if err := rdb.Incr(t.Context(), key).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("INCR: %v, want a timeout", err)
	}
	testkit.Must(t, poll(func() error {
		if n, err := s.Client().Get(t.Context(), key).Int(); n != 2 {
			return fmt.Errorf("the command ran %d times, want 2: %w", n, err)
		}
		return nil
	}))
	if n := p.Conns(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// Each reply is delivered when it is due: delays of replies that arrive within the delay overlap.
func TestLink_DelaysOverlap(t *testing.T) {
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

func TestMark(t *testing.T) {
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
			t.Errorf("the last %d bytes of %q: got %v, want %v", c.n, c.seen, got, c.want)
		}
	}
}

func TestProxy_CloseEndsGoroutines(t *testing.T) {
	Require(t)
	for _, fault := range []func(*Proxy){
		(*Proxy).Pass, (*Proxy).Drop, (*Proxy).Refuse,
		func(p *Proxy) { p.Delay(time.Hour) }, func(p *Proxy) { p.DropReplies(time.Hour) },
	} {
		for _, addr := range []string{Shared(t).Addr, "127.0.0.1:1"} { // no process listens on port 1
			p, err := StartProxy(addr)
			testkit.Must(t, err)
			_, err = io.WriteString(dial(t, p), "PING\r\n")
			testkit.Must(t, err)
			fault(p)
			p.Close()
			if err := p.Listen(); err == nil {
				t.Error("Listen of a closed proxy: no error")
			}
		}
	}
	// Close waits for the goroutines of its proxy, and parallel tests are paused.
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, name := range []string{"redistest.(*link)", "redistest.(*Proxy)"} {
		if strings.Contains(string(stacks), name) {
			t.Errorf("a goroutine is left in %s:\n%s", name, stacks)
		}
	}
}
