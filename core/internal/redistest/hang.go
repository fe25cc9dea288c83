package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Hang returns the address of a listener that accepts connections, reads
// whatever it is sent and never answers: a server that is frozen, or a network
// that loses every reply. It ends with the test.
func Hang(t testing.TB) string {
	t.Helper()
	l := listen(t, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn) // until either side closes
	})
	return l.addr()
}

// A listener serves loopback connections until its test ends, and then leaves
// neither connections nor goroutines.
type listener struct {
	net   net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex // guards the rest
	conns map[net.Conn]bool
	count int
	ended bool
}

// listen runs serve for every connection, in a goroutine of its own, and closes
// the connection when serve returns.
func listen(t testing.TB, serve func(net.Conn)) *listener {
	t.Helper()
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	l := &listener{net: nl, conns: map[net.Conn]bool{}}
	l.wg.Go(func() {
		for {
			conn, err := nl.Accept()
			if err != nil {
				return // closed by the cleanup
			}
			if !l.keep(conn) {
				continue
			}
			l.wg.Go(func() {
				defer l.forget(conn)
				serve(conn)
			})
		}
	})
	t.Cleanup(l.close)
	return l
}

func (l *listener) addr() string { return l.net.Addr().String() }

// keep counts a connection and remembers it for the end.
func (l *listener) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = conn.Close()
		return false
	}
	l.count++
	l.conns[conn] = true
	return true
}

func (l *listener) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	_ = conn.Close()
}

// cut closes every open connection.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// accepted is the number of connections so far.
func (l *listener) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

func (l *listener) close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	_ = l.net.Close()
	l.cut()
	l.wg.Wait()
}
